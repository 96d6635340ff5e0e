"""From a fitted model to a page, and to a file."""

import base64
import hashlib
import os
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from sklearn.utils.validation import check_is_fitted

from acova.base import DataError
from acova.base.errors import check_choice
from acova.base.files import file_errors
from acova.base.outputs import check_output, new_file
from acova.estimators._checks import missingness_words
from acova.estimators._settings import plain, setting_parameters
from acova.estimators.recipes import OTHERWISE, RECIPES
from acova.plots import CONFIDENCE_EDGES, MAPS, PALETTE, ClusterDisplay, MissingDisplay, ViewWeightDisplay
from acova.report.numbers import fixed, number, percent
from acova.report.profiles import cluster_profiles
from acova.report.samples import choose_samples, sample_columns
from acova.report.svg import convergence_chart
from acova.report.words import correlation_words, training_checks

GENERATOR = '<meta name="generator" content="acova'
_MAX_SAMPLES = 3000
_MAX_PATTERNS = 15


def write_report(model: Any, path: str | Path, *, method: str = "t-SNE", overwrite: bool = False) -> Path:
    """Write a report of a fitted model as one HTML file that needs no network; return its path.

    Parameters
    ----------
    model : fitted ACOVA, or another method of this package
    path : str or Path
        The file, or a folder for ``report.html``. An earlier report is replaced; another file only with `overwrite`.
    method : {"t-SNE", "PCA", "UMAP"}
        How the map of the samples is made.
    overwrite : bool
    """
    path = Path(path)
    check_is_fitted(model, "labels_")
    check_choice("report", "method", method, MAPS)
    if os.path.isdir(path):  # a name that is too long is an error of `check_output`
        path = path / "report.html"
    check_output(path)
    if path.exists() and not overwrite and not _is_report(path):
        msg = f"{path} exists and is no report of acova, so it is not replaced; choose another file."
        raise DataError(msg)
    with new_file(path) as part:
        part.write_text(render_report(model, method=method), encoding="utf-8", errors="backslashreplace")
    return path


def render_report(model: Any, *, method: str = "t-SNE") -> str:
    """Return the page of `write_report` as text."""
    check_is_fitted(model, "labels_")
    labels = np.asarray(model.labels_)
    confidence = np.asarray(model.probabilities_).max(axis=1) if hasattr(model, "probabilities_") else None
    display = ClusterDisplay(labels, confidence, n_clusters=model.n_clusters_)
    rows = choose_samples(labels, model.n_clusters_, _MAX_SAMPLES)
    columns = sample_columns(model, rows, method)
    patterns = columns.pop("patterns", None)
    mapped = columns.pop("map", None)
    weights = _weights(model, labels)
    script, style = _asset("page.js"), _asset("page.css")
    return _template().render(
        model=model,
        name=type(model).__name__,
        n_samples=len(labels),
        n_shown=len(rows),
        views=_views(model),
        missing=_missing(model),
        clusters=_clusters(model, display),
        confidence=_confidence(display, confidence),
        edges=CONFIDENCE_EDGES,
        warnings=[str(text) for text in getattr(model, "warnings_", ())],
        influence=_influence(model),
        imputation=_imputation(model),
        missingness=missingness_words(model),
        weights=weights,
        heaviest=max((abs(w) for row in weights or () for w in row if w is not None), default=0.0) or 1.0,
        correlation=_correlation(model),
        chart=convergence_chart(model.history_) if hasattr(model, "n_iter_") else None,
        checks=training_checks(model),
        settings=_settings(model),
        provenance=_provenance(model),
        data={"columns": columns, "patterns": patterns, "views": model.view_names_, "map": mapped},
        mapped=mapped,
        method=method,
        consensus="agreement" in columns,
        n_colours=len(PALETTE),
        script=Markup(script),  # ours; everything else is escaped
        style=Markup(style),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


@cache
def _template() -> Template:
    """Return the template; it escapes every text it is given."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": percent, "number": number, "fixed": fixed}
    return environment.from_string(_asset("page.html"))


@cache
def _asset(name: str) -> str:
    return (files("acova.report") / name).read_text(encoding="utf-8")


def _is_report(path: Path) -> bool:
    with file_errors(f"reading {path}"), path.open("rb") as stream:
        return GENERATOR.encode() in stream.read(2000)


def _views(model: Any) -> list[dict[str, Any]]:
    counts = model.summary_.counts @ model.summary_.patterns
    total = model.summary_.counts.sum()
    empty, kinds = model.empty_cells_, getattr(model, "likelihoods_", {})
    return [
        {
            **{"name": name, "features": size, "count": int(count), "share": float(count / total)},
            "likelihood": kinds.get(name, "").replace("_", " "),
            "empty": empty.get(name, 0),
            "empty_share": empty.get(name, 0) / max(int(count) * size, 1),
        }
        for name, size, count in zip(model.view_names_, model.view_sizes_, counts, strict=True)
    ]


def _missing(model: Any) -> dict[str, Any]:
    display = MissingDisplay(model.summary_.patterns, model.summary_.counts, model.view_names_)
    total, kept = int(display.counts.sum()), min(len(display.counts), _MAX_PATTERNS)
    pairs = zip(display.patterns[:kept].tolist(), display.counts[:kept].tolist(), strict=True)
    complete = int(display.counts[display.patterns.all(axis=1)].sum())
    return {
        "rows": [{"pattern": pattern, "count": count, "share": count / total} for pattern, count in pairs],
        "most": int(display.counts.max()),
        "complete": complete / total,
        "rarer": len(display.counts) - kept,
        "rarer_count": int(display.counts[kept:].sum()),
    }


def _clusters(model: Any, display: ClusterDisplay) -> list[dict[str, Any]]:
    """Return what the page says of each cluster, in the order of their numbers: the largest first."""
    labels = np.asarray(model.labels_)
    top = 5 if model.n_clusters_ * len(model.view_names_) <= 100 else 3
    agreement = None
    if getattr(model, "n_voters_", 1) > 1:
        agreement = np.bincount(labels, np.asarray(model.agreement_), minlength=model.n_clusters_)
    found = []
    for label, profiles in enumerate(cluster_profiles(model, top)):
        size = int(display.sizes[label])
        best = sorted(((abs(f.effect), p.view, f) for p in profiles for f in p.features), key=lambda item: -item[0])
        cluster: dict[str, Any] = {
            "number": label,
            "size": size,
            "share": size / len(labels),
            "bar": size / max(int(display.sizes.max()), 1),
            "profiles": profiles,
            "best": [(view, feature) for _, view, feature in best[:3]],
            "confidence": None,
            "sure": None,
            "agreement": None if agreement is None or not size else agreement[label] / size,
        }
        if display.bands is not None and display.mean_confidence is not None and size:
            cluster |= {"confidence": display.mean_confidence[label], "sure": display.bands[-1, label] / size}
        found.append(cluster)
    return found


def _confidence(display: ClusterDisplay, confidence: Any) -> dict[str, float] | None:
    """Return the mean and the shares of sure and unsure samples, counted as they are by cluster."""
    if display.bands is None:
        return None
    total = display.sizes.sum()
    return {
        "mean": float(np.mean(confidence, dtype=np.float64)),
        "sure": float(display.bands[-1].sum() / total),
        "unsure": float(display.bands[0].sum() / total),
    }


def _influence(model: Any) -> list[dict[str, Any]] | None:
    """Return what the partition owes to each view; None for a single view, and for models that do not say."""
    columns = getattr(model, "view_support_", None), getattr(model, "view_influence_", None)
    if any(column is None for column in columns) or len(model.view_names_) < 2:
        return None
    rows = zip(model.view_names_, *(np.asarray(column).tolist() for column in columns), strict=True)
    return [{"name": name, "support": support, "changed": changed} for name, support, changed in rows]


def _imputation(model: Any) -> list[dict[str, Any]] | None:
    """Return how well held-out entries of each view were imputed; None where that was not measured."""
    if model._reference is None:
        return None
    return [
        {
            "name": name,
            "entries": int(row["entries"]),
            "explained": row["explained"],
            "covered": {level: row[f"coverage_{level}"] for level in (50, 80, 90, 95)},
        }
        for name, row in model.imputation_report().iterrows()
    ]


def _weights(model: Any, labels: Any) -> list[list[float | None]] | None:
    if not hasattr(model, "view_weights_"):
        return None
    display = ViewWeightDisplay(model.view_weights_, labels, model.view_names_, n_clusters=model.n_clusters_)
    return [[None if np.isnan(value) else value for value in row] for row in display.cluster_weights.tolist()]


def _correlation(model: Any) -> dict[str, Any] | None:
    if not hasattr(model, "correlation_"):
        return None
    matrix = np.asarray(model.correlation_)
    words = correlation_words(model.view_names_, matrix, learned=getattr(model.network_, "learns_correlation", False))
    return {"matrix": matrix.tolist(), "words": words}


def _settings(model: Any) -> list[tuple[str, str, str]]:
    """Return every setting, its value in this fit, and who chose it."""
    given = {name: plain(value) for name, value in model.get_settings().items()}
    chosen = {**OTHERWISE, **RECIPES[given["recipe"]]} if "recipe" in given else {}
    rows = []
    for name, parameter in setting_parameters(type(model)).items():
        by = "given" if repr(given[name]) != repr(parameter.default) else "default"
        if given[name] is None and name in chosen:
            by = "recipe"
        rows.append((name, repr(model.settings_[name]), by))
    return sorted(rows, key=lambda row: ("given", "recipe", "default").index(row[2]))


def _provenance(model: Any) -> list[tuple[str, str]]:
    known = {"method": type(model).__name__, "seed": getattr(model, "random_state", None), **model.provenance_}
    texts = {name: ", ".join(map(str, v)) if isinstance(v, list | tuple) else v for name, v in known.items()}
    return [(name, str(text)) for name, text in texts.items() if text is not None and text != ""]
