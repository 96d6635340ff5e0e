"""Correlation matrices and maps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from acova.bench.cells import Results
from acova.bench.charts import new_figure, numbers_of, panels
from acova.plots.style import MARKERS, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = ("-", "--", "-.", ":")


def simulation(results: Results) -> "Figure | None":
    """Draw the learned correlation of two views for every noise and missing rate, averaged over runs."""
    spec = results.spec
    values = np.full((len(spec.data), len(spec.missing)), np.nan)
    spreads = np.zeros_like(values)
    for row, data in enumerate(spec.data):
        for column, missing in enumerate(spec.missing):
            found = [matrix[0, 1] for _, matrix in _matrices(results, data.name, missing)]
            if found:
                values[row, column] = np.mean(found)
                spreads[row, column] = np.std(found, ddof=1) if len(found) > 1 else np.nan
    if np.isnan(values).all():
        return None
    figure, (ax,) = panels(1, 6.0, 0.7 * len(spec.data) + 1.6)
    image = ax.imshow(values, cmap="cividis", vmin=min(0.0, float(np.nanmin(values))), vmax=1, aspect="auto")
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            spread = "" if np.isnan(spreads[row, column]) else f"\n± {spreads[row, column]:.2f}"
            colour = "black" if value > 0.6 else "white"
            ax.text(column, row, f"{value:.2f}{spread}", ha="center", va="center", color=colour)
    ax.set_xticks(range(len(spec.missing)), [f"{rate:g} %" for rate in spec.missing])
    ax.set_yticks(range(len(spec.data)), [data.name for data in spec.data])
    ax.set(xlabel="samples that lack a view", title="Learned correlation of two copies")
    figure.colorbar(image, ax=ax)
    return figure


def over_epochs(results: Results) -> "Figure | None":
    """Draw R after some epochs (columns) at every rate (rows), and ‖R − I‖ after every epoch, per data set."""
    spec = results.spec
    ends = numbers_of(results)
    names = [data.name for data in spec.data if any(p[0] == data.name and p[2] in ends for p in results.rows)]
    if not names:
        return None
    columns, lines = len(ends), len(spec.missing)
    figure = new_figure(1.5 * columns + 3.6, (1.6 * lines + 0.6) * len(names))
    for part, name in zip(figure.subfigures(len(names), 1, squeeze=False)[:, 0], names, strict=True):
        grid = part.add_gridspec(lines, columns + 3)
        for line, missing in enumerate(spec.missing):
            for column, (method, end) in enumerate(ends.items()):
                found = _matrices(results, name, missing, method)
                if not found:
                    continue
                ax = part.add_subplot(grid[line, column])
                names_of_views, matrix = found[0]
                image = _matrix(
                    ax, matrix, names_of_views if column == 0 else (), names_of_views if line + 1 == lines else ()
                )
                ax.set_title(f"epoch {end}" if line == 0 else "", fontsize=9)
                if column == 0:
                    ax.set_ylabel(f"{missing:g} %", fontsize=10)
        part.colorbar(image, ax=part.axes, shrink=0.5, location="left")
        ax = part.add_subplot(grid[:, columns:])
        _distances(ax, results, name, max(ends, key=lambda method: ends[method]))
        part.suptitle(name)
    return figure


def _distances(ax: "Axes", results: Results, name: str, method: str) -> None:
    for number, missing in enumerate(results.spec.missing):
        for run in range(results.spec.runs):
            row = results.rows.get((name, float(missing), method, run))
            history = (row or {}).get("records", {}).get("history") or {}
            distance = history.get("correlation_distance", [])
            label = f"{missing:g} %" if run == 0 else None
            style = _STYLES[number % len(_STYLES)]
            ax.plot(range(1, len(distance) + 1), distance, color=PALETTE[number], linestyle=style, label=label)
    ax.set(xlabel="epoch", ylabel="‖R − I‖", ylim=(0, None))
    ax.legend(frameon=False, title="samples that lack views")


def stability(results: Results) -> "Figure | None":
    """Draw the mean of R over runs with the standard deviation of every entry, a panel per rate."""
    spec = results.spec
    chosen = [(data.name, rate) for data in spec.data for rate in spec.missing if _matrices(results, data.name, rate)]
    if not chosen:
        return None
    figure, axes = panels(len(chosen), 4.6, 4.2)
    for ax, (name, rate) in zip(axes, chosen, strict=True):
        found = _matrices(results, name, rate)
        stack = np.stack([matrix for _, matrix in found])
        spread = stack.std(axis=0, ddof=1) if len(stack) > 1 else np.zeros_like(stack[0])
        image = _matrix(ax, stack.mean(axis=0), found[0][0], found[0][0])
        for (row, column), value in np.ndenumerate(stack.mean(axis=0)):
            colour = "white" if abs(value) > 0.6 else "black"
            text = f"{value:.2f}" if row == column else f"{value:.2f}\n±{spread[row, column]:.2f}"
            ax.text(column, row, text, ha="center", va="center", color=colour, fontsize=7.5)
        ax.set_title(f"{name}, {rate:g} % incomplete, {len(stack)} runs", fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.8)
    return figure


def over_rates(results: Results) -> "Figure | None":
    """Draw ‖R − I‖ over the missing rates, a panel per data set, a line per method."""
    spec = results.spec
    found = {
        (data.name, method.name): [
            (rate, [np.linalg.norm(matrix - np.eye(len(matrix))) for _, matrix in matrices])
            for rate in spec.rates(data)
            if (matrices := _matrices(results, data.name, rate, method.name))
        ]
        for data in spec.data
        for method in spec.methods
    }
    names = [data.name for data in spec.data if any(found[data.name, method.name] for method in spec.methods)]
    if not names:
        return None
    figure, axes = panels(len(names), 3.5, 3.2, per_row=3)
    for ax, name in zip(axes, names, strict=True):
        for number, method in enumerate(spec.methods):
            points = found[name, method.name]
            means = [np.mean(values) for _, values in points]
            spreads = [np.std(values, ddof=1) if len(values) > 1 else 0.0 for _, values in points]
            look: dict[str, Any] = {
                "color": PALETTE[number % len(PALETTE)],
                "marker": MARKERS[number % len(MARKERS)],
                "capsize": 2.5,
            }
            style = _STYLES[number % len(_STYLES)]
            rates = [rate for rate, _ in points]
            ax.errorbar(rates, means, spreads, label=method.name, linestyle=style, **look)
        ax.set(title=name, xlabel="samples that lack views [%]", ylabel="‖R − I‖", ylim=(0, None))
    axes[0].legend(frameon=False)
    return figure


def maps(results: Results) -> "Figure | None":
    """Draw a t-SNE map per method at the lowest rate, and R at the highest."""
    spec = results.spec
    name = next((data.name for data in spec.data if any(place[0] == data.name for place in results.rows)), None)
    low, high = float(min(spec.missing)), float(max(spec.missing))
    rows = {method.name: results.rows.get((name or "", low, method.name, 0)) for method in spec.methods}
    drawn = {method: row for method, row in rows.items() if row and row.get("records", {}).get("embedding")}
    if not drawn or name is None:
        return None
    learned = _matrices(results, name, high, spec.methods[-1].name)
    figure, axes = panels(len(drawn) + bool(learned), 3.7, 3.6)
    for ax, (method, row) in zip(axes, drawn.items(), strict=False):
        embedding = row["records"]["embedding"]
        points, classes = np.array(embedding["points"]), np.array(embedding["classes"])
        for label in np.unique(classes):
            x, y = points[classes == label].T
            colour, marker = PALETTE[label % len(PALETTE)], MARKERS[label % len(MARKERS)]
            ax.scatter(x, y, s=float(np.clip(6000 / len(points), 3, 14)), c=colour, marker=marker, linewidths=0)
        ax.set(xticks=[], yticks=[], title=f"{method}, {low:g} %: ACC {row['acc']:.3f}")
    if learned:
        names, matrix = learned[0]
        image = _matrix(axes[-1], matrix, names, names)
        axes[-1].set_title(f"{spec.methods[-1].name}, {high:g} %: R")
        figure.colorbar(image, ax=axes[-1], shrink=0.8)
    return figure


def _matrices(
    results: Results, name: str, missing: float, method: str | None = None
) -> list[tuple[list[str], NDArray[np.float64]]]:
    """Return view names and R of every run that has one; of the last method unless another is named."""
    method = method or results.spec.methods[-1].name
    found = []
    for run in range(results.spec.runs):
        row = results.rows.get((name, float(missing), method, run))
        correlation = (row or {}).get("records", {}).get("correlation")
        if correlation:
            found.append((list(correlation["views"]), np.array(correlation["matrix"])))
    return found


def _matrix(ax: "Axes", matrix: NDArray[np.float64], rows: Sequence[str], columns: Sequence[str]) -> Any:
    image = ax.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    ax.set_yticks(range(len(rows)), rows, fontsize=8)
    ax.set_xticks(range(len(columns)), columns, fontsize=8, rotation=45, ha="right", rotation_mode="anchor")
    return image
