"""A method of training: what a network is built from, the phases it goes through, and where its clusters are placed.

A method is a small object without state beside its network. The estimator checks what users give, the method decides
what happens with it, and the schedule decides which runs train when and where.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.data import Scaling, StoredViews, Views
from acova.engine import Phase, RunData, Runs, StreamedData
from acova.engine.distributed import Processes
from acova.engine.runtime import resolve_device
from acova.functional import Batch
from acova.networks.base import ClusteringNetwork
from acova.training.inference import CHUNK, batch_between, batch_of
from acova.training.job import FitData, Job, Settings
from acova.training.requirements import Requirements

Objective = Callable[[Batch, Tensor], dict[str, Tensor]]


@dataclass(frozen=True)
class Group:
    """Runs that train together as one computation.

    Attributes
    ----------
    jobs : sequence of R Job
    networks : sequence of R networks
    runs : Runs
        The networks' parameters on a leading axis.
    data : RunData or StreamedData
    """

    jobs: Sequence[Job]
    networks: Sequence[Any]
    runs: Runs
    data: RunData | StreamedData

    @property
    def settings(self) -> Settings:
        """The settings of the first run; the runs differ in learning rates and the like alone."""
        return self.jobs[0].settings

    def rates(self, setting: str) -> list[float]:
        """Return a learning rate of every run."""
        return [float(getattr(job.settings, setting)) for job in self.jobs]

    def parameters(self, *beginnings: str) -> list[str]:
        """Return the names of the parameters that begin with one of these words."""
        return [name for name in self.runs.parameters if name.startswith(beginnings)]

    def chunks(self, run: int) -> list[Batch]:
        """Return the samples of a run in pieces."""
        return self.data.of_run(run).split(CHUNK)

    @torch.no_grad()
    def latent(self, run: int) -> Tensor:
        """Return the fused latent means (N, D) of a run's samples."""
        network = self.networks[run]
        means = [network.posterior(part.views, part.observed).mean for part in self.chunks(run)]
        return self.data.processes.gather(torch.cat(means))


class Method:
    """What differs between methods that train a network; the defaults suit most of them.

    A method must say how its network is built and through which phases it goes (`build`, `phases`). It may say what
    its settings become for given data (`suited`), what it needs to know of the data (`prepare`), and what comes after
    the last phase (`finish`).

    Attributes
    ----------
    epochs : tuple of str
        The settings that count epochs.
    requirements : Requirements
        What it asks of its data.
    """

    epochs: tuple[str, ...] = ("pretrain_epochs", "epochs")
    requirements: Requirements = Requirements()

    def suited(self, settings: Settings, left_open: Collection[str], views: Views | StoredViews) -> Settings:
        """Return the settings suited to the data, or raise where the method cannot learn from them.

        Parameters
        ----------
        settings : Settings
        left_open : collection of str
            The settings that the user left to the recipe.
        views : Views or StoredViews
        """
        return settings

    def prepare(
        self,
        settings: Settings,
        views: Views | StoredViews,
        scaling: Scaling,
        likelihoods: Sequence[str],
        processes: Processes,
    ) -> FitData:
        """Return the scaled training data on the device, or a way to read them."""
        device = resolve_device(settings.device)
        if isinstance(views, StoredViews):
            return FitData(device, read=partial(_read, views, scaling))
        return shared_data(batch_of(views, scaling, device), processes)

    def build(self, job: Job) -> ClusteringNetwork:
        """Return a network with fresh weights, drawn from the job's streams."""
        raise NotImplementedError

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return the phases of training, in order; their names are those in the history."""
        raise NotImplementedError

    def objective(self, network: Any, settings: Settings) -> Objective:
        """Return the loss of the last phase, by which runs are compared."""
        loss: Objective = network.loss
        return loss

    def finish(self, group: Group) -> None:
        """Do what comes after the last phase, such as placing the clusters."""

    # --- the same for all methods ---------------------------------------------------------------

    def count_epochs(self, settings: Settings) -> int:
        """Return the number of epochs of all phases."""
        return sum(int(settings.get(name, 0)) for name in self.epochs)

    def kind(self, job: Job) -> Hashable:
        """Return what of the data must agree for runs to train together: steps of the same size."""
        observed = job.data.observed
        return int(observed.all(1).sum()) if self.requirements.complete_only and observed is not None else None


def shared_data(whole: Batch, processes: Processes) -> FitData:
    """Return this process's share of all samples as the data of a fit."""
    own = whole.rows(processes.share(len(whole.observed)))
    return FitData(own.observed.device, list(own.views), own.observed, list(own.targets))


def with_labels(data: FitData, clusters: NDArray[np.int64], processes: Processes) -> FitData:
    """Return training data with the clusters (N,) that are known of some samples, -1 of the others."""
    own = torch.from_numpy(clusters[processes.share(len(clusters))]).to(data.device)
    return replace(data, labels=[own])


def complete_rows(data: RunData, runs: int) -> Tensor:
    """Return every run's samples that have all views, (R, n); all runs have as many."""
    return torch.stack([data.of_run(run).observed.all(1).nonzero().squeeze(-1) for run in range(runs)])


def _read(views: StoredViews, scaling: Scaling, start: int, stop: int) -> Batch:
    return batch_between(views, scaling, start, stop, torch.device("cpu"))
