"""What numbers say, in words: the learned correlation, and the health of training."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.console import count
from acova.report.numbers import fixed, listed, percent

_CLEAR = 0.1
"""A correlation or contrast below this is not worth a sentence."""


class Check(NamedTuple):
    """One finding about training: ``"good"``, ``"note"`` or ``"warning"``, and a sentence."""

    level: str
    text: str


def correlation_words(names: Sequence[str], correlation: NDArray[Any], *, learned: bool) -> list[str]:
    """Say in sentences what a correlation matrix (V, V) of the views' errors means."""
    if len(names) < 2:
        return ["There is only one view, so there is no correlation between views."]
    said = [] if learned else ["This matrix was set, not learned."]
    pairs = {pair: float(correlation[pair]) for pair in combinations(range(len(names)), 2)}
    (a, b), most = max(pairs.items(), key=lambda item: item[1])
    (c, d), least = min(pairs.items(), key=lambda item: item[1])
    if max(most, -least) < _CLEAR:
        said.append("All correlations are close to 0: the errors of the views are independent of each other.")
    if most >= _CLEAR:
        together = fixed(most, signed=True)
        said.append(
            f"The errors of {names[a]} and {names[b]} are the most strongly correlated ({together}): where one view is "
            "misleading, the other often is too, so together they are less informative than two independent views."
        )
    if least <= -_CLEAR:
        opposed = fixed(least, signed=True)
        said.append(
            f"The errors of {names[c]} and {names[d]} are negatively correlated ({opposed}), so they partly cancel out "
            "when the views are fused."
        )
    said += _most_independent(names, correlation)
    worth = effective_views(correlation)
    if worth is not None:
        said.append(
            f"If all {len(names)} views were equally precise, together they would be as informative as {worth:.1f} "
            "independent views."
        )
    return said


def _most_independent(names: Sequence[str], correlation: NDArray[Any]) -> list[str]:
    """Name the view whose errors depend least on the others', where it stands out."""
    if len(names) < 3:
        return []
    strength = (np.abs(correlation).sum(axis=1) - 1) / (len(names) - 1)
    first, second = np.argsort(strength, kind="stable")[:2]
    if strength[second] - strength[first] < _CLEAR:
        return []
    return [
        f"The errors of {names[first]} depend least on those of the other views (mean absolute correlation "
        f"{strength[first]:.2f}), so this view adds the most information that the others lack."
    ]


def effective_views(correlation: NDArray[Any]) -> float | None:
    """Return 1ᵀR⁻¹1, the precision of views of precision 1 that err with correlation R; None where R is singular."""
    try:
        weights = np.linalg.solve(correlation, np.ones(len(correlation)))
    except np.linalg.LinAlgError:
        return None
    worth = float(weights.sum())
    return worth if 0 < worth < 1e3 else None


def training_checks(model: Any) -> list[Check]:
    """Look at a fitted model for what a careful reader would look at in its history."""
    history: pd.DataFrame = model.history_
    checks = [_empty(model)]
    if not hasattr(model, "n_iter_"):  # k-means: one row per table
        return [*checks, Check("good", f"k-means took {_iterations(history)}.")]
    if not len(history):
        text = "No epoch was trained, so the clusters are those of the initialization; set pretrain_epochs or epochs."
        return [*checks, Check("warning", text)]
    checks += _not_finite(model)
    if not np.isfinite(history["total"].iloc[-1:]).all():
        checks.append(Check("warning", "The objective is not finite: lower the learning rates."))
    last = history[history["phase"] == history["phase"].iloc[-1]]
    checks += [check for check in (_settled(last), _clipped(model, history), _floored(last), _runs(model)) if check]
    return checks


def _iterations(history: pd.DataFrame) -> str:
    """Say how many iterations k-means took; on each of several tables, such as one for each view."""
    counts = [count(number, "iteration") for number in history["epoch"].tolist()]
    if len(counts) == 1:
        return counts[0]
    return listed([f"{each} on {table}" for each, table in zip(counts, history["phase"], strict=True)])


def _empty(model: Any) -> Check:
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    empty = int((sizes == 0).sum())
    if empty:
        return Check(
            "warning", f"{empty} of {len(sizes)} clusters {'is' if empty == 1 else 'are'} empty; try fewer clusters."
        )
    small = np.flatnonzero(sizes < 0.1 * sizes.mean())
    if len(small):
        which = f"Cluster {small[0]} has" if len(small) == 1 else f"Clusters {listed(small.tolist())} have"
        return Check("note", f"{which} less than a tenth of the mean number of samples.")
    if len(sizes) == 1:
        return Check("note", "There is one cluster, which has all samples.")
    return Check("good", f"No cluster is empty: they have from {sizes.min():,} to {sizes.max():,} samples.")


def _not_finite(model: Any) -> list[Check]:
    """Count the samples of which the network says nothing that is a number."""
    finite = [np.isfinite(getattr(model, name)).all(axis=1) for name in ("latent_", "probabilities_")]
    broken = int((~np.all(finite, axis=0)).sum())
    if not broken:
        return []
    verb = "has" if broken == 1 else "have"
    text = (
        f"{count(broken, 'sample')} {verb} latent vectors or probabilities that are not finite; such labels are "
        "meaningless."
    )
    return [Check("warning", text)]


def _settled(last: pd.DataFrame) -> Check | None:
    totals = last["total"].to_numpy(dtype=float)
    window = max(len(totals) // 10, 5)
    if len(totals) < 2 * window:
        return Check(
            "note", f"{len(totals)} epochs in the last phase are too few to see whether the objective has converged."
        )
    if not np.isfinite(totals[-2 * window :]).all():
        return None
    before, now = totals[-2 * window : -window].mean(), totals[-window:].mean()
    change = (now - before) / max(abs(before), 1e-12)
    how = f"the mean objective of the last {window} epochs is {100 * abs(change):.1f}%"
    if change < -0.01:
        return Check("note", f"Still improving: {how} below that of the {window} epochs before; more epochs may help.")
    if change > 0.01:
        return Check(
            "warning", f"Getting worse: {how} above that of the {window} epochs before; lower the learning rates."
        )
    return Check("good", f"Converged: {how} {'below' if change < 0 else 'above'} that of the {window} before.")


def _clipped(model: Any, history: pd.DataFrame) -> Check | None:
    if "clipped" not in history or not history["clipped"].notna().any():
        return None
    counted = history["clipped"].dropna()
    steps = len(counted) * -(-len(model.labels_) // model.batch_size)
    share = counted.sum() / max(steps, 1)
    if share > 0.05:
        return Check("warning", f"Gradients were clipped in {percent(share)} of the steps; lower the learning rates.")
    return Check("good", f"Gradients were clipped in {counted.sum():,.0f} of {steps:,} steps.")


def _floored(last: pd.DataFrame) -> Check | None:
    if "floored" not in last or not last["floored"].notna().any():
        return None
    floored = float(last["floored"].iloc[-1])
    if floored > 0.01:
        text = (
            f"On average {floored:.2f} standard deviations of each sample are at their lower bound: some posteriors "
            "have collapsed."
        )
        return Check("note", text)
    return Check("good", "No posterior has collapsed: the standard deviations are above their lower bound.")


def _runs(model: Any) -> Check | None:
    if len(model.objectives_) < 2:
        text = "There is one run, and another seed may give other clusters: n_init=10, consensus=True shows how much."
        return Check("note", text)
    spread = f"from {model.objectives_.min():.4g} to {model.objectives_.max():.4g}"
    text = f"The objectives of the {len(model.objectives_)} runs are {spread}."
    if getattr(model, "n_voters_", 1) == 1:
        return Check("good", f"{text} The run with the lowest is kept.")
    mean = float(model.agreement_.mean())
    level = "good" if mean >= 0.8 else "note"
    return Check(level, f"{text} On average {percent(mean)} of them agree on a sample's cluster.")
