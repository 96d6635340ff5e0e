"""Figures of a benchmark, drawn from its store: PNG and SVG, readable in print and without colour vision."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acova.base.files import file_errors, write_whole
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
    "reliability": charts.reliability,
    "r_missing": matrices.over_rates,
}
"""How a spec's ``figure`` is drawn; None where the store has too little to draw."""


def write_figures(results: Results, folder: Path) -> list[Path]:
    """Write ``<name>.png`` and ``.svg``; return their paths, none when there is nothing to draw yet."""
    if not results.rows:
        return []
    from matplotlib import rc_context

    # The same rows give the same file: no date, no random names. A dollar sign in a name starts no formula.
    options: dict[str, dict[str, Any]] = {"png": {"dpi": 150}, "svg": {"metadata": {"Date": None}}}
    written = []
    with rc_context({"svg.hashsalt": "acova", "text.parse_math": False}):
        figure = FIGURES[results.spec.figure](results)
        if figure is None:
            return []
        with file_errors(f"making the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        for suffix, more in options.items():
            drawn = BytesIO()
            figure.savefig(drawn, format=suffix, **more)
            path = folder / f"{results.spec.name}.{suffix}"
            write_whole(path, drawn.getvalue())
            written.append(path)
    return written
