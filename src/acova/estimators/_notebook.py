"""What a notebook shows of a fitted model, below scikit-learn's drawing of its settings."""

from typing import Any

import numpy as np
from sklearn.utils.validation import _is_fitted

from acova.base.html import html_table
from acova.console import count as counted

_MOST = 20
"""Clusters that are listed."""


class NotebookMixin:
    """Adds the clusters, the warnings and the next steps of a fitted clusterer to what a notebook shows."""

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += fitted_html(self)
        return bundle

    def _repr_html_inner(self) -> str:
        return str(super()._repr_html_inner()) + fitted_html(self)  # type: ignore[misc]


def fitted_html(model: Any) -> str:
    """Return the clusters of a fitted model as a table; nothing for one without a fit."""
    if not _is_fitted(model, "labels_"):
        return ""
    labels, count = np.asarray(model.labels_), int(model.n_clusters)
    sizes = np.bincount(labels, minlength=count)
    columns, parts = ["cluster", "samples"], [sizes.tolist()]
    for title, values in (("mean confidence", _confidence(model)), ("runs agree", getattr(model, "agreement_", None))):
        if values is not None:
            means = np.bincount(labels, np.asarray(values), minlength=count) / np.maximum(sizes, 1)
            columns.append(title)
            parts.append([f"{mean:.2f}" if size else "–" for mean, size in zip(means, sizes, strict=True)])
    rows = [(cluster, *cells) for cluster, cells in enumerate(zip(*parts, strict=True))]
    more = f"… and {count - _MOST} more clusters. " if count > _MOST else ""
    title = (
        f"{counted(count, 'cluster')} of {counted(len(labels), 'sample')} in {counted(len(model.view_names_), 'view')}"
    )
    table = html_table(title, columns, rows[:_MOST], f'{more}model.report("report.html") shows the rest.')
    return table + "".join(html_table("Warning", (), [(text,)]) for text in model.warnings_)


def _confidence(model: Any) -> Any:
    shares = getattr(model, "probabilities_", None)
    return None if shares is None else np.asarray(shares).max(axis=1)
