"""The option ``--covariates``: what else is known of the samples, from a table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import DataError, OptionError
from acova.console import count, say

if TYPE_CHECKING:
    import pandas as pd

Covariates = Annotated[
    Path | None,
    typer.Option(help="Table with batch, site, age, …; its first column has the names of the samples."),
]


def with_covariates(who: str, views: Any, path: str | Path | None) -> Any:
    """Return views with the covariates of a table, and say which are taken for words and which for numbers."""
    from acova.data import Views
    from acova.data.covariates import description

    if path is None:
        return views
    if not isinstance(views, Views):
        msg = f"{who}: --covariates needs views in memory, but these stay on disk or sparse; leave out one of them."
        raise OptionError(msg)
    table = read_covariates(path)
    told, about = views.with_covariates(table), description(table)
    shown = [f"{name} ({count(n, 'level') if kind == 'words' else kind})" for name, kind, n, _ in about.itertuples()]
    say(f"Covariates: {', '.join(shown)}.", error=True)
    return told


def read_covariates(path: str | Path) -> "pd.DataFrame":
    """Return a table of one row per sample."""
    from acova.data.files.tables import read_tables, table_ending

    if not Path(path).is_file() or table_ending(Path(path)) is None:
        msg = f"covariates: {path} must be a table (.csv, .tsv, .parquet, .feather or .xlsx) with a row per sample."
        raise DataError(msg)
    table = next(iter(read_tables(Path(path)).values()))
    if not len(table.columns):
        msg = f"{path} has no column besides the names of the samples; covariates are its other columns."
        raise DataError(msg)
    return table
