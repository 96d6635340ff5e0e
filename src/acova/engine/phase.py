"""A stretch of training: what is trained, on what, for how long."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from acova.engine.data import RunData, StreamedData
from acova.engine.runs import Loss


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters, by name, that share a learning rate: one for all runs, or one for each."""

    names: Sequence[str]
    learning_rate: float | Sequence[float]


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one loss.

    Attributes
    ----------
    name : str
        Also names the phase's random streams.
    epochs, batch_size : int
    loss : callable
        ``loss(network, batch, noise)`` returns named values per sample, each (N,); the mean of ``"total"``
        is minimised. A value (N, K) says how much of each sample is in each of K clusters.
    groups : sequence of ParameterGroup
        Trained by Adam.
    noise_shape : tuple of int
        Standard normal numbers each sample needs per epoch.
    decay : float
        All learning rates are multiplied by this after every `decay_every` epochs.
    decay_every : int
    clip_norm : float or None
        Gradients of a run longer than this, over all its parameters, are shortened to it.
    measure : callable or None
        ``measure(network)`` gives more named numbers to record after each epoch.
    patience : int or None
        A run stops after this many epochs in which its loss did not fall by `tol` times its size; None trains all
        epochs.
    tol : float
    drop_last : {"never", "joined", "partial", "always"}
        What becomes of an epoch's last batch, see `batch_sizes`.
    before_epoch : callable or None
        ``before_epoch(epoch)`` may write to the networks and to the data, in place; a resumed epoch is not begun again.
    prepare : callable or None
        ``prepare()`` is called before the phase's first step, and not again when the phase is resumed.
    data : RunData, StreamedData or None
        What the phase is fed if it is not the data of the training as a whole.
    """

    name: str
    epochs: int
    batch_size: int
    loss: Loss
    groups: Sequence[ParameterGroup]
    noise_shape: tuple[int, ...] = (0,)
    decay: float = 1.0
    decay_every: int = 1
    clip_norm: float | None = None
    measure: Callable[[Any], Mapping[str, Tensor]] | None = None
    patience: int | None = None
    tol: float = 0.0
    drop_last: str = "never"
    before_epoch: Callable[[int], None] | None = None
    prepare: Callable[[], None] | None = None
    data: RunData | StreamedData | None = None
