"""Whether stated uncertainty can be believed: that of clusters, against known classes; that of latent vectors, too."""

from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import ndtr
from sklearn.metrics import roc_auc_score

from acova.base import Streams
from acova.data import Dataset
from acova.data.files.formats import has_class
from acova.engine.runtime import computation
from acova.plots.calibration import CalibrationDisplay
from acova.training.inference import CHUNK, batch_of, device_of

DRAWS = 32
"""Latent vectors drawn from each posterior."""
HALF_WIDTH = 1.6448536269514722
"""Standard deviations to each side of a normal mean that hold 90 %."""
_DIGITS = 5


def calibration_of(
    model: Any, dataset: Dataset, observed: NDArray[np.bool_], classes: NDArray[Any]
) -> dict[str, Any] | None:
    """Return how far the uncertainty of a fitted model can be believed; None for a method without a posterior.

    Parameters
    ----------
    model : fitted estimator
    dataset : Dataset
        With the views that were hidden from the fit.
    observed : array of bool, shape (n_samples, V)
        What the fit saw.
    classes : array of shape (n_samples,)
        Known classes, -1 where none is known.

    Returns
    -------
    dict
        ``brier``, ``ece``, ``auroc`` and ``confidence`` of the cluster probabilities at the posterior mean, the same
        with ``_drawn`` of their mean over draws from the posterior, see `cluster_calibration`; ``bins`` of the
        reliability diagram of the latter; ``coverage``, ``surer`` and ``widening`` of the posterior of the samples
        that lack views, see `latent_calibration`; and ``auroc_latent``, how well the width of the posterior tells
        right from wrong labels.
    """
    network = getattr(model, "network_", None)
    if network is None or not hasattr(network, "prior") or not hasattr(model, "means_"):
        return None
    seen = _posteriors(model, dataset.views.hide(observed), draw=True)
    known = has_class(classes)
    y, shares, drawn = classes[known], seen["shares"][known], seen["drawn"][known]
    right = partners(y, shares.argmax(axis=1), shares.shape[1])[shares.argmax(axis=1)] == y
    scores = cluster_calibration(y, shares)
    scores |= {f"{name}_drawn": value for name, value in cluster_calibration(y, drawn).items()}
    scores["auroc_latent"] = _auroc(right, -np.log(seen["variance"][known]).mean(axis=1))
    incomplete = ~observed.all(axis=1) & dataset.views.observed.all(axis=1)
    if incomplete.any():
        whole = _posteriors(model, dataset.views.take(np.flatnonzero(incomplete)), draw=False)
        few = seen["mean"][incomplete], seen["variance"][incomplete]
        scores |= latent_calibration(*few, whole["mean"], whole["variance"])
    kept = {name: round(value, _DIGITS) for name, value in scores.items() if not np.isnan(value)}
    return {**kept, "bins": reliability_bins(y, drawn)}


def cluster_calibration(y: ArrayLike, probabilities: ArrayLike) -> dict[str, float]:
    """Return how far cluster probabilities can be believed; clusters are matched to classes one to one.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Known classes.
    probabilities : array-like of shape (n_samples, K)

    Returns
    -------
    dict
        ``brier``: mean squared distance of the probabilities to 1 for the sample's class and 0 for the others, summed
        over clusters (0 to 2). ``ece``: expected calibration error of the largest probability in ten equal bins.
        ``auroc``: how well that probability separates right from wrong labels; NaN where all are right or all are
        wrong. ``confidence``: its mean.
    """
    classes, shares = np.asarray(y), np.asarray(probabilities, dtype=np.float64)
    labels, confidence = shares.argmax(axis=1), shares.max(axis=1)
    partner = partners(classes, labels, shares.shape[1])
    right = partner[labels] == classes
    return {
        "brier": float(np.square(shares - (partner == classes[:, None])).sum(axis=1).mean()),
        "ece": CalibrationDisplay(confidence, right).error,
        "auroc": _auroc(right, confidence),
        "confidence": float(confidence.mean()),
    }


def result_of(model: Any, classes: NDArray[Any]) -> dict[str, Any] | None:
    """Return how far the result of a fit can be believed, as the user gets it; None without cluster probabilities.

    Parameters
    ----------
    model : fitted estimator
    classes : array of shape (n_samples,)
        Known classes, -1 where none is known.

    Returns
    -------
    dict
        ``confidence``: mean probability of the labels. ``overconfidence``: that minus the share of right labels.
        ``auroc_confidence`` and, of a consensus, ``auroc_agreement``: how well confidence and the agreement of the runs
        tell right from wrong labels. ``warned``: number of warnings; ``warnings``: their texts. ``trust``, ``support``
        and ``influence`` of the views, where the model has them.
    """
    shares = getattr(model, "probabilities_", None)
    if shares is None:
        return None
    known = has_class(classes)
    labels, confidence = np.asarray(model.labels_)[known], np.asarray(shares, dtype=np.float64).max(axis=1)[known]
    right = partners(classes[known], labels, shares.shape[1])[labels] == classes[known]
    mean = float(confidence.mean())
    scores = {"confidence": mean, "overconfidence": mean - right.mean(), "auroc_confidence": _auroc(right, confidence)}
    if getattr(model, "n_voters_", 1) > 1:
        scores["auroc_agreement"] = _auroc(right, np.asarray(model.agreement_, dtype=np.float64)[known])
    found: dict[str, Any] = {name: round(float(v), _DIGITS) for name, v in scores.items() if not np.isnan(v)}
    warned = list(getattr(model, "warnings_", ()))
    found |= {"warned": len(warned), "warnings": warned}
    for name in ("trust", "support", "influence"):
        values = getattr(model, f"view_{name}_", None)
        if values is not None:
            found[name] = [round(float(value), _DIGITS) for value in np.nan_to_num(values)]
    return found


def partners(classes: NDArray[Any], labels: NDArray[np.int64], n_clusters: int) -> NDArray[Any]:
    """Return the class of each cluster, (K,), under the matching that `clustering_accuracy` scores; -1 for none."""
    names, codes = np.unique(classes, return_inverse=True)
    counts = np.zeros((len(names), n_clusters))
    np.add.at(counts, (codes, labels), 1)
    rows, columns = linear_sum_assignment(counts, maximize=True)
    partner = np.full(n_clusters, -1, dtype=names.dtype)
    partner[columns] = names[rows]
    return partner


def reliability_bins(y: ArrayLike, probabilities: ArrayLike) -> list[list[float]]:
    """Return number of samples, mean confidence and share of right labels in ten bins of the confidence."""
    classes, shares = np.asarray(y), np.asarray(probabilities, dtype=np.float64)
    labels = shares.argmax(axis=1)
    right = partners(classes, labels, shares.shape[1])[labels] == classes
    shown = CalibrationDisplay(shares.max(axis=1), right)
    columns = (shown.shares * len(right), shown.mean_confidence, shown.mean_holds)
    return [[round(float(value), _DIGITS) for value in row] for row in np.nan_to_num(np.stack(columns, axis=1))]


def latent_calibration(
    mean: NDArray[np.float64],
    variance: NDArray[np.float64],
    whole_mean: NDArray[np.float64],
    whole_variance: NDArray[np.float64],
) -> dict[str, float]:
    """Compare the posterior given some views with the same network's posterior given all views, each (N, D).

    Were both posteriors of one model, a latent vector drawn given all views of a sample would be, over the samples that
    show the same views, a draw of the posterior given those. So its 90 % interval would hold 90 % of them.

    Returns
    -------
    dict
        ``coverage``: expected share of the coordinates drawn given all views that lie in the 90 % interval given some.
        ``surer``: share of the coordinates with a smaller variance given some views than given all. ``widening``: mean
        of half the logarithm of the first variance over the second.
    """
    reach = HALF_WIDTH * np.sqrt(variance)
    spread = np.sqrt(whole_variance)
    inside = ndtr((mean + reach - whole_mean) / spread) - ndtr((mean - reach - whole_mean) / spread)
    return {
        "coverage": float(inside.mean()),
        "surer": float((variance < whole_variance).mean()),
        "widening": float(0.5 * np.log(variance / whole_variance).mean()),
    }


def _auroc(right: NDArray[np.bool_], values: NDArray[np.float64]) -> float:
    return float(roc_auc_score(right, values)) if 0 < right.sum() < len(right) else float("nan")


def _posteriors(model: Any, views: Any, *, draw: bool) -> dict[str, NDArray[np.float64]]:
    """Return posterior means and variances, (N, D), and cluster probabilities at the means and over draws, (N, K)."""
    network, parts = model.network_, []
    noise = Streams(model.seed_).child("calibration").numpy("draws")
    with computation(), torch.no_grad():
        for start in range(0, len(views), CHUNK):
            batch = batch_of(views.read(start, start + CHUNK), model._scaling, device_of(network))
            fused = network.posterior(batch.views, batch.observed)
            part = {"mean": fused.mean, "variance": fused.variance}
            if draw:
                normal = noise.standard_normal((DRAWS, *fused.mean.shape), dtype=np.float32)
                drawn = fused.mean + fused.variance.sqrt() * torch.from_numpy(normal).to(fused.mean.device)
                part["shares"] = network.assign(fused.mean)
                part["drawn"] = torch.stack([network.assign(each) for each in drawn.to(fused.mean.dtype)]).mean(0)
            parts.append({name: value.double().cpu().numpy() for name, value in part.items()})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
