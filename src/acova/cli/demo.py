"""``acova demo``."""

from pathlib import Path
from typing import Annotated

import typer

from acova.base.errors import check_number
from acova.base.outputs import check_output
from acova.cli.arguments import Missing, Quiet
from acova.console import correlation_table, say, score_table, show


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and its figures.")] = Path("acova-demo"),
    missing: Annotated[float, Missing] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed of the mask and of training.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
    quiet: Quiet = False,
) -> None:
    """Cluster the embedded digits with views hidden, next to k-means of imputed tables."""
    from acova.demo import run_demo
    from acova.training.run_folder import check_free

    check_number("demo", "--seed", seed, minimum=0, integer=True)
    check_number("demo", "--missing", missing, minimum=0, maximum=1)
    check_free(out, overwrite=force)
    check_output(out / "report.html")
    result = run_demo(out, missing=missing, seed=seed, verbose=not quiet, overwrite=force)
    say(f"{result.views}\n")
    show(score_table(result.scores))
    show(correlation_table(result.model))
    say(f"ACOVA trained in {result.seconds:.0f} s. Run: {out}")
    say(f"Report, to open in a browser: {result.report}")
    say("Figures: " + ", ".join(str(path) for path in result.figures))
