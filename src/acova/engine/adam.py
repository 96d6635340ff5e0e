"""Clipping and Adam for runs that train together, every run with its own gradient norm and learning rates."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from acova.engine.runs import Runs

if TYPE_CHECKING:
    from acova.engine.loop import Phase

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8


class Optimiser(Protocol):
    """What a step asks of an optimiser."""

    def step(self) -> Tensor | None:
        """Clip every run's gradient and move its parameters; tell whose was clipped, (R,), if any can be."""

    def decay(self, factor: float) -> None:
        """Multiply all learning rates."""

    def state(self) -> dict[str, Tensor]:
        """Return everything the next step depends on, besides the parameters."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an earlier `state`, on the right device."""


def new_optimiser(phase: "Phase", runs: Runs) -> Optimiser:
    """Return the fastest optimiser there is for the device."""
    if next(iter(runs.parameters.values())).is_cuda and find_spec("triton") is not None:
        from acova.engine import kernels

        if kernels.work():
            return FusedAdam(phase, runs)
    return TorchAdam(phase, runs)


class TorchAdam:
    """Adam of torch; runs with a learning rate of their own are optimised through their windows on the stack."""

    def __init__(self, phase: "Phase", runs: Runs) -> None:
        self._runs, self._clip_norm = runs, phase.clip_norm
        self._trained = [name for group in phase.groups for name in group.names]
        groups = [mine for group in phase.groups for mine in _by_rate(group, runs)]
        device = next(iter(runs.parameters.values())).device
        self._rates = [torch.tensor(rate, device=device) for rate, _, _ in groups]
        self._windows = [place for _, places, own in groups if own for place in places]
        self._adam = torch.optim.Adam(
            [
                {"params": [runs.of_run(*place) if own else runs.parameters[place[0]] for place in places], "lr": rate}
                for rate, (_, places, own) in zip(self._rates, groups, strict=True)
            ],
            betas=(BETA_1, BETA_2),
            eps=EPS,
            fused=True,
            capturable=device.type == "cuda",
        )

    def step(self) -> Tensor | None:
        """Clip every run's gradient and move its parameters; tell whose was clipped, (R,), if any can be."""
        clipped = None
        if self._clip_norm is not None:
            clipped = self._runs.clip_gradients(self._trained, self._clip_norm)
        for place in self._windows:
            self._runs.of_run(*place)
        self._adam.step()
        return clipped

    def decay(self, factor: float) -> None:
        """Multiply all learning rates."""
        for rate in self._rates:
            rate.mul_(factor)

    def state(self) -> dict[str, Tensor]:
        """Return everything the next step depends on, besides the parameters."""
        tensors = {f"rate.{number}": rate for number, rate in enumerate(self._rates)}
        for number, parameter in enumerate(self._parameters()):
            tensors |= {f"adam.{number}.{key}": value for key, value in self._adam.state[parameter].items()}
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an earlier `state`, on the right device."""
        for number, rate in enumerate(self._rates):
            rate.copy_(tensors[f"rate.{number}"])
        for number, parameter in enumerate(self._parameters()):
            start = f"adam.{number}."
            mine: dict[str, Any] = {k.removeprefix(start): v for k, v in tensors.items() if k.startswith(start)}
            self._adam.state[parameter] = mine

    def _parameters(self) -> list[Tensor]:
        return [parameter for group in self._adam.param_groups for parameter in group["params"]]


class FusedAdam:
    """The same in two passes over memory on a GPU: one for the norms, one that clips and moves.

    Sums of squares are added block by block in a fixed order, so that a run repeats.
    """

    def __init__(self, phase: "Phase", runs: Runs) -> None:
        from acova.engine import kernels

        self._kernels = kernels
        self._clip_norm = phase.clip_norm
        count = len(runs) if runs.stacked else 1
        self._parameters = [runs.parameters[name] for group in phase.groups for name in group.names]
        device = self._parameters[0].device
        self._rates = [torch.tensor(_each_rate(group, count), device=device) for group in phase.groups]
        self._rate_of = [number for number, group in enumerate(phase.groups) for _ in group.names]
        self._sizes = [parameter.numel() // count for parameter in self._parameters]
        blocks = [kernels.blocks_of(size) for size in self._sizes]
        self._starts = [sum(blocks[:number]) for number in range(len(blocks))]
        self._squares = torch.zeros(count, sum(blocks), device=device)
        self._factors = torch.ones(count, device=device)
        self._steps = torch.zeros((), dtype=torch.float64, device=device)
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self._parameters]

    @torch.no_grad()
    def step(self) -> Tensor | None:
        """Clip every run's gradient and move its parameters; tell whose was clipped, (R,), if any can be."""
        gradients = [None if p.grad is None else p.grad.contiguous() for p in self._parameters]
        if self._clip_norm is not None:
            for gradient, size, start in zip(gradients, self._sizes, self._starts, strict=True):
                if gradient is not None:
                    self._kernels.sum_squares(gradient, self._squares, size, start)
            norms = self._squares.sum(1).sqrt()
            self._factors = (self._clip_norm / (norms + 1e-6)).clamp(max=1.0)
        self._steps += 1
        # In float64: 1 - 0.999 has few digits left in float32.
        corrections = torch.stack([1 - BETA_1**self._steps, (1 - BETA_2**self._steps).sqrt()]).float()
        for number, (parameter, gradient) in enumerate(zip(self._parameters, gradients, strict=True)):
            if gradient is not None:
                rates, moments = self._rates[self._rate_of[number]], self._moments[number]
                self._kernels.move(
                    parameter, gradient, *moments, self._factors, rates, corrections, self._sizes[number]
                )
        return None if self._clip_norm is None else self._factors < 1.0

    def decay(self, factor: float) -> None:
        """Multiply all learning rates."""
        for rates in self._rates:
            rates.mul_(factor)

    def state(self) -> dict[str, Tensor]:
        """Return everything the next step depends on, besides the parameters."""
        tensors = {f"rate.{number}": rates for number, rates in enumerate(self._rates)}
        for number, (first, second) in enumerate(self._moments):
            tensors |= {f"adam.{number}.exp_avg": first, f"adam.{number}.exp_avg_sq": second}
        return {**tensors, "adam.step": self._steps}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an earlier `state`, on the right device."""
        for name, value in self.state().items():
            value.copy_(tensors[name])


def _each_rate(group: Any, count: int) -> list[float]:
    rates = group.learning_rate
    return [float(rates)] * count if isinstance(rates, int | float) else [float(rate) for rate in rates]


def _by_rate(group: Any, runs: Runs) -> Sequence[tuple[float, list[tuple[str, int]], bool]]:
    """Return (rate, [(name, run)], whether each run's own tensors are meant) for every learning rate of a group."""
    rates = _each_rate(group, len(runs))
    if len(set(rates)) == 1:
        return [(rates[0], [(name, 0) for name in group.names], False)]
    return [
        (rate, [(name, run) for run, mine in enumerate(rates) if mine == rate for name in group.names], True)
        for rate in dict.fromkeys(rates)
    ]
