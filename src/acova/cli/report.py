"""``acova report``."""

from pathlib import Path
from typing import Annotated

import typer

from acova.console import say


def report(
    run: Annotated[Path, typer.Argument(help="Run folder of a fitted model.")],
    out: Annotated[Path | None, typer.Option(help="File to write; report.html of the run when left out.")] = None,
    map_method: Annotated[str, typer.Option("--map", help="Map of the samples: t-SNE, PCA or UMAP.")] = "t-SNE",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is no report.")] = False,
) -> None:
    """Write one HTML file about a run: what went in, what came out, how training went."""
    from acova.estimators import load_method

    model = load_method(run, device="cpu")
    path = model.report(run / "report.html" if out is None else out, method=map_method, overwrite=force)
    say(f"Report: {path}")
