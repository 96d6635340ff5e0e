"""Figures of a benchmark, drawn from its store: PNG and SVG, readable in print and without colour vision."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acova.bench import charts, matrices
from acova.bench.cells import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: "dict[str, Callable[[Results], Figure | None]]" = {
    "ranks": charts.ranks,
    "differences": charts.differences,
    "rates": charts.rates,
    "sweep": charts.sweep,
    "views": charts.views,
    "runtime": charts.runtime,
    "convergence": charts.convergence,
    "simulation": matrices.simulation,
    "r_epochs": matrices.over_epochs,
    "r_stability": matrices.stability,
    "tsne": matrices.maps,
}
"""How a spec's ``figure`` is drawn; None where the store has too little to draw."""


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Write ``<name>.png`` and ``.svg``; return their paths, none when there is nothing to draw yet."""
    from acova.base import check_choice

    spec = results.spec
    check_choice(f"benchmark {spec.name!r}", "figure", spec.figure, FIGURES)
    figure = FIGURES[spec.figure](results) if results.rows else None
    if figure is None:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    # The same rows give the same file: no date, no random names.
    from matplotlib import rc_context

    options: dict[str, dict[str, Any]] = {"png": {"dpi": 150}, "svg": {"metadata": {"Date": None}}}
    written = []
    with rc_context({"svg.hashsalt": "acova"}):
        for suffix, more in options.items():
            path = folder / f"{spec.name}.{suffix}"
            part = path.with_name(f".{path.name}.part")
            figure.savefig(part, format=suffix, **more)
            written.append(part.replace(path))
    return written
