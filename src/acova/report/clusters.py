"""What the page says of each cluster."""

from typing import Any

import numpy as np

from acova.report.numbers import listed
from acova.report.profiles import Feature, Profile, cluster_profiles
from acova.report.result import Result
from acova.report.trust import find_doubts

_MOST_TABLES = 100
"""Clusters times views up to which five features are listed by cluster and view; beyond, three."""
_BEST = 5
"""Features that a card shows before it is unfolded."""
_UNUSUAL = 0.1
"""Difference of the shares that lack a view, in the cluster and elsewhere, from which on a card shows both."""


def cluster_cards(result: Result) -> list[dict[str, Any]]:
    """Return what the page says of each cluster, in the order of their numbers: the largest first."""
    model = result.model
    top = 5 if model.n_clusters_ * len(model.view_names_) <= _MOST_TABLES else 3
    doubts = find_doubts(result)
    cards = []
    for cluster, profiles in enumerate(cluster_profiles(model, top)):
        pairs = [(profile.view, feature) for profile in profiles for feature in profile.features]
        pairs.sort(key=lambda pair: -abs(pair[1].effect))
        best = [{"view": view, "feature": feature} for view, feature in pairs[:_BEST]]
        card = _counts(result, cluster) | {
            "number": cluster,
            "profiles": profiles,
            "best": best,
            "words": _in_words(pairs[:_BEST]),
            "lacking": _lacking(result, cluster, profiles),
            "doubts": [doubt.text for doubt in doubts if cluster in doubt.clusters],
        }
        cards.append(card | {"next": _next_cluster(result, cluster)})
    return cards


def _counts(result: Result, cluster: int) -> dict[str, Any]:
    """Return size, confidence and agreement of a cluster; None for what there is not."""
    display, own = result.display, result.labels == cluster
    size = int(display.sizes[cluster])
    confidence = sure = None
    if display.bands is not None and display.mean_confidence is not None and size:
        confidence, sure = float(display.mean_confidence[cluster]), float(display.bands[-1, cluster] / size)
    return {
        "size": size,
        "share": size / len(result.labels),
        "bar": size / max(int(display.sizes.max()), 1),
        "confidence": confidence,
        "sure": sure,
        "agreement": None if result.agreement is None or not size else float(result.agreement[own].mean()),
    }


def _in_words(best: list[tuple[str, Feature]]) -> str:
    """Say which features are higher and which are lower in the cluster than elsewhere."""
    names = [(f"{feature.name} ({view})", feature.effect > 0) for view, feature in best]
    parts = []
    for word, sign in (("high", True), ("low", False)):
        chosen = [name for name, higher in names if higher == sign]
        if chosen:
            parts.append(f"{word} {listed(chosen)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if text else "No feature differs from the other clusters."


def _lacking(result: Result, cluster: int, profiles: list[Profile]) -> list[dict[str, Any]]:
    """Return for each view that somebody lacks the share of the cluster, and of all other samples, that lack it."""
    rows = result.model.summary_.rows
    size, total = int(result.display.sizes[cluster]), len(result.labels)
    found = []
    for v, profile in enumerate(profiles):
        others = int(rows[:, v].sum()) - profile.rows
        if not size or profile.rows + others == total:
            continue
        share, elsewhere = 1 - profile.rows / size, 1 - others / (total - size) if total > size else None
        unusual = elsewhere is not None and abs(share - elsewhere) >= _UNUSUAL
        found.append({"view": profile.view, "share": share, "elsewhere": elsewhere, "unusual": unusual})
    return found


def _next_cluster(result: Result, cluster: int) -> dict[str, Any] | None:
    """Return the cluster that is most often the second most probable one, and for which share of the samples."""
    own = result.labels == cluster
    if result.confidence is None or result.model.n_clusters_ < 2 or not own.any():
        return None
    shares = np.nan_to_num(np.array(result.model.probabilities_[own], dtype=np.float64))
    shares[:, cluster] = -1.0
    counts = np.bincount(shares.argmax(axis=1), minlength=shares.shape[1])
    return {"number": int(counts.argmax()), "share": float(counts.max() / own.sum())}
