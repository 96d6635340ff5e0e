"""What numbers say, in words: the learned correlation, and the health of training."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.report.numbers import fixed, percent

_CLEAR = 0.1
"""A correlation or contrast below this is not worth a sentence."""


class Check(NamedTuple):
    """One finding about training: ``"good"``, ``"note"`` or ``"warning"``, and a sentence."""

    level: str
    text: str


def correlation_words(names: Sequence[str], correlation: NDArray[Any], *, learned: bool) -> list[str]:
    """Say in sentences what a correlation matrix (V, V) of the views' errors means."""
    if len(names) < 2:
        return ["There is one view, so there is nothing it could be correlated with."]
    said = [] if learned else ["This matrix was set, not learned."]
    pairs = {pair: float(correlation[pair]) for pair in combinations(range(len(names)), 2)}
    (a, b), most = max(pairs.items(), key=lambda item: item[1])
    (c, d), least = min(pairs.items(), key=lambda item: item[1])
    if max(most, -least) < _CLEAR:
        said.append("All pairs are close to 0: each view errs independently of the others.")
    if most >= _CLEAR:
        together = fixed(most, signed=True)
        said.append(
            f"The errors of {names[a]} and {names[b]} go together most ({together}): where one misleads, so does the "
            "other, and together they tell less than two independent views would."
        )
    if least <= -_CLEAR:
        opposed = fixed(least, signed=True)
        said.append(f"The errors of {names[c]} and {names[d]} are opposed ({opposed}): they correct each other.")
    said += _most_independent(names, correlation)
    worth = effective_views(correlation)
    if worth is not None:
        said.append(
            f"If all were equally precise, the {len(names)} views together would be worth {worth:.1f} independent ones."
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
        f"{names[first]} errs most independently (mean correlation {strength[first]:.2f} in size), so it adds most "
        "that the other views do not tell."
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
        rounds = " and ".join(f"{row.epoch} rounds on {row.phase}" for row in history.itertuples())
        return [*checks, Check("good", f"k-means ended after {rounds}.")]
    if not len(history):
        text = "No epoch was trained, so the clusters are where the start put them; give pretrain_epochs or epochs."
        return [*checks, Check("warning", text)]
    checks += _not_finite(model)
    if not np.isfinite(history["total"].iloc[-1:]).all():
        checks.append(Check("warning", "The objective is not finite: lower the learning rates."))
    last = history[history["phase"] == history["phase"].iloc[-1]]
    checks += [check for check in (_settled(last), _clipped(model, history), _floored(last), _runs(model)) if check]
    return checks


def _empty(model: Any) -> Check:
    sizes = np.bincount(model.labels_, minlength=model.n_clusters_)
    empty = int((sizes == 0).sum())
    if empty:
        return Check("warning", f"{empty} of {len(sizes)} clusters have no sample; try fewer clusters.")
    small = np.flatnonzero(sizes < 0.1 * sizes.mean())
    if len(small):
        return Check("note", f"Less than a tenth of the mean size: cluster {', '.join(map(str, small.tolist()))}.")
    return Check("good", f"All {len(sizes)} clusters have samples, from {sizes.min():,} to {sizes.max():,}.")


def _not_finite(model: Any) -> list[Check]:
    """Count the samples of which the network says nothing that is a number."""
    finite = [np.isfinite(getattr(model, name)).all(axis=1) for name in ("latent_", "probabilities_")]
    count = int((~np.all(finite, axis=0)).sum())
    if not count:
        return []
    text = f"{count:,} samples have latent vectors or probabilities that are not finite; their labels mean nothing."
    return [Check("warning", text)]


def _settled(last: pd.DataFrame) -> Check | None:
    totals = last["total"].to_numpy(dtype=float)
    window = max(len(totals) // 10, 5)
    if len(totals) < 2 * window:
        return Check("note", f"{len(totals)} epochs in the last phase are too few to tell whether training settled.")
    if not np.isfinite(totals[-2 * window :]).all():
        return None
    before, now = totals[-2 * window : -window].mean(), totals[-window:].mean()
    change = (now - before) / max(abs(before), 1e-12)
    how = f"the objective's mean over the last {window} epochs is {100 * abs(change):.1f} %"
    if change < -0.01:
        return Check("note", f"Still improving: {how} below that of the {window} before; more epochs may help.")
    if change > 0.01:
        return Check("warning", f"Getting worse: {how} above that of the {window} before; lower the learning rates.")
    return Check("good", f"Training settled: {how} {'below' if change < 0 else 'above'} that of the {window} before.")


def _clipped(model: Any, history: pd.DataFrame) -> Check | None:
    if "clipped" not in history or not history["clipped"].notna().any():
        return None
    counted = history["clipped"].dropna()
    steps = len(counted) * -(-len(model.labels_) // model.batch_size)
    share = counted.sum() / max(steps, 1)
    if share > 0.05:
        return Check("warning", f"Gradients were shortened in {percent(share)} of the steps; lower the learning rates.")
    return Check("good", f"Gradients were shortened in {counted.sum():.0f} of {steps:,} steps.")


def _floored(last: pd.DataFrame) -> Check | None:
    if "floored" not in last or not last["floored"].notna().any():
        return None
    floored = float(last["floored"].iloc[-1])
    if floored > 0.01:
        text = f"{floored:.2f} standard deviations per sample lie at their floor: some posteriors have collapsed."
        return Check("note", text)
    return Check("good", "No posterior has collapsed to the floor of its standard deviation.")


def _runs(model: Any) -> Check | None:
    if len(model.objectives_) < 2:
        return Check("note", "One run: another seed may give other clusters. n_init=10, consensus=True tells how much.")
    spread = f"from {model.objectives_.min():.4g} to {model.objectives_.max():.4g}"
    text = f"{len(model.objectives_)} runs ended with objectives {spread}."
    if getattr(model, "n_voters_", 1) == 1:
        return Check("good", f"{text} The lowest is kept.")
    mean = float(model.agreement_.mean())
    level = "good" if mean >= 0.8 else "note"
    return Check(level, f"{text} On average {percent(mean)} of them agree on a sample's cluster.")
