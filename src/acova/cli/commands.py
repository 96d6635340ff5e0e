"""All commands, and how they end. What a command needs is imported when it is called, so that help comes at once."""

import os
import sys
from io import TextIOWrapper
from typing import Annotated

import typer

from acova.base import AcovaError, ProcessError
from acova.base.version import __version__
from acova.cli import bench, clusters, data, demo, fit, impute, options, predict, report
from acova.cli.messages import as_options
from acova.console import plain_warnings, say

app = typer.Typer(
    name="acova",
    help="Incomplete multi-view clustering: group samples that may lack any of their views.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
_DAILY, _SETTINGS, _STUDIES = "Everyday commands", "Settings and data sets", "Demonstration and benchmarks"
app.command(rich_help_panel=_DAILY)(data.inspect)
app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    rich_help_panel=_DAILY,
    epilog="Every setting of the method is an option too, such as --latent-dim 12 or --hidden 128,128 "
    "('acova options' lists them).",
)(fit.fit)
app.command(rich_help_panel=_DAILY)(clusters.clusters)
app.command(rich_help_panel=_DAILY)(report.report)
app.command(rich_help_panel=_DAILY)(predict.predict)
app.command(rich_help_panel=_DAILY)(impute.impute)
app.command(rich_help_panel=_SETTINGS)(options.options)
app.command(rich_help_panel=_SETTINGS)(data.datasets)
app.command(rich_help_panel=_STUDIES)(demo.demo)
app.command(cls=bench.ListCommand, rich_help_panel=_STUDIES)(bench.bench)
app.command(cls=bench.ListCommand, rich_help_panel=_STUDIES)(bench.paper)


def main() -> None:
    """Run the command; an error of ours is one line on standard error and exit code 2, a warning is one line there."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text
    try:
        with plain_warnings(as_options):
            app(prog_name="acova")  # also under python -m, for help and shell completion
    except AcovaError as error:
        say(f"error: {as_options(str(error))}", error=True)
        if isinstance(error, ProcessError):  # torch's threads that still listen may abort a usual exit
            sys.stderr.flush()
            os._exit(2)
        sys.exit(2)


def _print_version(value: bool) -> None:
    if value:
        say(f"acova {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
