"""``acova impute``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import OptionError
from acova.cli.arguments import Drop, DropSample, IdColumn, Layer, Transpose, data_names, load
from acova.cli.covariates import Covariates, with_covariates
from acova.cli.predict import reading_as_fitted
from acova.console import count, plain_table, say, show

if TYPE_CHECKING:
    import pandas as pd
    from rich.table import Table

    from acova.data import Views


def impute(
    run: Annotated[Path, typer.Argument(help="Run folder of a fitted model.")],
    data: Annotated[
        str, typer.Argument(help="As for fit; views may be missing altogether.", autocompletion=data_names)
    ],
    out: Annotated[Path, typer.Option(help="Folder to write: one .csv per view.")],
    std: Annotated[bool, typer.Option("--std", help="Write standard deviations, too: <view>.std.csv.")] = False,
    quantiles: Annotated[
        str | None, typer.Option(help="Write quantiles, too, such as 0.05,0.95: <view>.q0.05.csv.")
    ] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure errors on DATA first, which trains five more models.")
    ] = False,
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
    force: Annotated[bool, typer.Option("--force", help="Write into an existing folder.")] = False,
    device: Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, …")] = "auto",
) -> None:
    """Fill the views that samples lack, with error bars that were checked on held-out entries."""
    from acova.base.outputs import new_file
    from acova.data import dataset_names
    from acova.data.files.exports import write_table
    from acova.engine.runtime import resolve_device
    from acova.estimators import load_method

    levels = _levels(quantiles)
    if out.exists() and not force:
        msg = f"impute: {out} already exists; choose another folder, or write into it with --force."
        raise OptionError(msg)
    resolve_device(device)
    model: Any = load_method(run, device=device)
    given = {
        "drop": drop, "drop_sample": drop_sample, "id_column": id_column, "transpose": transpose,
        "match_ids": match_ids, "holes": holes, "layer": layer,
    }  # fmt: skip
    reading = reading_as_fitted("impute", given, {} if data in dataset_names() else model.provenance_)
    views, _ = load(data, reading, stream=False, model=model)
    views = with_covariates("impute", views, covariates)
    if calibrate:
        model.calibrate_imputation(views)
        show(_error_table(model.imputation_report()))
    # Of the class: CPSPAN and PMIMC have a setting of this name.
    results = type(model).impute(model, views, return_std=std, quantiles=levels or None)
    parts = list(results) if isinstance(results, tuple) else [results]
    tables = {"": _frames(parts.pop(0), model)}
    if std:
        tables[".std"] = _as_frames(parts.pop(0), views.index)
    for level, values in zip(levels, parts.pop() if levels else [], strict=True):
        tables[f".q{level:g}"] = _as_frames(values, views.index)
    out.mkdir(parents=True, exist_ok=True)
    for ending, frames in tables.items():
        for name, frame in frames.items():
            with new_file(out / f"{name}{ending}.csv") as part:
                write_table(part, [frame])
    say(f"Views of {count(len(views), 'sample')}: {out}")


def _levels(quantiles: str | None) -> list[float]:
    try:
        return [float(level) for level in (quantiles or "").split(",") if level.strip()]
    except ValueError:
        msg = f"impute: --quantiles takes numbers separated by commas, such as 0.05,0.95; got {quantiles!r}."
        raise OptionError(msg) from None


def _error_table(report: "pd.DataFrame") -> "Table":
    columns = ["explained", "coverage_50", "coverage_80", "coverage_90", "coverage_95"]
    rows = [[str(view), *(f"{row[column]:.3f}" for column in columns)] for view, row in report.iterrows()]
    names = ["view", *(column.replace("coverage_", "in ") + " %" * (column != "explained") for column in columns)]
    return plain_table(names, rows, title="Held-out entries")


def _frames(views: "Views", model: Any) -> "dict[str, pd.DataFrame]":
    from acova.data.filling import frame_of

    return {
        name: frame_of(array, views.index, columns, model.categories_.get(name, {}))
        for name, array, columns in zip(views.names, views.arrays, views.columns, strict=True)
    }


def _as_frames(values: "dict[str, Any]", index: "pd.Index") -> "dict[str, pd.DataFrame]":
    import pandas as pd

    return {
        name: part if isinstance(part, pd.DataFrame) else pd.DataFrame(part, index) for name, part in values.items()
    }
