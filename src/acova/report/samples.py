"""The samples that a report shows: all of them, or some of every cluster."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.data.summary import count_patterns
from acova.plots import map_points


def choose_samples(labels: NDArray[np.int64], n_clusters: int, limit: int) -> NDArray[np.intp]:
    """Return at most `limit` positions, every cluster's share drawn at random: a fixed few, the rest by size."""
    if len(labels) <= limit:
        return np.arange(len(labels))
    sizes = np.bincount(labels, minlength=n_clusters)
    quotas = np.minimum(sizes, limit // (4 * n_clusters))
    left = sizes - quotas
    quotas += left * (limit - quotas.sum()) // left.sum()
    rng = np.random.default_rng(0)
    picked = [rng.choice(np.flatnonzero(labels == k), quota, replace=False) for k, quota in enumerate(quotas)]
    return np.sort(np.concatenate(picked))


def sample_columns(model: Any, rows: NDArray[np.intp], method: str) -> dict[str, Any]:
    """Return the samples at the given positions as columns of small numbers, for the page's table and map.

    ``name``, ``label``; where the method tells them ``confidence`` and ``agreement`` (thousandths), ``second`` (the
    next probable cluster), ``pattern`` (index into ``patterns``, strings of 0 and 1 by view), ``x`` and ``y``
    (0 to 1000) with ``map``, how they were made.
    """
    labels = np.asarray(model.labels_[rows])
    columns: dict[str, Any] = {"name": [str(name) for name in model.index_[rows]], "label": labels.tolist()}
    if not hasattr(model, "probabilities_"):
        return columns
    shares = np.asarray(model.probabilities_[rows])
    columns["confidence"] = _thousandths(shares.max(axis=1))
    if shares.shape[1] > 1:
        columns["second"] = np.argsort(-shares, axis=1, kind="stable")[:, 1].tolist()
    if getattr(model, "n_voters_", 1) > 1:
        columns["agreement"] = _thousandths(model.agreement_[rows])
    observed = np.asarray(model.view_weights_[rows]) != 0  # a missing view weighs exactly nothing
    patterns = count_patterns(observed)[0]
    where = {pattern.tobytes(): number for number, pattern in enumerate(patterns)}
    columns["pattern"] = [where[row.tobytes()] for row in observed]
    columns["patterns"] = ["".join("01"[seen] for seen in pattern) for pattern in patterns.astype(int).tolist()]
    points, columns["map"] = map_points("report", np.asarray(model.latent_[rows]), method)
    return columns | dict(zip("xy", _placed(points), strict=True))


def _placed(points: NDArray[np.float64]) -> list[list[int]]:
    """Return both coordinates of points (n, 2) as numbers from 0 to 1000; points that are not finite lie at 0."""
    finite = np.asarray(np.isfinite(points).all(axis=1))
    points = np.where(finite[:, None], points, points[finite].min(axis=0, initial=np.inf))
    points = points - points.min(axis=0) if finite.any() else np.zeros_like(points)
    return [[int(place) for place in axis] for axis in np.rint(points / max(points.max(), 1e-300) * 1000).T]


def _thousandths(shares: Any) -> list[int]:
    """Return shares as whole thousandths; what is not a number is 0."""
    return [int(share) for share in np.rint(np.nan_to_num(np.asarray(shares)) * 1000)]
