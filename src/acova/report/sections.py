"""The sections of the report, in their order: each is a title, a template, and a function that returns its data.

A new section is a function here or in a file of its own, a line of `SECTIONS`, and ``templates/NAME.html``, which finds
the data under the name ``section``. A function that returns None leaves its section out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from acova.estimators._settings import plain, setting_parameters
from acova.plots import CONFIDENCE_EDGES, MissingDisplay, ViewWeightDisplay
from acova.report.clusters import cluster_cards
from acova.report.comparison import compare_results
from acova.report.outside import associations
from acova.report.result import Result
from acova.report.survival import survival_by_cluster
from acova.report.svg import convergence_chart
from acova.report.tree import cluster_tree
from acova.report.trust import find_doubts
from acova.report.words import correlation_words, training_checks

_MAX_PATTERNS = 15
_MAX_LEVELS = 6


@dataclass(frozen=True)
class Section:
    """One section of the page.

    Attributes
    ----------
    name : str
        Its anchor, the name of its template, and its key among the numbers that the page exports.
    title : str
    label : str
        The title in the navigation.
    data : callable
        From a `Result` to what the template shows and the page exports: dicts, lists, tuples, texts and numbers.
        None: nothing to say, so the section is left out.
    """

    name: str
    title: str
    label: str
    data: Callable[[Result], dict[str, Any] | None]


def _trust(result: Result) -> dict[str, Any]:
    doubts = find_doubts(result)
    return {"doubts": doubts, "worst": doubts[0].level if doubts else None}


def _views(result: Result) -> dict[str, Any]:
    model = result.model
    counts = model.summary_.counts @ model.summary_.patterns
    total = model.summary_.counts.sum()
    rows = zip(model.view_names_, model.view_sizes_, counts, strict=True)
    views = [{"name": n, "features": size, "count": int(c), "share": float(c / total)} for n, size, c in rows]
    kinds = getattr(model, "likelihoods_", {})
    for view in views:
        empty = model.empty_cells_.get(view["name"], 0)
        cells = max(view["count"] * view["features"], 1)
        view |= {"likelihood": kinds.get(view["name"], "").replace("_", " ")}
        view |= {"empty": empty, "empty_share": empty / cells}
    covariates = {
        name: f"{name} ({', '.join(levels[:_MAX_LEVELS])}{', …' if len(levels) > _MAX_LEVELS else ''})"
        if levels
        else name
        for name, levels in getattr(model, "covariates_", {}).items()
    }
    return {"views": views, "covariates": list(covariates.values()), "missing": _patterns(model)}


def _patterns(model: Any) -> dict[str, Any]:
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


def _map(result: Result) -> dict[str, Any]:
    sizes, display = result.display.sizes, result.display
    confidence = None
    if display.bands is not None and result.confidence is not None:
        total = sizes.sum()
        confidence = {
            "mean": float(np.mean(result.confidence, dtype=np.float64)),
            "sure": float(display.bands[-1].sum() / total),
            "unsure": float(display.bands[0].sum() / total),
        }
    agreement = None if result.agreement is None else float(np.mean(result.agreement, dtype=np.float64))
    return {
        "map": result.columns.get("map"),
        "confidence": confidence,
        "agreement": agreement,
        "edges": CONFIDENCE_EDGES,
        "sizes": sizes.tolist(),
        "empty": np.flatnonzero(sizes == 0).tolist(),
        "number": None if result.model.cluster_numbers_ is None else result.model.cluster_numbers_.reason,
    }


def _clusters(result: Result) -> dict[str, Any]:
    return {"clusters": cluster_cards(result)}


def _influence(result: Result) -> dict[str, Any] | None:
    """Return what the partition owes to each view; None for a single view, and for models that do not say."""
    model = result.model
    columns = getattr(model, "view_support_", None), getattr(model, "view_influence_", None)
    if any(column is None for column in columns) or len(model.view_names_) < 2:
        return None
    rows = zip(model.view_names_, *(np.asarray(column).tolist() for column in columns), strict=True)
    return {"views": [{"name": name, "support": support, "changed": changed} for name, support, changed in rows]}


def _weights(result: Result) -> dict[str, Any] | None:
    model = result.model
    if not hasattr(model, "view_weights_"):
        return None
    display = ViewWeightDisplay(model.view_weights_, result.labels, model.view_names_, n_clusters=model.n_clusters_)
    rows = [[None if np.isnan(value) else value for value in row] for row in display.cluster_weights.tolist()]
    heaviest = max((abs(value) for row in rows for value in row if value is not None), default=0.0)
    return {"views": list(model.view_names_), "rows": rows, "heaviest": heaviest or 1.0}


def _correlation(result: Result) -> dict[str, Any] | None:
    model = result.model
    if not hasattr(model, "correlation_"):
        return None
    matrix = np.asarray(model.correlation_)
    words = correlation_words(model.view_names_, matrix, learned=getattr(model.network_, "learns_correlation", False))
    return {"views": list(model.view_names_), "matrix": matrix.tolist(), "words": words}


def _imputation(result: Result) -> dict[str, Any] | None:
    """Return how well held-out entries of each view were imputed; None where that was not measured."""
    model = result.model
    if model._reference is None:
        return None
    views = [
        {
            "name": name,
            "entries": int(row["entries"]),
            "explained": float(row["explained"]),
            "covered": {str(level): float(row[f"coverage_{level}"]) for level in (50, 80, 90, 95)},
        }
        for name, row in model.imputation_report().iterrows()
    ]
    return {"views": views}


def _training(result: Result) -> dict[str, Any]:
    model = result.model
    chart = convergence_chart(model.history_) if hasattr(model, "n_iter_") else None
    return {"checks": training_checks(model), "chart": chart}


def _comparison(result: Result) -> dict[str, Any] | None:
    return None if result.other is None else compare_results(result)


def _samples(result: Result) -> dict[str, Any]:
    return {"shown": len(result.rows), "all": len(result.labels)}


def _settings(result: Result) -> dict[str, Any]:
    """Return every setting, its value in this fit, and who chose it; and where the fit ran."""
    model = result.model
    given = {name: plain(value) for name, value in model.get_settings().items()}
    values = getattr(model, "settings_", given)
    rows = []
    for name, parameter in setting_parameters(type(model)).items():
        by = "given" if repr(given[name]) != repr(parameter.default) else "default"
        if repr(values[name]) != repr(given[name]):
            by = "recipe"
        rows.append((name, repr(values[name]), by))
    rows.sort(key=lambda row: ("given", "recipe", "default").index(row[2]))
    known = {"method": type(model).__name__, "seed": getattr(model, "random_state", None), **model.provenance_}
    texts = {name: ", ".join(map(str, v)) if isinstance(v, list | tuple) else v for name, v in known.items()}
    provenance = [(name, str(text)) for name, text in texts.items() if text is not None and text != ""]
    return {"model": repr(model), "settings": rows, "provenance": provenance}


SECTIONS = (
    Section("trust", "What to be careful about", "Caution", _trust),
    Section("map", "The clusters", "Clusters", _map),
    Section("clusters", "One card for each cluster", "Cards", _clusters),
    Section("tree", "Which clusters are alike", "Tree", cluster_tree),
    Section("comparison", "Compared with another run", "Comparison", _comparison),
    Section("data", "The data", "Data", _views),
    Section("outside", "What the clusters go with", "Associations", associations),
    Section("survival", "Survival by cluster", "Survival", survival_by_cluster),
    Section("influence", "What the clusters owe to each view", "Influence of views", _influence),
    Section("weights", "View weights by cluster", "View weights", _weights),
    Section("correlation", "Correlation of the views' errors", "Correlation", _correlation),
    Section("imputation", "How well missing views are imputed", "Imputation", _imputation),
    Section("training", "Training", "Training", _training),
    Section("samples", "Samples", "Samples", _samples),
    Section("settings", "Settings and provenance", "Settings", _settings),
)
"""Every section of the page."""
