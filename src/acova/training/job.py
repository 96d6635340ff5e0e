"""One run to train: its method, its settings, its random streams and its data."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.base import Streams
from acova.clustering.spectral import SampleGraph
from acova.engine.data import Reader
from acova.functional import Batch
from acova.networks.base import ClusteringNetwork

if TYPE_CHECKING:
    from acova.training.method import Method


@dataclass(frozen=True)
class Settings:
    """Every setting of a fit by its name, with nothing left to a recipe; each is an attribute.

    Attributes
    ----------
    who : str
        The estimator's name, for messages.
    values : mapping of str to object
    """

    who: str
    values: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        if name not in ("who", "values") and name in self.values:
            return self.values[name]
        msg = f"there is no setting {name!r}"
        raise AttributeError(msg)

    def get(self, name: str, default: Any) -> Any:
        """Return a setting, or a default for methods that lack it."""
        return self.values.get(name, default)

    def replaced(self, **changes: Any) -> "Settings":
        """Return a copy with other values."""
        return replace(self, values={**self.values, **changes})


@dataclass(frozen=True)
class FitData:
    """The training data of a fit, on the device or on disk, and what was found out about the views.

    With several processes, views, targets and `observed` are this process's share of the samples.

    Attributes
    ----------
    device : torch.device
    views : list of V tensors of shape (N, P_v), or None
    observed : Tensor of bool, shape (N, V), or None
    targets : list of V tensors of shape (N, P_v)
        What latent vectors are decoded to, hidden views included; empty means the views.
    read : callable or None
        Reads views that stay on disk.
    costs : array of shape (V,) or None
        What decoding each view to its mean costs.
    variances : array of shape (V,) or None
        Total variances of the views, where clusters start from the targets.
    trust : array of shape (V,) or None
        How much each view counts; None where all are alike.
    agreement : array of shape (V, V) or None
        How far the neighbour graphs of every two views agree.
    graph : SampleGraph or None
        One neighbour graph of all views, by their trust.
    moments : sequence of V pairs of arrays of shape (P_v,)
        Means and variances of what each view is decoded to; empty where no likelihood asks for them.
    labels : list of one Tensor of int, shape (N,), or empty
        The cluster of samples of which it is known, -1 for the others.
    oracle : list of V tensors of shape (N, P_v), or None
        The views with what `observed` hides, for methods that reproduce a leak.
    """

    device: torch.device
    views: list[Tensor] | None = None
    observed: Tensor | None = None
    targets: Sequence[Tensor] = ()
    read: Reader | None = None
    costs: NDArray[np.float64] | None = None
    variances: NDArray[np.float64] | None = None
    trust: NDArray[np.float64] | None = None
    agreement: NDArray[np.float64] | None = None
    graph: SampleGraph | None = None
    moments: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]] = ()
    labels: Sequence[Tensor] = ()
    oracle: list[Tensor] | None = None

    def batch(self) -> Batch:
        """Return all samples that are in memory."""
        if self.views is None or self.observed is None:
            msg = "these views stay on disk"
            raise ValueError(msg)
        return Batch(self.views, self.observed, self.targets, self.labels)


@dataclass(frozen=True)
class Job:
    """One run to train.

    Attributes
    ----------
    method : Method
    settings : Settings
    likelihoods : tuple of V str
    sizes : tuple of V int
        Widths of the views.
    n_samples : int
        Of all processes together.
    streams : Streams
    data : FitData
        The same object for all runs of a fit.
    marks : tuple of V bool, or empty
        The views of which the network is told the empty cells.
    blocks : tuple of V tuples of int
        How many columns each encoded column became, for views of categories alone; empty for other views.
    n_covariates : int
        How many numbers the network is told of each sample's covariates.
    """

    method: "Method"
    settings: Settings
    likelihoods: tuple[str, ...]
    sizes: tuple[int, ...]
    n_samples: int
    streams: Streams
    data: FitData
    marks: tuple[bool, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()
    n_covariates: int = 0

    @property
    def input_sizes(self) -> tuple[int, ...]:
        """Widths of the views' tensors: an indicator of the empty cells may follow the values, and covariates these."""
        marks, told = self.marks or (False,) * len(self.sizes), self.n_covariates
        return tuple(size * (2 if marked else 1) + told for size, marked in zip(self.sizes, marks, strict=True))

    @property
    def device(self) -> torch.device:
        """Where the run trains."""
        return self.data.device

    @property
    def epochs(self) -> int:
        """Number of epochs of all phases."""
        return self.method.count_epochs(self.settings)

    @property
    def rows_of_a_step(self) -> int:
        """Number of samples of a step."""
        return min(int(self.settings.batch_size), self.n_samples)

    @property
    def steps(self) -> int:
        """Number of steps of all phases, roughly."""
        return self.epochs * math.ceil(self.n_samples / self.rows_of_a_step)

    def network(self) -> ClusteringNetwork:
        """Return a network with fresh weights."""
        return self.method.build(self).to(self.device)


@dataclass(frozen=True)
class TrainedRun:
    """A trained network and a record per epoch."""

    network: ClusteringNetwork
    records: list[dict[str, Any]]
