"""From a fitted model to a page, and to a file."""

import base64
import hashlib
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from acova.base import DataError
from acova.base.errors import check_choice
from acova.base.files import file_errors
from acova.base.outputs import check_output, new_file
from acova.console import count
from acova.plots import MAPS, PALETTE
from acova.report.comparison import check_comparable
from acova.report.covariates import check_covariates, check_survival, colour_columns, top_features
from acova.report.exports import as_json
from acova.report.numbers import fixed, listed, number, percent
from acova.report.result import Result
from acova.report.sections import SECTIONS

GENERATOR = '<meta name="generator" content="acova'
_SCRIPTS = ("start.js", "map.js", "table.js", "exports.js", "page.js")
"""Parts of one script, in this order; they share their names."""


def write_report(model: Any, path: str | Path, *, overwrite: bool = False, **choices: Any) -> Path:
    """Write a report of a fitted model as one HTML file that needs no network; return its path.

    Parameters
    ----------
    model : fitted ACOVA, or another method of this package
    path : str or Path
        The file, or a folder for ``report.html``. An earlier report is replaced; another file only with `overwrite`.
    overwrite : bool
    **choices
        See `make_result`.

    See Also
    --------
    render_report : The same as a string.
    acova.plots.save_figures : The figures as files.
    """
    checked = _checked_path(Path(path), overwrite=overwrite)
    return write_page(make_result(model, **choices), checked, overwrite=overwrite)


def write_page(result: Result, path: Path, *, overwrite: bool = False) -> Path:
    """Write the page about a result to a file; return its path. See `write_report`."""
    path = _checked_path(path, overwrite=overwrite)
    with new_file(path) as part:
        part.write_text(page_of(result), encoding="utf-8", errors="backslashreplace")
    return path


def _checked_path(path: Path, *, overwrite: bool) -> Path:
    """Return the file to write; raise an error where it cannot or must not be written."""
    if os.path.isdir(path):  # a name that is too long is an error of `check_output`
        path = path / "report.html"
    check_output(path)
    if path.exists() and not overwrite and not _is_report(path):
        msg = f"{path} exists and is no report of acova, so it is not replaced; choose another file."
        raise DataError(msg)
    return path


def render_report(model: Any, **choices: Any) -> str:
    """Return the page of `write_report` as text.

    See Also
    --------
    write_report : Writes the page to a file.
    """
    return page_of(make_result(model, **choices))


def make_result(
    model: Any,
    *,
    method: str = "t-SNE",
    views: Any = None,
    observed: Any = None,
    covariates: Any = None,
    compare: Any = None,
    compare_name: str = "the other run",
    time: str | None = None,
    event: str | None = None,
) -> Result:
    """Check a model and what its report should show besides.

    Parameters
    ----------
    model : fitted estimator
    method : {"t-SNE", "PCA", "UMAP"}
        How the map of the samples is made.
    views : views of any form, optional
        The training data: the map can then be coloured by the features that set the clusters apart most.
    observed : array of bool, shape (n_samples, V), optional
        As in `fit`, with `views`.
    covariates : DataFrame, or dict of name → array of shape (n_samples,), optional
        Other columns to colour the map by; the rows of a DataFrame are found by the names of the samples.
    compare : fitted estimator, optional
        Another result of the same samples.
    compare_name : str
        What the page calls it.
    time, event : str, optional
        The covariates that say how long samples survived, and whether the event came: the page compares survival.
    """
    check_is_fitted(model, "labels_")
    check_choice("report", "method", method, MAPS)
    if compare is not None:
        check_is_fitted(compare, "labels_")
        check_comparable(model, compare)
    columns: dict[str, Any] = dict(check_covariates(model, covariates))
    given = tuple(columns)
    check_survival(given, time, event)
    if views is not None:
        columns |= top_features(model, views, observed)
    return Result(model, method, columns, compare, compare_name, given, time, event)


def page_of(result: Result) -> str:
    """Return the page about a result."""
    model = result.model
    found = [(section, section.data(result)) for section in SECTIONS]
    data = {section.name: section_data for section, section_data in found if section_data is not None}
    script, style = _script(), _asset("page.css")
    return (
        _environment()
        .get_template("page.html")
        .render(
            model=model,
            name=type(model).__name__,
            n_samples=len(result.labels),
            method=result.method,
            sections=[section for section in SECTIONS if section.name in data],
            data=data,
            samples=_samples(result),
            numbers=as_json(data),
            n_colours=len(PALETTE),
            script=Markup(script),  # ours; everything else is escaped
            style=Markup(style),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )


def _samples(result: Result) -> dict[str, Any]:
    """Return what the page's script draws."""
    columns = {name: values for name, values in result.columns.items() if name not in ("patterns", "map")}
    colours = colour_columns(result.covariates, result.rows) if "x" in columns else []
    return {
        "columns": columns,
        "patterns": result.columns.get("patterns"),
        "views": result.model.view_names_,
        "map": result.columns.get("map"),
        "middles": [] if result.islands is None else result.islands.middles.tolist(),
        "covariates": colours,
        "clusters": int(result.model.n_clusters_),
    }


@cache
def _environment() -> Environment:
    """Return where templates come from; it escapes every text they are given."""
    environment = Environment(
        loader=FunctionLoader(_asset), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"percent": percent, "number": number, "fixed": fixed, "count": count, "listed": listed}
    return environment


@cache
def _asset(name: str) -> str:
    return (files("acova.report") / "templates" / name).read_text(encoding="utf-8")


def _script() -> str:
    return "".join(['"use strict";\n(() => {\n', *map(_asset, _SCRIPTS), "})();\n"])


def _is_report(path: Path) -> bool:
    with file_errors(f"reading {path}"), path.open("rb") as stream:
        return GENERATOR.encode() in stream.read(2000)
