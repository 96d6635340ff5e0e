"""The training loop."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from acova.base import Streams, TrainingError
from acova.engine.runs import Loss, RunData, Runs
from acova.engine.step import Step

EpochReport = Callable[[str, int, int, Sequence[Mapping[str, Any]]], None]
"""Called after each epoch with the phase's name, the epoch, the phase's epochs and every run's record."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters, by name, that share a learning rate."""

    names: Sequence[str]
    learning_rate: float


@dataclass(frozen=True)
class Phase:
    """A stretch of training with one loss.

    Attributes
    ----------
    name : str
        Also names the phase's random streams.
    epochs, batch_size : int
    loss : callable
        ``loss(network, views, observed, noise)`` returns named scalars; ``"total"`` is minimised.
    groups : sequence of ParameterGroup
        Trained by Adam.
    noise_shape : tuple of int
        Standard normal numbers each sample needs per epoch.
    decay : float
        All learning rates are multiplied by this after each epoch.
    clip_norm : float or None
        Gradients of a run longer than this, over all its parameters, are shortened to it.
    measure : callable or None
        ``measure(network)`` gives more named numbers to record after each epoch.
    """

    name: str
    epochs: int
    batch_size: int
    loss: Loss
    groups: Sequence[ParameterGroup]
    noise_shape: tuple[int, ...] = (0,)
    decay: float = 1.0
    clip_norm: float | None = None
    measure: Callable[[Any], Mapping[str, Tensor]] | None = None


def train(
    phase: Phase,
    runs: Runs,
    data: RunData,
    streams: Sequence[Streams],
    report: EpochReport | None = None,
) -> list[list[dict[str, Any]]]:
    """Run one phase of all runs and return a record per run and epoch.

    A run's order of samples and its noise come from its own streams, named after the phase and the epoch, and the noise
    belongs to the sample: neither reporting, batching nor the runs beside it change what is drawn.

    Parameters
    ----------
    phase : Phase
    runs : Runs
    data : RunData
    streams : sequence of R Streams
    report : callable, optional

    Returns
    -------
    list of R lists of dict
        ``phase``, ``epoch`` and the sample-weighted mean of every named part of the loss.
    """
    records: list[list[dict[str, Any]]] = [[] for _ in runs.networks]
    if not phase.epochs:
        return records
    step = Step(phase, runs, data)
    own = [stream.child(phase.name) for stream in streams]
    for epoch in range(phase.epochs):
        step.start_epoch()
        order = torch.stack([_fill(step.noise[run], own[run], epoch) for run in range(len(runs))])
        for rows in torch.split(order, phase.batch_size, dim=1):
            step(rows)
        step.end_epoch()
        latest = _records(phase, epoch, step.sums, runs, data.n_samples)
        for record, mine in zip(latest, records, strict=True):
            mine.append(record)
        if report is not None:
            report(phase.name, epoch + 1, phase.epochs, latest)
    return records


def _fill(noise: Tensor, streams: Streams, epoch: int) -> Tensor:
    """Draw a run's noise of an epoch into its place, and return its order of the samples, (N,)."""
    generator = torch.Generator(noise.device)
    noise.normal_(generator=generator.manual_seed(streams.integer("noise", epoch)))
    generator.manual_seed(streams.integer("order", epoch))
    return torch.randperm(len(noise), generator=generator, device=noise.device)


def _records(phase: Phase, epoch: int, sums: Mapping[str, Tensor], runs: Runs, n_samples: int) -> list[dict[str, Any]]:
    means = torch.stack(list(sums.values())).double() / n_samples
    extra: list[Mapping[str, Tensor]] = []
    if phase.measure is not None:
        with torch.no_grad():
            extra = [phase.measure(network) for network in runs.networks]
        measured = torch.stack([torch.stack([value.double() for value in run.values()]) for run in extra], dim=1)
        means = torch.cat([means, measured])
    names = [*sums, *(extra[0] if extra else ())]
    values = means.cpu()  # the only place of an epoch where the host waits for the device
    broken = ~torch.isfinite(values[names.index("total")])
    if broken.any():
        run = int(broken.nonzero()[0])
        of_run = f" of run {run + 1}" if len(runs) > 1 else ""
        msg = (
            f"Training became non-finite in epoch {epoch + 1} of phase {phase.name!r}{of_run}. "
            "Keep standardize=True, lower learning_rate, or look for extreme values in the data."
        )
        raise TrainingError(msg)
    return [
        {"phase": phase.name, "epoch": epoch + 1, **dict(zip(names, column.tolist(), strict=True))}
        for column in values.T
    ]
