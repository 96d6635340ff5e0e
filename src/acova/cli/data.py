"""``acova inspect`` and ``acova datasets``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from acova.cli.arguments import (
    Drop,
    DropSample,
    Holes,
    IdColumn,
    Layer,
    MatchIds,
    Transpose,
    data_names,
    existing,
    spelled,
)
from acova.cli.covariates import Covariates, read_covariates
from acova.cli.messages import inspection_in_options
from acova.console import plain_table, show


def inspect(
    data: Annotated[str, typer.Argument(help="As for fit.", autocompletion=data_names)],
    drop: Drop = None,
    drop_sample: DropSample = None,
    id_column: IdColumn = None,
    transpose: Transpose = None,
    match_ids: MatchIds = "exactly",
    holes: Holes = "keep",
    layer: Layer = None,
    covariates: Covariates = None,
) -> None:
    """Show what is understood of data, and what in them looks wrong, before any training."""
    from acova.data import dataset_names, inspect_data, load_dataset

    known = data in dataset_names() and not Path(data).exists()
    source = load_dataset(data).views if known else existing(data)
    words = {"drop": drop, "drop_sample": drop_sample, "id_column": id_column, "transpose": transpose}
    lists: dict[str, Any] = {name: tuple(given) for name, given in words.items() if given}
    ways = spelled({"match_ids": match_ids, "holes": holes})
    table = None if covariates is None else read_covariates(covariates)
    found = inspect_data(source, **lists, **ways, layer=layer, covariates=table)
    show(inspection_in_options(found))
    if found.refusal is not None:
        raise typer.Exit(1)


def datasets() -> None:
    """List the data sets: size, licence, and whether they are on this machine."""
    from acova.data.datasets.catalogue import CATALOGUE, find_file

    rows = []
    for name, entry in CATALOGUE.items():
        views = ", ".join(f"{view} {size}" for view, size in entry.view_sizes.items())
        found = "embedded" if not entry.files else "yes" if find_file(name) else "no"
        rows.append((name, entry.n_samples, views, entry.n_classes, entry.licence, found, entry.about))
    columns = ("name", "samples", "views", "classes", "licence", "on disk", "about")
    show(plain_table(columns, rows, title="Data sets"))
