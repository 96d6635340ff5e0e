"""Two results of the same samples, side by side."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from acova.base import DataError
from acova.estimators._settings import plain
from acova.report.result import Result

_LISTED = 50
"""Samples that are named among those that moved."""


def check_comparable(model: Any, other: Any) -> None:
    """Raise `DataError` where two results share no sample, or have samples without unique names."""
    for one in (model, other):
        if pd.Index(one.index_).has_duplicates:
            msg = "report: results can be compared only if each sample has a name of its own."
            raise DataError(msg)
    if not len(_common(model, other)):
        msg = (
            "report: the two results have no sample in common, so they cannot be compared; the first samples are "
            f"{model.index_[0]!r} and {other.index_[0]!r}."
        )
        raise DataError(msg)


def _common(model: Any, other: Any) -> "pd.Index[Any]":
    index: pd.Index[Any] = pd.Index(model.index_)
    return index[index.isin(other.index_)]


def compare_results(result: Result) -> dict[str, Any]:
    """Return sizes, matched clusters, moved samples and scores of agreement of a result and its `other`."""
    model, other = result.model, result.other
    common = _common(model, other)
    ours = pd.Series(np.asarray(model.labels_), index=model.index_)[common].to_numpy()
    theirs = pd.Series(np.asarray(other.labels_), index=other.index_)[common].to_numpy()
    counts = np.zeros((model.n_clusters_, other.n_clusters_), dtype=np.int64)
    np.add.at(counts, (ours, theirs), 1)
    matched = {int(a): int(b) for a, b in zip(*linear_sum_assignment(-counts), strict=True) if counts[a, b]}
    stayed = np.array([matched.get(int(a), -1) == b for a, b in zip(ours, theirs, strict=True)])
    moved = np.flatnonzero(~stayed)
    return {
        "other": result.other_name,
        "methods": (type(model).__name__, type(other).__name__),
        "samples": len(common),
        "only_here": len(model.labels_) - len(common),
        "only_there": len(other.labels_) - len(common),
        "clusters": _rows(counts, matched),
        "unmatched": [b for b in range(other.n_clusters_) if b not in matched.values() and counts[:, b].any()],
        "moved": len(moved),
        "same": float(stayed.mean()),
        "ari": float(adjusted_rand_score(theirs, ours)),
        "nmi": float(normalized_mutual_info_score(theirs, ours)),
        "moved_samples": [
            {"name": str(common[i]), "here": int(ours[i]), "there": int(theirs[i])} for i in moved[:_LISTED]
        ],
        "settings": _differing(model, other),
    }


def _rows(counts: Any, matched: dict[int, int]) -> list[dict[str, Any]]:
    """Return for each cluster its match, both sizes, the samples in both, and where most of the others were."""
    rows = []
    for cluster, row in enumerate(counts):
        match = matched.get(cluster)
        others = row.copy()
        if match is not None:
            others[match] = 0
        source = int(others.argmax()) if others.any() else None
        rows.append(
            {
                "number": cluster,
                "match": match,
                "size": int(row.sum()),
                "size_there": None if match is None else int(counts[:, match].sum()),
                "both": 0 if match is None else int(row[match]),
                "from": source,
                "from_count": 0 if source is None else int(others[source]),
            }
        )
    return rows


def _differing(model: Any, other: Any) -> list[tuple[str, str, str]]:
    """Return the settings whose values differ, as given; None for methods that have not the same settings."""
    here, there = ({name: repr(plain(value)) for name, value in one.get_settings().items()} for one in (model, other))
    names = [name for name in here if name in there and name != "verbose"]
    return [(name, here[name], there[name]) for name in names if here[name] != there[name]]
