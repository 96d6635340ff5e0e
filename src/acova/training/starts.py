"""Where the clusters and correlations of runs that train together start, found in the runs' own data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from torch import Tensor

from acova.clustering.graphs import graph_clusters
from acova.clustering.kmeans import components_around, k_means, likely_clusters, round_clusters
from acova.engine.parallel import single_threaded
from acova.training.correlations import code_similarity

if TYPE_CHECKING:
    from acova.training.method import Group

STARTS = ("graph", "fused", "codes", "neighbors")
_WORTH_PROCESSES = 8
"""From this many k-means on, processes are started for them."""
_FINDERS = {"fused": likely_clusters, "graph": graph_clusters}
"""Starts that look for clusters in the latent means."""


def averaged_codes(
    codes: NDArray[np.floating[Any]], observed: NDArray[np.bool_], n_clusters: int
) -> NDArray[np.float64]:
    """Return the codes of complete samples, averaged over the views, as published.

    When fewer than ten samples per cluster are complete, all samples are taken, each averaged over the
    views it has.

    Parameters
    ----------
    codes : array of shape (N, V, D)
    observed : array of bool, shape (N, V)
    n_clusters : int

    Returns
    -------
    array of shape (rows, D)
    """
    complete = observed.all(axis=1)
    rows = complete if complete.sum() >= 10 * n_clusters else np.ones(len(observed), dtype=bool)
    seen = observed[rows, :, None]
    total = np.where(seen, codes[rows], 0.0).sum(axis=1, dtype=np.float64)
    return np.asarray(total / seen.sum(axis=1))


@torch.no_grad()
def start_correlations(group: "Group") -> None:
    """Set learned correlations that start from the similarity of the pretrained codes."""
    for run, (job, network) in enumerate(zip(group.jobs, group.networks, strict=True)):
        start = job.settings.get("correlation_start", "identity")
        if network.learns_correlation and isinstance(start, str) and start == "similarity":
            codes, observed = _codes(group, run)
            with single_threaded():  # so that a start repeats exactly
                similarity = code_similarity(codes, observed)
            network.set_correlation(similarity)


@torch.no_grad()
def start_priors(group: "Group") -> None:
    """Place every run's clusters; the runs' k-means go side by side."""
    tasks = [
        (_points(group, run), job.settings.n_clusters, job.streams.integer("k-means"))
        for run, job in enumerate(group.jobs)
    ]
    _place(group.networks, _side_by_side(_placed, tasks))


@torch.no_grad()
def place_by_k_means(group: "Group", points: Sequence[Tensor]) -> None:
    """Put every run's clusters where k-means finds them in its points (N, D).

    All clusters get the same round spread, so that the nearest centre is the most probable one.
    """
    tasks = [
        (of_run.double().cpu().numpy(), job.settings.n_clusters, job.streams.integer("k-means"))
        for job, of_run in zip(group.jobs, points, strict=True)
    ]
    _place(group.networks, _side_by_side(round_clusters, tasks))


def _place(networks: Sequence[Any], placed: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]]) -> None:
    for network, (means, variances) in zip(networks, placed, strict=True):
        device = network.prior.means.device
        network.prior.place(torch.from_numpy(means).to(device), torch.from_numpy(variances).to(device))


def _side_by_side(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return what a function gives for every run, in processes of their own where that is worth it."""
    if len(tasks) < _WORTH_PROCESSES:
        return [function(*task) for task in tasks]
    # Threads would wait for each other: a k-means of few points is mostly Python.
    return list(Parallel(n_jobs=-1)(delayed(function)(*task) for task in tasks))


@dataclass(frozen=True)
class _Points:
    """What a run's clusters are placed by: points for k-means, and posteriors of the same samples.

    Without posteriors, components of unit variance are placed at the centres. `find` looks for the clusters in the
    points, from the number of clusters and a seed.
    """

    points: NDArray[np.float64]
    posterior: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None
    find: Callable[[NDArray[np.float64], int, int], NDArray[np.intp]] | None = None


def _points(group: "Group", run: int) -> _Points:
    job, network, gather = group.jobs[run], group.networks[run], group.data.processes.gather
    start = job.settings.cluster_start
    if start == "codes":
        return _Points(averaged_codes(*_codes(group, run), job.settings.n_clusters))
    chunks = [network.posterior(part.views, part.observed) for part in group.chunks(run)]
    mean = gather(torch.cat([fused.mean for fused in chunks])).double().cpu().numpy()
    variance = gather(torch.cat([fused.variance for fused in chunks])).double().cpu().numpy()
    if start in _FINDERS:
        return _Points(mean, (mean, variance), _FINDERS[start])
    targets = group.data.of_run(run).decoded
    variances = np.ones(len(targets)) if job.data.variances is None else job.data.variances
    arrays = [gather(view).double().cpu().numpy() for view in targets]
    weighed = [array / np.sqrt(total) for array, total in zip(arrays, variances, strict=True)]
    return _Points(np.hstack(weighed), (mean, variance))


def _placed(given: _Points, n_clusters: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with single_threaded():  # so that a start repeats exactly
        if given.posterior is None:
            centers = k_means(given.points, n_clusters, seed).centers
            return centers, np.ones_like(centers)
        if given.find is not None:
            labels = given.find(given.points, n_clusters, seed)
        else:
            labels = k_means(given.points, n_clusters, seed).labels
        return components_around(*given.posterior, np.eye(n_clusters)[labels])


def _codes(group: "Group", run: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the codes (N, V, D) of a run's samples and which views they have (N, V)."""
    network, gather = group.networks[run], group.data.processes.gather
    codes = torch.cat([network.codes(part.views, part.observed) for part in group.chunks(run)])
    observed = group.data.of_run(run).observed
    return gather(codes).cpu().numpy(), gather(observed.byte()).bool().cpu().numpy()
