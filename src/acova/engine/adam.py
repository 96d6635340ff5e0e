"""Clipping and Adam for runs that train together, every run with its own gradient norm and learning rates."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from acova import kernels
from acova.engine.runs import Runs

if TYPE_CHECKING:
    from acova.engine.loop import Phase

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8
_LARGE = 2**20
"""Numbers of all runs together that keep a GPU busy."""


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
    on_gpu = next(iter(runs.parameters.values())).is_cuda
    return FusedAdam(phase, runs) if on_gpu and kernels.compile_here() else TorchAdam(phase, runs)


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
    """The same in two passes over memory on a GPU: one for the norms, one that clips, moves and rounds.

    Sums of squares are added block by block in a fixed order, so that a run repeats. A process by itself adds up those
    of a gradient as soon as backward has made it, beside what is left of it; several average their gradients first.
    """

    def __init__(self, phase: "Phase", runs: Runs) -> None:
        from acova.kernels import adam

        self._kernels = adam
        runs.keep_rounded()
        self._clip_norm = phase.clip_norm
        count = len(runs) if runs.stacked else 1
        self._parameters = [runs.parameters[name] for group in phase.groups for name in group.names]
        self._rounded = [runs.rounded.get(name) for group in phase.groups for name in group.names]
        device = self._parameters[0].device
        self._rates = [torch.tensor(_each_rate(group, count), device=device) for group in phase.groups]
        self._rate_of = [number for number, group in enumerate(phase.groups) for _ in group.names]
        self._sizes = [parameter.numel() // count for parameter in self._parameters]
        blocks = [adam.blocks_of(size) for size in self._sizes]
        self._starts = [sum(blocks[:number]) for number in range(len(blocks))]
        self._squares = torch.zeros(count, sum(blocks), device=device)
        self._factors = torch.ones(count, device=device)
        self._steps = torch.zeros((), dtype=torch.float64, device=device)
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self._parameters]
        self._added: set[int] = set()
        if runs.processes.size == 1 and phase.clip_norm is not None:
            self._add_squares_in_backward()

    @torch.no_grad()
    def step(self) -> Tensor | None:
        """Clip every run's gradient and move its parameters; tell whose was clipped, (R,), if any can be."""
        self._steps += 1
        if self._clip_norm is not None:
            for number in set(range(len(self._parameters))) - self._added:
                self._add_squares(number)
            self._added.clear()
            self._kernels.shorten(self._squares, self._factors, self._clip_norm)
        # Small parameters would each wait for the one before, and leave most of the device idle.
        with kernels.beside(self._factors) as small:
            self._move(lambda parameter: parameter.numel() < _LARGE)
        self._move(lambda parameter: parameter.numel() >= _LARGE)
        kernels.wait_for(small)
        return None if self._clip_norm is None else self._factors < 1.0

    def _add_squares_in_backward(self) -> None:
        optimiser = weakref.ref(self)

        def hook_of(number: int) -> Callable[[Tensor], None]:
            def hook(_: Tensor) -> None:
                if (me := optimiser()) is not None:
                    me._add_squares(number)
                    me._added.add(number)

            return hook

        hooks = [
            parameter.register_post_accumulate_grad_hook(hook_of(number))  # type: ignore[no-untyped-call]
            for number, parameter in enumerate(self._parameters)
        ]
        weakref.finalize(self, lambda: [hook.remove() for hook in hooks])

    @torch.no_grad()
    def _add_squares(self, number: int) -> None:
        gradient = self._parameters[number].grad
        if gradient is not None:
            place = self._sizes[number], self._starts[number]
            self._kernels.sum_squares(gradient.contiguous(), self._squares, *place)

    def _move(self, wanted: Callable[[Tensor], bool]) -> None:
        for number, parameter in enumerate(self._parameters):
            if parameter.grad is not None and wanted(parameter):
                self._kernels.move(
                    parameter,
                    self._rounded[number],
                    parameter.grad.contiguous(),
                    *self._moments[number],
                    self._factors,
                    self._rates[self._rate_of[number]],
                    self._steps,
                    self._sizes[number],
                    (BETA_1, BETA_2),
                    EPS,
                )

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
