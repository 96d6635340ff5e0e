"""Lines, ranks and differences."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from acova.bench.cells import Results, value_of
from acova.bench.score_tables import NAMES, comparison
from acova.bench.statistics import Comparison, interval
from acova.plots.style import MARKERS, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLES = ("-", "--", "-.", ":")


def ranks(results: Results) -> "Figure | None":
    """Draw average ranks with the critical difference: methods joined by a bar are not told apart (Demšar)."""
    found = comparison(results)
    if found is None:
        return None
    figure = new_figure(7.6, 1.6 + 0.24 * len(found.ranks))
    _rank_axis(figure.add_subplot(), found, NAMES[results.spec.metrics[0]])
    return figure


def _rank_axis(ax: "Axes", found: Comparison, metric: str) -> None:
    count = len(found.ranks)
    bars = joined(found.ranks.to_numpy(), found.critical_difference)
    top = 0.7 + 0.35 * len(bars)
    half = (count + 1) // 2
    for place, (name, rank) in enumerate(found.ranks.items()):
        left = place < half
        level = top + 0.8 * (place + 1 if left else count - place)
        edge = 0.6 if left else count + 0.4
        ax.plot([rank, rank, edge], [0, level, level], color="0.25", linewidth=1)
        towards = "right" if left else "left"
        ax.text(edge + (-0.08 if left else 0.08), level, f"{name}  {rank:.2f}", ha=towards, va="center")
    for number, (first, last) in enumerate(bars):
        height = 0.45 + 0.35 * number
        ax.plot([first - 0.06, last + 0.06], [height, height], color=PALETTE[0], linewidth=4, solid_capstyle="round")
    end = 1 + found.critical_difference
    ax.annotate("", (1, -1.15), (end, -1.15), arrowprops={"arrowstyle": "|-|,widthA=0.25,widthB=0.25"})
    ax.text((1 + end) / 2, -1.3, f"critical difference {found.critical_difference:.2f}", ha="center", va="bottom")
    ax.set(ylim=(top + 0.8 * (half + 1), -2.1), xlim=(0.4, count + 0.6), yticks=[])
    ax.xaxis.set_ticks_position("top")
    ax.xaxis.set_label_position("top")
    ax.set_xticks(range(1, count + 1, -(-count // 10)))  # labels of more would run into each other
    ax.set_xlabel(f"average rank over {found.n_cells} cells ({metric}); 1 is best")
    for side in ("left", "right", "bottom"):
        ax.spines[side].set_visible(False)
    ax.spines["top"].set_position(("data", 0))
    ax.spines["top"].set_bounds(1, count)


def joined(ranks: Any, difference: float) -> list[tuple[float, float]]:
    """Return the longest stretches of sorted ranks that span less than the critical difference."""
    spans: list[tuple[float, float]] = []
    for start in range(len(ranks)):
        last = max(end for end in range(start, len(ranks)) if ranks[end] - ranks[start] < difference)
        if last > start and (not spans or ranks[last] > spans[-1][1]):
            spans.append((float(ranks[start]), float(ranks[last])))
    return spans


def differences(results: Results) -> "Figure | None":
    """Draw how far each method is from the reference, with the 95 % interval, a panel per data set.

    Runs are paired by mask and seed; a cell that lacks runs is not drawn.
    """
    spec, metric = results.spec, results.spec.metrics[0]
    others = [method.name for method in spec.methods if method.name != spec.reference]
    found = {
        (data.name, rate, place): interval(100 * changes)
        for data in spec.data
        for rate in spec.missing
        for place, other in enumerate(others)
        if len(changes := results.differences(metric, data.name, float(rate), other)) == spec.runs
    }
    names = [data.name for data in spec.data if any(name == data.name for name, _, _ in found)]
    if not names:
        return None
    figure = new_figure(2.4 + 2.3 * len(names), 1.4 + 0.32 * len(others))
    axes: list[Axes] = list(figure.subplots(1, len(names), sharey=True, squeeze=False)[0])
    for ax, name in zip(axes, names, strict=True):
        ax.axvline(0, color="0.6", linewidth=1)
        for number, rate in enumerate(spec.missing):
            shift = 0.5 * ((number + 0.5) / len(spec.missing) - 0.5)
            of_rate = {place: found[name, rate, place] for place in range(len(others)) if (name, rate, place) in found}
            means, halves = zip(*of_rate.values(), strict=True) if of_rate else ((), ())
            heights = [place + shift for place in of_rate]
            ax.errorbar(means, heights, xerr=halves, label=f"{rate:g} %", **_look(number) | {"linestyle": "none"})
        ax.set(title=name, xlabel=f"{NAMES[metric]}, points")
    axes[0].set_yticks(range(len(others)), others)
    axes[0].set_ylim(len(others) - 0.5, -0.5)
    _legend(figure, axes, f"above or below {spec.reference}, paired, 95 % interval; samples that lack views:")
    return figure


def rates(results: Results) -> "Figure | None":
    """Draw a metric over the missing rates, a panel per data set, with the published means as hollow marks."""
    metric = results.spec.metrics[0]
    names = _with_rows(results, metric)
    if not names:
        return None
    figure, axes = panels(len(names), 4.0, 3.4)
    cells = results.cells[results.cells["metric"] == metric]
    shift = 4.0 / len(results.spec.methods)  # side by side, error bars can be told apart
    for ax, name in zip(axes, names, strict=True):
        drawn: set[tuple[float, ...]] = set()  # methods with the same published figures share their marks
        for number, method in enumerate(results.spec.methods):
            of_method = cells[(cells["dataset"] == name) & (cells["method"] == method.name)].sort_values(
                "missing_percent"
            )
            if (of_method["runs"] > 0).any():
                look, x = _look(number), of_method["missing_percent"] + shift * number - 2.0
                ax.errorbar(
                    x, of_method["mean"], of_method["std"].fillna(0), label=_label(method.name), elinewidth=0.8, **look
                )
                published = tuple(of_method["published_mean"])
                if published not in drawn:
                    hollow = {"linestyle": "none", "marker": look["marker"], "markeredgecolor": look["color"]}
                    ax.plot(x, published, markerfacecolor="white", markersize=5, alpha=0.8, **hollow)
                    drawn.add(published)
        ax.set(title=name, xlabel="samples that lack views [%]", ylabel=NAMES[metric])
    hollow_note = "; hollow marks: published" if cells["published_mean"].notna().any() else ""
    _legend(figure, axes, f"mean and standard deviation over runs{hollow_note}")
    return figure


def sweep(results: Results) -> "Figure | None":
    """Draw every metric over a setting, a panel per data set and metric, a line per rate."""
    spec = results.spec
    metrics = [metric for metric in spec.metrics if metric in ("acc", "nmi")]
    names = _with_rows(results, metrics[0]) if metrics else []
    if not names:
        return None
    figure, axes = panels(len(names) * len(metrics), 4.0, 3.3)
    places = numbers_of(results)
    for ax, (name, metric) in zip(axes, [(n, m) for n in names for m in metrics], strict=True):
        cells = results.cells[(results.cells["metric"] == metric) & (results.cells["dataset"] == name)]
        for number, rate in enumerate(spec.missing):
            of_rate = cells[(cells["missing_percent"] == rate) & cells["method"].isin(places)].copy()
            of_rate["x"] = of_rate["method"].map(places).astype(float)
            of_rate = of_rate.sort_values("x").dropna(subset=["mean"])
            ax.errorbar(of_rate["x"], of_rate["mean"], of_rate["std"].fillna(0), label=f"{rate:g} %", **_look(number))
        ax.set(title=name, xlabel={"alpha": "α", "latent_dim": "latent dimension D"}.get(spec.x, spec.x))
        ax.set(ylabel=NAMES[metric])
        if spec.x == "alpha":
            _logarithmic(ax)
    _legend(figure, axes, "samples that lack views")
    return figure


def views(results: Results) -> "Figure | None":
    """Draw seconds per epoch over the number of views, ours and the published ones."""
    spec, cells = results.spec, results.cells[results.cells["metric"] == "seconds_per_epoch"]
    figure, (ax,) = panels(1, 5.2, 3.4)
    sources = dict.fromkeys(data.source for data in spec.data)
    for number, source in enumerate(sources):
        family = _family(results, source)
        counts = {data.name: len(data.views) for data in spec.data if data.source == source}
        of_source = cells[cells["dataset"].isin(counts)].groupby("dataset", sort=False).first()
        x = [counts[name] for name in of_source.index]
        if of_source["mean"].notna().any():
            ax.errorbar(
                x,
                of_source["mean"],
                of_source["std"].fillna(0),
                label=_label(family),
                **_look(2 * number),
            )
        if of_source["published_mean"].notna().any():
            error = of_source["published_std"].fillna(0)
            ax.errorbar(
                x,
                of_source["published_mean"],
                error,
                label=_label(f"{family}, published"),
                **_look(2 * number + 1),
            )
    if not ax.get_legend_handles_labels()[0]:
        return None
    ax.set(xlabel="number of views V", ylabel="seconds per epoch", ylim=(0, None), title=spec.title)
    ax.set_xticks(sorted({len(data.views) for data in spec.data}))
    ax.legend(frameon=False)
    return figure


def _family(results: Results, source: str) -> str:
    """Return what the names of the data of a source have before their comma."""
    return next(data.name.split(",")[0] for data in results.spec.data if data.source == source)


def runtime(results: Results) -> "Figure | None":
    """Draw accuracy over seconds per epoch, a panel per data set."""
    names = _with_rows(results, "seconds_per_epoch")
    if not names:
        return None
    figure, axes = panels(len(names), 4.6, 3.6)
    for ax, name in zip(axes, names, strict=True):
        for number, method in enumerate(results.spec.methods):
            rows = [row for place, row in results.rows.items() if place[0] == name and place[2] == method.name]
            if rows:
                x = np.mean([value_of(row, "seconds_per_epoch") for row in rows])
                y = np.mean([value_of(row, "acc") for row in rows])
                look = _look(number)
                ax.plot(x, y, marker=look["marker"], color=look["color"], markersize=8, linestyle="none")
                ax.annotate(method.name, (x, y), (6, 4), textcoords="offset points", fontsize=9)
        ax.set(title=name, xlabel="seconds per epoch", ylabel="ACC")
        _logarithmic(ax)
        ax.margins(x=0.25, y=0.15)
    return figure


def convergence(results: Results) -> "Figure | None":
    """Draw the objective of every epoch and the accuracy of fits that end there, a panel per data set."""
    ends = numbers_of(results)
    kept = {place: row for place, row in results.rows.items() if place[2] in ends}
    names = [name for name in _with_rows(results, "acc") if any(place[0] == name for place in kept)]
    if not names:
        return None
    figure, axes = panels(len(names), 4.8, 3.4)
    for ax, name in zip(axes, names, strict=True):
        rows = {place: row for place, row in kept.items() if place[0] == name}
        longest = max((place[2] for place in rows), key=lambda method: ends[method])
        for place, row in rows.items():
            history = (row.get("records", {}).get("history") or {}).get("total")
            if place[2] == longest and history:
                epochs = range(1, len(history) + 1)
                ax.plot(epochs, history, color=PALETTE[0], linewidth=1)
        beside = ax.twinx()
        acc = pd.DataFrame([(ends[place[2]], row["acc"]) for place, row in rows.items()], columns=["x", "acc"])
        mean = acc.groupby("x")["acc"].agg(["mean", "std"])
        look = {**_look(3), "linestyle": "--"}
        beside.errorbar(mean.index, mean["mean"], mean["std"].fillna(0), **look)
        ax.set(title=name, xlabel="epoch", ylabel="objective")
        ax.yaxis.label.set_color(PALETTE[0])
        beside.set_ylabel("ACC", color=PALETTE[3])
    handles: list[Any] = [*axes[0].lines[:1], beside.containers[0]]
    labels = ["objective of the longest fits", "ACC of fits that end there"][-len(handles) :]
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return figure


def reliability(results: Results) -> "Figure | None":
    """Draw the share of right labels over the confidence, all runs together, a panel per data set and rate."""
    chosen = [
        (data.name, float(rate))
        for data in results.spec.data
        for rate in results.spec.rates(data)
        if any(place[:2] == (data.name, float(rate)) and _bins_of(row) for place, row in results.rows.items())
    ]
    if not chosen:
        return None
    figure, axes = panels(len(chosen), 3.6, 3.3)
    for ax, (name, rate) in zip(axes, chosen, strict=True):
        ax.plot([0, 1], [0, 1], color="0.6", linewidth=1)
        for number, method in enumerate(results.spec.methods):
            rows = [row for place, row in results.rows.items() if place[:3] == (name, rate, method.name)]
            bins = np.array([_bins_of(row) for row in rows if _bins_of(row)])
            if bins.size:
                count = bins[:, :, 0].sum(axis=0)
                filled = count > 0
                x, y = (np.sum(bins[:, :, 0] * bins[:, :, side], axis=0)[filled] / count[filled] for side in (1, 2))
                look = {key: value for key, value in _look(number).items() if key != "capsize"}
                ax.plot(x, y, label=method.name, **look)
        ax.set(title=f"{name}, {rate:g} %", xlabel="confidence", ylabel="share of right labels", xlim=(0, 1))
        ax.set_ylim(0, 1)
    _legend(figure, axes, "probabilities over draws of the posterior")
    return figure


def _bins_of(row: Mapping[str, Any]) -> list[list[float]]:
    found = row.get("records", {}).get("calibration") or {}
    return list(found.get("bins", []))


# --- shared -------------------------------------------------------------------------------------


def new_figure(width: float, height: float) -> "Figure":
    """Return an empty figure of a size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def panels(count: int, width: float, height: float, per_row: int = 2) -> "tuple[Figure, list[Axes]]":
    """Return a figure with panels of a size, and the panels."""
    columns = min(count, per_row)
    lines = -(-count // columns)
    figure = new_figure(width * columns, height * lines)
    return figure, [figure.add_subplot(lines, columns, number + 1) for number in range(count)]


def numbers_of(results: Results) -> dict[str, float]:
    """Return method → the number that it has for the setting of the first axis; other methods are not drawn."""
    settings = {method.name: method.settings.get(results.spec.x) for method in results.spec.methods}
    return {name: value for name, value in settings.items() if isinstance(value, int | float)}


def _with_rows(results: Results, metric: str) -> list[str]:
    cells = results.cells[(results.cells["metric"] == metric) & (results.cells["runs"] > 0)]
    return [data.name for data in results.spec.data if (cells["dataset"] == data.name).any()]


def _label(name: str) -> str:
    """Return a name for the legend, which leaves out names that start with an underscore."""
    return f" {name}" if name.startswith("_") else name


def _look(number: int) -> dict[str, Any]:
    """Return a colour, a marker and a dash of their own for each line: any one of them tells lines apart."""
    return {
        "color": PALETTE[number % len(PALETTE)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": _STYLES[number % len(_STYLES)],
        "capsize": 2.5,
        "linewidth": 1.4,
        "markersize": 5,
    }


def _logarithmic(ax: "Axes") -> None:
    """Scale the first axis by its logarithm, with plain numbers at 1, 2 and 5."""
    from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FormatStrFormatter("%g"))
    ax.xaxis.set_minor_locator(NullLocator())


def _legend(figure: "Figure", axes: "list[Axes]", title: str) -> None:
    handles: dict[str, Any] = {}
    for ax in axes:
        found, labels = ax.get_legend_handles_labels()
        handles |= dict(zip(labels, found, strict=True))
    widest = max(map(len, handles), default=0) + 8  # a character is about a twelfth of an inch
    columns = max(1, min(4, len(handles), int(figure.get_figwidth() * 12 / widest)))
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns, frameon=False, title=title)
