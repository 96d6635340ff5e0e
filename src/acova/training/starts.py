"""Where the clusters and correlations of runs that train together start, found in the runs' own data."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import NDArray
from torch import Tensor

from acova.clustering.components import components_around, likely_clusters, round_components
from acova.clustering.kmeans import Partition, k_means
from acova.clustering.seeded import known_among, seeded_k_means
from acova.clustering.spectral import graph_clusters
from acova.engine import RunData, StreamedData
from acova.engine.parallel import single_threaded
from acova.functional import Batch
from acova.training.correlation_starts import code_similarity

if TYPE_CHECKING:
    from acova.training.method import Group

STARTS = ("graph", "fused", "codes", "neighbors")
_WORTH_PROCESSES = 8
"""From this many k-means on, processes are started for them."""


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
    rows = rows_of_codes(observed, n_clusters)
    seen = observed[rows, :, None]
    total = np.where(seen, codes[rows], 0.0).sum(axis=1, dtype=np.float64)
    return np.asarray(total / seen.sum(axis=1))


def rows_of_codes(observed: NDArray[np.bool_], n_clusters: int) -> NDArray[np.bool_]:
    """Return the samples (N,) whose `averaged_codes` are clustered."""
    complete = observed.all(axis=1)
    return np.asarray(complete if complete.sum() >= 10 * n_clusters else np.ones(len(observed), dtype=bool))


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
    _place_by(group, [_points(group, run) for run in range(len(group.jobs))], "k-means")


@torch.no_grad()
def place_by_graph(group: "Group") -> None:
    """Put every run's clusters where the graph of its latent means and of the views has them, weighed by their sizes.

    Training draws the mixture's components towards round clusters; the graph follows those that are not.
    """
    _place_by(
        group, [_latent_points(group, run, "graph", by_size=True) for run in range(len(group.jobs))], "final clusters"
    )


@torch.no_grad()
def place_by_k_means(group: "Group", points: Sequence[Tensor]) -> None:
    """Put every run's clusters where k-means finds them in its points (N, D).

    All clusters get the same round spread, so that the nearest centre is the most probable one.
    """
    tasks = [
        (of_run.double().cpu().numpy(), job.settings.n_clusters, job.streams.integer("k-means"))
        for job, of_run in zip(group.jobs, points, strict=True)
    ]
    _place(group.networks, _side_by_side(_placed_round, tasks))


def _place_by(group: "Group", points: Sequence["_Points"], stream: str) -> None:
    tasks = [
        (of_run, job.settings.n_clusters, job.streams.integer(stream))
        for of_run, job in zip(points, group.jobs, strict=True)
    ]
    _place(group.networks, _side_by_side(_placed, tasks))


def _place(networks: Sequence[Any], placed: Sequence[Sequence[NDArray[np.float64]]]) -> None:
    for network, arrays in zip(networks, placed, strict=True):
        network.prior.place(*(torch.from_numpy(array).to(network.prior.means.device) for array in arrays))


def _side_by_side(function: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return what a function gives for every run, in processes of their own where that is worth it."""
    if len(tasks) < _WORTH_PROCESSES:
        return [function(*task) for task in tasks]
    # Threads would wait for each other: a k-means of few points is mostly Python.
    return list(Parallel(n_jobs=-1)(delayed(function)(*task) for task in tasks))


Posterior = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Means and variances (N, D)."""


@dataclass(frozen=True)
class _Points:
    """What a run's clusters are placed by: points that are clustered, and posteriors of the same samples.

    Without posteriors, components of unit variance are placed at the centres. `find` looks for the clusters in the
    points, from the number of clusters, a seed and, where there are any, `known` clusters (N,). With `by_size`
    components weigh as much as their clusters.
    """

    points: NDArray[np.float64]
    posterior: Posterior | None = None
    find: Callable[..., NDArray[np.intp]] | None = None
    by_size: bool = False
    known: NDArray[np.int64] | None = None


def _points(group: "Group", run: int) -> _Points:
    job, gather = group.jobs[run], group.data.processes.gather
    start, labels = job.settings.cluster_start, known_clusters(group, run)
    if start == "codes":
        codes, observed = _codes(group, run)
        rows = rows_of_codes(observed, job.settings.n_clusters)
        known = known_among(labels, rows)
        return _Points(averaged_codes(codes, observed, job.settings.n_clusters), known=known)
    if start in ("graph", "fused"):
        return _latent_points(group, run, start)
    targets = group.data.of_run(run).decoded
    variances = np.ones(len(targets)) if job.data.variances is None else job.data.variances
    arrays = [gather(view).double().cpu().numpy() for view in targets]
    weighed = [array / np.sqrt(total) for array, total in zip(arrays, variances, strict=True)]
    return _Points(np.hstack(weighed), _posterior(group, run), known=labels)


def _latent_points(group: "Group", run: int, start: str, *, by_size: bool = False) -> _Points:
    """Return latent means, among which clusters are looked for."""
    posterior, known = _posterior(group, run), known_clusters(group, run)
    if start != "graph":
        return _Points(posterior[0], posterior, likely_clusters, by_size, known)
    graph, data = group.jobs[run].data.graph, group.data
    if graph is not None and isinstance(data, StreamedData) and data.partial:
        # The samples at hand are those of one window; the linked ones are read and come first.
        linked = _latent(group.networks[run], (data.read(*span) for span in _spans(graph.rows)))
        posterior = np.vstack([linked[0], posterior[0]]), np.vstack([linked[1], posterior[1]])
        graph = replace(graph, rows=np.arange(len(graph.rows)))
    return _Points(posterior[0], posterior, partial(graph_clusters, graph=graph), by_size, known)


def _spans(rows: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return the first number of each run of consecutive numbers, and the one after its last."""
    cuts = np.flatnonzero(np.diff(rows) != 1) + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in np.split(rows, cuts) if len(part)]


def _latent(network: Any, chunks: Iterable[Batch]) -> Posterior:
    """Return the latent means and variances of samples that come in pieces."""
    posteriors = [network.posterior(part.views, part.observed) for part in chunks]
    mean, variance = (torch.cat([getattr(fused, name) for fused in posteriors]) for name in ("mean", "variance"))
    return mean.double().cpu().numpy(), variance.double().cpu().numpy()


def _posterior(group: "Group", run: int) -> Posterior:
    """Return the latent means and variances of all samples of a run."""
    network, gather = group.networks[run], group.data.processes.gather
    chunks = [network.posterior(part.views, part.observed) for part in group.chunks(run)]
    mean, variance = (torch.cat([getattr(fused, name) for fused in chunks]) for name in ("mean", "variance"))
    return gather(mean).double().cpu().numpy(), gather(variance).double().cpu().numpy()


def _placed(given: _Points, n_clusters: int, seed: int) -> tuple[NDArray[np.float64], ...]:
    """Return means and variances (K, D), and weights (K,) where they go by size."""
    with single_threaded():  # so that a start repeats exactly
        if given.posterior is None:
            centers = _partition(given, n_clusters, seed).centers
            return centers, np.ones_like(centers)
        if given.find is not None:
            more = {} if given.known is None else {"known": given.known}
            labels = given.find(given.points, n_clusters, seed, **more)
        else:
            labels = _partition(given, n_clusters, seed).labels
        placed = components_around(*given.posterior, np.eye(n_clusters)[labels])
    sizes = np.bincount(labels, minlength=n_clusters) + 1.0  # a cluster that nobody is in keeps a little weight
    return (*placed, sizes / sizes.sum()) if given.by_size else placed


def _partition(given: _Points, n_clusters: int, seed: int) -> Partition:
    if given.known is None:
        return k_means(given.points, n_clusters, seed)
    return seeded_k_means(given.points, n_clusters, seed, given.known)


def _placed_round(points: NDArray[np.float64], n_clusters: int, seed: int) -> tuple[NDArray[np.float64], ...]:
    """Return means and variances (K, D) of round components of one size."""
    with single_threaded():
        return round_components(k_means(points, n_clusters, seed), len(points))


def known_clusters(group: "Group", run: int) -> NDArray[np.int64] | None:
    """Return the clusters (N,) of the samples of which they are known, -1 for the others; None where no one is."""
    labels = group.data.of_run(run).labels if isinstance(group.data, RunData) else ()
    return group.data.processes.gather(labels[0]).cpu().numpy() if labels else None


def _codes(group: "Group", run: int) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the codes (N, V, D) of a run's samples and which views they have (N, V)."""
    network, gather = group.networks[run], group.data.processes.gather
    codes = torch.cat([network.codes(part.views, part.observed) for part in group.chunks(run)])
    observed = group.data.of_run(run).observed
    return gather(codes).cpu().numpy(), gather(observed.byte()).bool().cpu().numpy()
