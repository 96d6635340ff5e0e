"""``acova report``."""

from pathlib import Path
from typing import Annotated, Any

import typer

from acova.base.errors import check_choice
from acova.base.outputs import check_output
from acova.cli.covariates import read_covariates
from acova.console import say


def report(
    run: Annotated[Path, typer.Argument(help="Run folder of a fitted model.")],
    out: Annotated[Path | None, typer.Option(help="File to write. Default: report.html in the run folder.")] = None,
    compare: Annotated[
        Path | None, typer.Option(help="Another run of the same samples: sizes, moved samples and agreement.")
    ] = None,
    covariates: Annotated[
        Path | None,
        typer.Option(help="Table of what else is known of the samples; its first column has their names."),
    ] = None,
    time: Annotated[str | None, typer.Option(help="Column of --covariates: how long a sample was observed.")] = None,
    event: Annotated[
        str | None, typer.Option(help="Column of --covariates: 1 if the event came at that time, 0 if censored.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="The data of the fit: the map can be coloured by the main features.")
    ] = None,
    map_method: Annotated[str, typer.Option("--map", help="Map of the samples: t-SNE, PCA or UMAP.")] = "t-SNE",
    numbers: Annotated[Path | None, typer.Option(help="Write the numbers of the report to this JSON file too.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is not a report.")] = False,
) -> None:
    """Write one HTML file about a run: what to be careful about, clusters, data, views, training, samples."""
    from acova.estimators import load_method
    from acova.plots import MAPS
    from acova.report import make_result, write_numbers, write_page

    chosen = {name.lower(): name for name in MAPS}.get(map_method.lower(), map_method)
    check_choice("report", "--map", chosen, MAPS)
    choices: dict[str, Any] = {"method": chosen}
    model = load_method(run, device="cpu")
    if compare is not None:
        choices |= {"compare": load_method(compare, device="cpu"), "compare_name": str(compare)}
    if covariates is not None:
        choices["covariates"] = read_covariates(covariates)
    choices |= {"time": time, "event": event}
    if data is not None:
        choices["views"] = _views(data, model)
    if numbers is not None:
        check_output(numbers)
    result = make_result(model, **choices)
    say(f"Report: {write_page(result, run / 'report.html' if out is None else out, overwrite=force)}")
    if numbers is not None:
        write_numbers(result, numbers)
        say(f"Numbers: {numbers}")


def _views(data: str, model: Any) -> Any:
    """Return the views of a fit, read as it read them."""
    from acova.cli.arguments import READING, load, reading_of
    from acova.data import dataset_names

    fitted = {} if data in dataset_names() else model.provenance_
    words = {name: fitted[name] for name in READING if fitted.get(name)}
    return load(data, reading_of("report", **words), stream=False, model=model)[0]
