"""The training loop."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import ExponentialLR

from acova.base import Streams, TrainingError
from acova.engine.runtime import draw_noise

Loss = Callable[[Sequence[Tensor], Tensor, Tensor], Mapping[str, Tensor]]
EpochReport = Callable[[str, int, int, Mapping[str, Any]], None]
"""Called after each epoch with the phase's name, the epoch, the phase's epochs and the epoch's record."""


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that share a learning rate."""

    parameters: Iterable[nn.Parameter]
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
        ``loss(views, observed, noise)`` returns named scalars; ``"total"`` is minimised.
    groups : sequence of ParameterGroup
        Trained by Adam.
    noise_shape : tuple of int
        Standard normal numbers each sample needs per epoch.
    decay : float
        All learning rates are multiplied by this after each epoch.
    clip_norm : float or None
        Gradients longer than this, over all parameters, are shortened to it.
    measure : callable or None
        Gives more named numbers to record after each epoch.
    """

    name: str
    epochs: int
    batch_size: int
    loss: Loss
    groups: Sequence[ParameterGroup]
    noise_shape: tuple[int, ...] = (0,)
    decay: float = 1.0
    clip_norm: float | None = None
    measure: Callable[[], Mapping[str, float]] | None = None


def train(
    phase: Phase,
    views: Sequence[Tensor],
    observed: Tensor,
    streams: Streams,
    report: EpochReport | None = None,
) -> list[dict[str, Any]]:
    """Run one phase and return a record per epoch.

    The order of the samples and the noise of an epoch come from streams named after the phase and the
    epoch, and the noise belongs to the sample, so neither reporting nor batching changes what is drawn.

    Parameters
    ----------
    phase : Phase
    views : sequence of V tensors of shape (N, P_v)
    observed : Tensor of bool, shape (N, V)
    streams : Streams
    report : callable, optional

    Returns
    -------
    list of dict
        ``phase``, ``epoch`` and the sample-weighted mean of every named part of the loss.
    """
    groups = [{"params": list(group.parameters), "lr": group.learning_rate} for group in phase.groups]
    trained = [parameter for group in groups for parameter in group["params"]]  # type: ignore[attr-defined]
    optimiser = torch.optim.Adam(groups, fused=True)
    schedule = ExponentialLR(optimiser, phase.decay)
    streams = streams.child(phase.name)
    records = []
    for epoch in range(phase.epochs):
        sums: dict[str, Tensor] = {}
        for rows, noise in _batches(phase, len(observed), observed.device, streams, epoch):
            parts = phase.loss([view[rows] for view in views], observed[rows], noise)
            optimiser.zero_grad(set_to_none=True)
            parts["total"].backward()  # type: ignore[no-untyped-call]
            if phase.clip_norm is not None:
                clip_grad_norm_(trained, phase.clip_norm)
            optimiser.step()
            for name, value in parts.items():
                sums[name] = sums.get(name, 0.0) + value.detach() * len(rows)
        schedule.step()
        record = _record(phase, epoch, sums, len(observed))
        records.append(record)
        if report is not None:
            report(phase.name, epoch + 1, phase.epochs, record)
    return records


def _batches(
    phase: Phase, n_samples: int, device: torch.device, streams: Streams, epoch: int
) -> Iterable[tuple[Tensor, Tensor]]:
    """Yield row numbers and their noise, every row once, in the epoch's own order."""
    order = torch.from_numpy(streams.numpy("order", epoch).permutation(n_samples)).to(device)
    noise = draw_noise(streams.integer("noise", epoch), n_samples, *phase.noise_shape).to(device)
    for rows in torch.split(order, phase.batch_size):
        yield rows, noise[rows]


def _record(phase: Phase, epoch: int, sums: Mapping[str, Tensor], n_samples: int) -> dict[str, Any]:
    means = {name: float(value) / n_samples for name, value in sums.items()}
    if not math.isfinite(means["total"]):
        msg = (
            f"Training became non-finite in epoch {epoch + 1} of phase {phase.name!r} (objective {means['total']}). "
            "Keep standardize=True, lower learning_rate, or look for extreme values in the data."
        )
        raise TrainingError(msg)
    return {"phase": phase.name, "epoch": epoch + 1, **means, **(phase.measure() if phase.measure else {})}
