"""``acova predict``."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from acova.base import DataError, OptionError
from acova.base.outputs import check_output, new_file
from acova.cli.arguments import Drop, Stream, data_names, load
from acova.cli.options import canonical
from acova.console import cluster_sizes, count, say, show, size_table

if TYPE_CHECKING:
    import pandas as pd

    from acova.estimators._base import MultiViewClusterer


def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of a fitted model.")],
    data: Annotated[
        str, typer.Argument(help="As for fit; views may be missing altogether.", autocompletion=data_names)
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .csv, .tsv, .parquet, .feather, .xlsx, or DATA with the results in it (.h5mu, .h5ad)."
        ),
    ],
    drop: Drop = None,
    holes: Annotated[
        str | None,
        typer.Option(help="Rows with single empty cells: refuse, or hide the view there. Default: as in the fit."),
    ] = None,
    stream: Stream = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    device: Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, …")] = "auto",
) -> None:
    """Assign new samples to the clusters of a fitted model."""
    from acova.data.files.exports import check_table_path, write_table
    from acova.engine.runtime import resolve_device
    from acova.estimators import load_method

    check_output(out)
    if out.exists() and not force:
        msg = f"{out} already exists; choose another file, or replace it with --force."
        raise DataError(msg)
    annotated = out.suffix in (".h5mu", ".h5ad")
    if annotated and (drop or holes not in (None, "refuse")):
        msg = f"predict: --drop and --holes are for tables; clean {data} itself, or write a .csv."
        raise OptionError(msg)
    if not annotated:
        check_table_path("predict", out)
    resolve_device(device)
    model = load_method(run, device=device)
    if annotated:
        _annotate(model, Path(data), out)
        return
    of_fit = "refuse" if stream else model.provenance_.get("holes", "refuse")
    holes = canonical(holes, ("refuse", "hide")) or of_fit
    views, _ = load(data, stream=stream, drop=drop or (), holes=holes, categories=model.categories_)
    sizes: list[pd.DataFrame] = []
    with new_file(out) as part:
        write_table(part, _counted(model.iter_assignments(views), sizes))
    show(size_table(sizes))
    say(f"Labels of {count(len(views), 'sample')}: {out}")


def _counted(tables: "Iterator[pd.DataFrame]", sizes: "list[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    """Pass tables on, and add the cluster sizes of each to a list."""
    for table in tables:
        sizes.append(cluster_sizes(table))
        yield table


def _annotate(model: "MultiViewClusterer", data: Path, out: Path) -> None:
    from acova.data import read_omics, write_omics

    if data.suffix != out.suffix:
        msg = f"predict: {out} is {data} with results in it, so both need the same ending; or write a .csv."
        raise OptionError(msg)
    container = read_omics(data)
    model.annotate(container)
    write_omics(container, out)
    say(f"{data} with .obs['acova_label'] and more: {out}")
