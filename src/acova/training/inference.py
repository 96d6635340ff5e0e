"""What a trained network says of samples, a chunk at a time; results of views on disk go to disk too."""

import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.base import Streams, TrainingError
from acova.data import Scaling, StoredViews, Views
from acova.engine.data import fill_noise
from acova.engine.distributed import ALONE, Processes
from acova.engine.parallel import multiplications
from acova.engine.runtime import computation
from acova.functional import Batch, Fused
from acova.networks.base import ClusteringNetwork
from acova.networks.likelihoods import LIKELIHOODS
from acova.training.consensus import Ensemble, match_runs, overlaps
from acova.training.extremes import refusal, scaled
from acova.training.job import Job

CHUNK = 2048
"""Samples that are computed at once."""
_MAX_DRAWS, _DRAWN_SAMPLES = 4, 2**15


@dataclass(frozen=True)
class Inferred:
    """One row per sample; arrays in memory, or memory-mapped for views on disk.

    Attributes
    ----------
    labels : array of shape (n_samples,)
    probabilities : array of shape (n_samples, n_clusters)
    weights : array of shape (n_samples, V)
    latent : array of shape (n_samples, latent_dim)
    agreement : array of shape (n_samples,)
        Share of the runs that give the sample this label.
    """

    labels: NDArray[np.int64]
    probabilities: NDArray[np.float32]
    weights: NDArray[np.float32]
    latent: NDArray[np.float32]
    agreement: NDArray[np.float32]

    def take(self, rows: NDArray[np.intp]) -> "Inferred":
        """Return the results of these samples, in this order."""
        return Inferred(*(array[rows] for array in vars(self).values()))


def infer(ensemble: Ensemble, scaling: Scaling, views: Views | StoredViews, processes: Processes = ALONE) -> Inferred:
    """Return labels, cluster probabilities, view weights and latent means of all samples.

    Several processes share the work and all get the whole result.
    """
    parts = infer_chunks(ensemble, scaling, views, processes)
    if isinstance(views, Views):
        return _joined(list(parts))
    folder = _Folder()
    files: list[_GrowingFile] = []
    for part in parts:
        arrays = [getattr(part, field.name) for field in fields(Inferred)]
        if not files:
            files = [_GrowingFile(folder, f"{n}.npy", array, views.n_samples) for n, array in enumerate(arrays)]
        for file, array in zip(files, arrays, strict=True):
            file.append(array)
    return Inferred(*(file.mapped() for file in files))


def infer_chunks(
    ensemble: Ensemble, scaling: Scaling, views: Views | StoredViews, processes: Processes = ALONE
) -> Iterator[Inferred]:
    """Yield the results of consecutive samples, averaged over the runs; every number is finite."""
    start = 0
    for batch in _batches(ensemble.network, scaling, views, processes):
        with _computation(ensemble.network, views.n_samples):
            results = _results(ensemble, batch)
        part = Inferred(*(processes.gather(result).cpu().numpy() for result in results))
        _check_finite(part, ensemble, scaling, views, start)
        start += len(part.labels)
        yield part


def _check_finite(part: Inferred, ensemble: Ensemble, scaling: Scaling, views: Views | StoredViews, start: int) -> None:
    """Raise an error that names the reason when a result is no finite number; the part begins at row `start`."""
    arrays = (part.probabilities, part.weights, part.latent)
    finite = np.logical_and.reduce([np.isfinite(array).all(axis=1) for array in arrays])
    if finite.all():
        return
    if not all(bool(p.isfinite().all()) for network in ensemble.networks for p in network.parameters()):
        msg = (
            "The weights of the network are not finite: training diverged in its last step. Keep standardize=True, "
            "lower learning_rate, or look for extreme values in the data."
        )
        raise TrainingError(msg)
    row = start + int(np.flatnonzero(~finite)[0])
    raise refusal(views.read(row, row + 1), scaling)


def _results(ensemble: Ensemble, batch: Batch) -> tuple[Tensor, ...]:
    """Return labels, probabilities, weights, latent means and agreement of some samples, averaged over the runs."""
    fused = [network.posterior(batch.views, batch.observed) for network in ensemble.networks]
    shares = _shares(ensemble.networks, fused)
    matched = torch.stack([of_run[:, order] for of_run, order in zip(shares, ensemble.orders, strict=True)])
    mean = matched.mean(0)
    labels = mean.argmax(-1)
    weights = torch.stack([posterior.weights.mean(-1) for posterior in fused]).mean(0)
    agreement = (matched.argmax(-1) == labels).float().mean(0)
    return labels, mean, weights, fused[ensemble.reference].mean, agreement


@contextmanager
def _computation(network: ClusteringNetwork, n_samples: int) -> Iterator[None]:
    """Compute without gradients, on the threads that a chunk of samples pays for."""
    with computation(multiplications(network, min(n_samples, CHUNK))), torch.no_grad():
        yield


def matched_runs(
    networks: Sequence[ClusteringNetwork],
    scaling: Scaling,
    views: Views | StoredViews,
    processes: Processes = ALONE,
    n_classes: int = 0,
) -> Ensemble:
    """Return the runs with their clusters matched by what they say of these samples; those of classes are matched."""
    chunks = (
        torch.stack(_shares(networks, [network.posterior(batch.views, batch.observed) for network in networks]))
        .cpu()
        .numpy()
        for batch in _batches(networks[0], scaling, views, processes)
    )
    with _computation(networks[0], views.n_samples):
        total = processes.sum(torch.from_numpy(overlaps(chunks)))
    reference, orders = match_runs(total.numpy(), n_classes)
    return Ensemble(networks, orders, reference)


def _shares(networks: Sequence[ClusteringNetwork], fused: Sequence[Fused]) -> list[Tensor]:
    """Return every run's cluster probabilities at the posterior mean, (n, K)."""
    return [network.assign(posterior.mean) for network, posterior in zip(networks, fused, strict=True)]


def _batches(
    network: ClusteringNetwork, scaling: Scaling, views: Views | StoredViews, processes: Processes
) -> Iterator[Batch]:
    """Yield this process's share of consecutive chunks."""
    step = CHUNK * processes.size
    for start in range(0, views.n_samples, step):
        share = processes.share(min(step, views.n_samples - start))
        yield batch_between(views, scaling, start + share.start, start + share.stop, device_of(network))


def mean_objective(
    network: ClusteringNetwork,
    loss: Callable[..., dict[str, Tensor]],
    samples: Callable[[int, int], Batch],
    n_samples: int,
    streams: Streams,
    processes: Processes = ALONE,
) -> dict[str, float]:
    """Return the parts of a loss by name, averaged over the samples and several draws.

    Four draws for small data, fewer where the average over many samples is as sure.

    Parameters
    ----------
    network : ClusteringNetwork
    loss : function of a batch and noise
    samples : function of two int
        Returns the samples from one number to another, of this process's share.
    n_samples : int
        Of all processes together.
    streams : Streams
    processes : Processes
    """
    share = processes.share(n_samples)
    draws = min(max(_DRAWN_SAMPLES // n_samples, 1), _MAX_DRAWS)
    sums: dict[str, Tensor] = {}
    with _computation(network, n_samples):
        for start in range(share.start, max(share.stop, share.start + 1), CHUNK):
            stop = min(start + CHUNK, share.stop)
            batch = samples(start, stop)
            noise = torch.empty(stop - start, *network.noise_shape, dtype=torch.float32)
            for draw in range(draws):
                fill_noise(noise, [(start, stop)], streams, draw)
                for name, part in loss(batch, noise.to(batch.observed.device)).items():
                    sums[name] = sums.get(name, 0) + part.double().sum().cpu()
    totals = processes.sum(torch.stack(list(sums.values()))) / (n_samples * draws)
    return dict(zip(sums, totals.tolist(), strict=True))


def trained_objective(
    job: Job,
    network: ClusteringNetwork,
    scaling: Scaling,
    views: Views | StoredViews,
    streams: Streams,
    processes: Processes,
) -> float:
    """Return the objective that a network was trained by, over all training data: with its weights and neighbours."""
    data = job.data
    first = processes.share(views.n_samples).start

    def samples(start: int, stop: int) -> Batch:
        if data.views is None:
            return batch_between(views, scaling, start, stop, device_of(network), job.likelihoods)
        return data.batch().rows(slice(start - first, stop - first))

    loss = job.method.objective(network, job.settings)
    return mean_objective(network, loss, samples, views.n_samples, streams, processes)["total"]


def batch_of(views: Views, scaling: Scaling, device: torch.device, likelihoods: Sequence[str] = ()) -> Batch:
    """Return scaled views, zero where hidden, on a device; and as targets those whose likelihood is of the data.

    Views whose empty cells are marked have their marks after the values, and after these what the network is told of
    the covariates.
    """
    arrays = scaled(views, scaling)
    tensors = [torch.from_numpy(array).to(device) for array in arrays]
    targets = _targets_of(views, scaling, tensors, likelihoods)
    for v, marked in enumerate(scaling.marks):
        if marked:
            empty = views.empty[v]
            marks = np.zeros_like(arrays[v]) if empty is None else empty.astype(np.float32)
            tensors[v] = torch.from_numpy(np.concatenate([arrays[v], marks], axis=1)).to(device)
    if scaling.n_told:
        told = torch.from_numpy(scaling.told(views)).to(device)
        tensors = [torch.cat([tensor, told], dim=1) for tensor in tensors]
    return Batch(tensors, torch.from_numpy(views.observed).to(device), targets)


def _targets_of(
    views: Views, scaling: Scaling, scaled_views: Sequence[Tensor], likelihoods: Sequence[str]
) -> list[Tensor]:
    """Return what views are decoded to where the likelihood of one is of the data; else nothing."""
    of_data = [LIKELIHOODS[name].of_data for name in likelihoods]
    if not any(of_data):
        return []
    targets = []
    for v, (rows, tensor, raw) in enumerate(zip(views.arrays, scaled_views, of_data, strict=True)):
        if raw:
            whole = rows if views.empty[v] is None else scaling.completed(v, rows, tensor.cpu().numpy())
            targets.append(torch.from_numpy(np.where(views.observed[:, [v]], whole, 0.0)).to(tensor))
        else:
            targets.append(tensor)
    return targets


def batch_between(
    views: Views | StoredViews,
    scaling: Scaling,
    start: int,
    stop: int,
    device: torch.device,
    likelihoods: Sequence[str] = (),
) -> Batch:
    """Return consecutive samples as `batch_of` does; rows of sparse views are scaled a few at a time."""
    step = views.block_rows if isinstance(views, StoredViews) and views.is_sparse else max(stop - start, 1)
    ends = [*range(start + step, stop, step), stop]
    pairs = zip([start, *ends], ends, strict=False)
    parts = [batch_of(views.read(at, end), scaling, device, likelihoods) for at, end in pairs]
    if len(parts) == 1:
        return parts[0]
    columns, targets = (zip(*(getattr(part, name) for part in parts), strict=True) for name in ("views", "targets"))
    observed = torch.cat([part.observed for part in parts])
    return Batch([torch.cat(rows) for rows in columns], observed, [torch.cat(rows) for rows in targets])


def device_of(network: ClusteringNetwork) -> torch.device:
    """Return where a network's parameters are."""
    return next(network.parameters()).device


def _joined(parts: list[Inferred]) -> Inferred:
    names = [field.name for field in fields(Inferred)]
    return Inferred(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class _Folder:
    """A temporary folder that lives as long as anyone holds it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="acova-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class _GrowingFile:
    """A ``.npy`` file that gets its rows one after the other, without holding them."""

    def __init__(self, folder: _Folder, name: str, like: NDArray[Any], length: int) -> None:
        self._folder, self._path = folder, folder.path / name
        self._at = np.lib.format.open_memmap(self._path, "w+", like.dtype, (length, *like.shape[1:])).offset

    def append(self, rows: NDArray[Any]) -> None:
        with self._path.open("r+b") as stream:
            stream.seek(self._at)
            stream.write(np.ascontiguousarray(rows).tobytes())
            self._at = stream.tell()

    def mapped(self) -> NDArray[Any]:
        rows: Any = np.load(self._path, mmap_mode="r")
        rows.folder = self._folder  # the files stay while any of the arrays does
        return rows  # type: ignore[no-any-return]
