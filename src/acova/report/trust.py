"""What should not be trusted: the checks whose findings open the report."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from acova.report.numbers import fixed, listed, percent
from acova.report.result import Result
from acova.report.words import training_checks

_APART = 0.1
"""Difference of mean confidence and mean agreement of the runs that is reported."""
_DECIDES, _TIMES = 0.2, 3.0
"""Share of the samples that a view must decide, and how many times as much as any other view, to be reported."""
_NO_SUPPORT = 0.1
"""Support up to which a view says no more about the clusters than chance."""
_LACKS, _LACKING = 0.6, 20
"""Difference of the shares that lack a view, and samples of a cluster, from which on missingness may have formed it."""


class Finding(NamedTuple):
    """One reason for caution.

    Attributes
    ----------
    level : {"warning", "note"}
    text : str
    section : str
        The section of the report that shows more.
    clusters : tuple of int
        The clusters it is about; empty when it is about the result as a whole.
    """

    level: str
    text: str
    section: str
    clusters: tuple[int, ...] = ()


def find_doubts(result: Result) -> list[Finding]:
    """Return what every check of `CHECKS` finds, warnings first."""
    found = [finding for check in CHECKS for finding in check(result)]
    return sorted(found, key=lambda one: one.level != "warning")


def _warned(result: Result) -> Iterator[Finding]:
    """Repeat what the fit itself warned of."""
    for text in getattr(result.model, "warnings_", ()):
        yield Finding("warning", str(text), "training")


def _islands(result: Result) -> Iterator[Finding]:
    """Find clusters that are two islands of the map."""
    for cluster, shares in (result.islands.split if result.islands else {}).items():
        sizes = " and ".join(map(percent, shares))
        text = (
            f"Cluster {cluster} lies on two islands of the map, with {sizes} of its samples, which are not neighbours "
            "in the latent space either. It may be two groups: look at its samples, or try one cluster more."
        )
        yield Finding("warning", text, "map", (cluster,))


def _sure_but_divided(result: Result) -> Iterator[Finding]:
    """Compare the confidence with the share of runs that agree."""
    if result.confidence is None or result.agreement is None:
        return
    sure, agreed = float(np.mean(result.confidence)), float(np.mean(result.agreement))
    if sure > agreed + _APART:
        text = (
            f"The mean confidence is {fixed(sure)}, but on average only {percent(agreed)} of the runs agree on a "
            "sample's cluster. Trust the agreement of the runs, not the confidence."
        )
        yield Finding("warning", text, "clusters")
        return
    doubtful = []
    for cluster in range(result.model.n_clusters_):
        own = result.labels == cluster
        if own.any() and result.confidence[own].mean() > result.agreement[own].mean() + _APART:
            doubtful.append(cluster)
    if doubtful:
        where = f"cluster{'s' if len(doubtful) > 1 else ''} {listed(doubtful)}"
        text = (
            f"In {where} the mean confidence is far above the share of runs that agree. Trust the agreement of the "
            "runs there."
        )
        yield Finding("warning", text, "clusters", tuple(doubtful))


def _deciding_view(result: Result) -> Iterator[Finding]:
    """Find a view that decides alone, and views that have no part in the clusters."""
    changed = getattr(result.model, "view_influence_", None)
    support = getattr(result.model, "view_support_", None)
    names = result.model.view_names_
    if changed is None or support is None or len(names) < 2:
        return
    order = np.argsort(-np.asarray(changed), kind="stable")
    most, next_most = float(changed[order[0]]), float(changed[order[1]])
    if most >= _DECIDES and most >= _TIMES * next_most:
        text = (
            f"The view {names[order[0]]} decides almost alone: without it {percent(most)} of the samples would be in "
            f"another cluster, without any other view at most {percent(next_most)}. Make sure that you want its groups."
        )
        yield Finding("warning", text, "influence")
    idle = [names[v] for v in np.flatnonzero(np.asarray(support) <= _NO_SUPPORT)]
    if idle and len(idle) < len(names):
        verb, subject = ("shows", "The view") if len(idle) == 1 else ("show", "The views")
        yield Finding("note", f"{subject} {listed(idle)} {verb} no trace of the clusters.", "influence")


def _missing_decides(result: Result) -> Iterator[Finding]:
    """Find clusters whose samples lack a view far more, or far less, often than others."""
    rows = result.model.summary_.rows
    sizes = np.bincount(result.labels, minlength=result.model.n_clusters_)
    total, totals = sizes.sum(), rows.sum(axis=0)
    for cluster in np.flatnonzero((sizes >= _LACKING) & (total - sizes >= _LACKING)).tolist():
        lacks = 1 - rows[cluster] / sizes[cluster]
        others = 1 - (totals - rows[cluster]) / (total - sizes[cluster])
        view = int(np.argmax(np.abs(lacks - others)))
        if abs(lacks[view] - others[view]) >= _LACKS:
            text = (
                f"In cluster {cluster}, {percent(lacks[view])} of the samples lack the view "
                f"{result.model.view_names_[view]}; of the other samples, {percent(others[view])} do. What is missing "
                "may have formed this cluster."
            )
            yield Finding("warning", text, "data", (cluster,))


def _training(result: Result) -> Iterator[Finding]:
    """Repeat what the section on training marks as a warning, unless the fit said it already."""
    if getattr(result.model, "warnings_", ()):
        return
    for check in training_checks(result.model):
        if check.level == "warning":
            yield Finding("warning", check.text, "training")


CHECKS: tuple[Callable[[Result], Iterator[Finding]], ...] = (
    _warned,
    _sure_but_divided,
    _islands,
    _deciding_view,
    _missing_decides,
    _training,
)
"""Every check of the report; a new one is a function here."""
