"""``acova predict``."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import DataError, OptionError
from acova.base.outputs import check_output, new_file
from acova.cli.arguments import (
    READING,
    Drop,
    DropSample,
    IdColumn,
    Layer,
    Stream,
    Transpose,
    data_names,
    load,
    reading_flag,
    reading_of,
)
from acova.cli.covariates import Covariates, with_covariates
from acova.console import cluster_sizes, count, say, show, size_table

if TYPE_CHECKING:
    import pandas as pd

    from acova.data.files.reading import Reading
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
    drop_sample: DropSample = None,
    id_column: IdColumn = None,
    transpose: Transpose = None,
    match_ids: Annotated[str | None, typer.Option(help="Names of samples: exactly or loosely; as in the fit.")] = None,
    holes: Annotated[
        str | None, typer.Option(help="Rows with single empty cells: keep, hide or refuse; as in the fit.")
    ] = None,
    layer: Layer = None,
    covariates: Covariates = None,
    stream: Stream = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    device: Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, …")] = "auto",
) -> None:
    """Assign new samples to the clusters of a fitted model.

    Tables are read as in the fit: options that are left out, such as --drop or --holes, are those of the fit.
    "--transpose none" and the like take nothing over.
    """
    from acova.data import dataset_names
    from acova.data.files.exports import check_table_path, write_table
    from acova.engine.runtime import resolve_device
    from acova.estimators import load_method

    check_output(out)
    if out.exists() and not force:
        msg = f"{out} already exists; choose another file, or replace it with --force."
        raise DataError(msg)
    annotated = out.suffix in (".h5mu", ".h5ad")
    given = {
        "drop": drop, "drop_sample": drop_sample, "id_column": id_column, "transpose": transpose,
        "match_ids": match_ids, "holes": holes, "layer": layer,
    }  # fmt: skip
    flags = [reading_flag(name) for name, value in given.items() if value and name != "layer"]
    flags += [] if covariates is None else ["--covariates"]
    if annotated and flags:
        msg = f"predict: {', '.join(flags)}: for tables, not for {out.suffix}; clean {data} itself, or write a .csv."
        raise OptionError(msg)
    if not annotated:
        check_table_path("predict", out)
    resolve_device(device)
    model = load_method(run, device=device)
    if annotated:
        _annotate(model, Path(data), out, layer or model.provenance_.get("layer"))
        return
    reading = reading_as_fitted("predict", given, {} if stream or data in dataset_names() else model.provenance_)
    views, _ = load(data, reading, stream=stream, model=model)
    views = with_covariates("predict", views, covariates)
    known = getattr(model, "covariates_", {})
    if known and covariates is None:
        say(
            f"The model was fitted with covariates ({', '.join(known)}); without --covariates every sample is taken "
            "for the mean of the training samples.",
            error=True,
        )
    sizes: list[pd.DataFrame] = []
    with new_file(out) as part:
        write_table(part, _counted(model.iter_assignments(views), sizes))
    show(size_table(sizes))
    say(f"Labels of {count(len(views), 'sample')}: {out}")


def reading_as_fitted(who: str, given: "Mapping[str, Any]", fitted: "Mapping[str, Any]") -> "Reading":
    """Return how tables are read: as the options say, else as in the fit, which is said.

    Samples to drop are those of the fit alone.
    """
    words = {name: [] if value == ["none"] else value for name, value in given.items() if value}
    left = [name for name in READING if name not in words and name != "drop_sample" and fitted.get(name)]
    reading = reading_of(who, **words, **{name: fitted[name] for name in left})
    taken = {name: value for name, value in reading.given().items() if name in left}
    if taken:
        shown = [
            f"{reading_flag(name)} {one}"
            for name, value in taken.items()
            for one in ([value] if isinstance(value, str) else value)
        ]
        say(f"Read as in the fit: {' '.join(shown)}", error=True)
    return replace(reading, remembered=tuple(taken))


def _counted(tables: "Iterator[pd.DataFrame]", sizes: "list[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    """Pass tables on, and add the cluster sizes of each to a list."""
    for table in tables:
        sizes.append(cluster_sizes(table))
        yield table


def _annotate(model: "MultiViewClusterer", data: Path, out: Path, layer: str | None) -> None:
    from acova.data import read_omics, write_omics

    if data.suffix != out.suffix:
        msg = f"predict: {out} is {data} with results in it, so both need the same ending; or write a .csv."
        raise OptionError(msg)
    container = read_omics(data)
    model.annotate(container, layer=layer)
    write_omics(container, out)
    say(f"{data} with .obs['acova_label'] and more: {out}")
