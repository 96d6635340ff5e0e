"""Clipping and Adam for runs that train together, every run with its own gradient norm and learning rates."""

import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from acova import kernels
from acova.engine.runs import Runs

if TYPE_CHECKING:
    from acova.engine.phase import Phase

BETA_1, BETA_2, EPS = 0.9, 0.999, 1e-8
_LARGE = 2**20
"""Numbers of all runs together that keep a GPU busy."""


def new_optimiser(phase: "Phase", runs: Runs) -> "Adam":
    """Return the fastest optimiser there is for the device."""
    on_gpu = next(iter(runs.parameters.values())).is_cuda
    return FusedAdam(phase, runs) if on_gpu and kernels.compile_here() else TorchAdam(phase, runs)


class Adam(ABC):
    """What the next step depends on: the groups' learning rates, each parameter's moments, the number of steps."""

    def __init__(self, phase: "Phase", runs: Runs) -> None:
        self._runs, self._clip_norm = runs, phase.clip_norm
        self._count = len(runs) if runs.stacked else 1
        self._names = [name for group in phase.groups for name in group.names]
        self._parameters = [runs.parameters[name] for name in self._names]
        device = self._parameters[0].device
        self._rates = [
            torch.tensor(_each_rate(group, self._count), dtype=torch.float32, device=device) for group in phase.groups
        ]
        self._rate_of = [number for number, group in enumerate(phase.groups) for _ in group.names]
        self._moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in self._parameters]
        self._steps = torch.zeros((), dtype=torch.float32 if device.type == "mps" else torch.float64, device=device)

    @abstractmethod
    def step(self) -> Tensor | None:
        """Clip every run's gradient and move its parameters; tell whose was clipped, (R,), if any can be."""

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


class TorchAdam(Adam):
    """By torch's own fused operation, called as its optimiser does, which would take a second to import."""

    def __init__(self, phase: "Phase", runs: Runs) -> None:
        super().__init__(phase, runs)
        self._alike = [len(set(_each_rate(group, self._count))) == 1 for group in phase.groups]

    @torch.no_grad()
    def step(self) -> Tensor | None:
        """Clip every run's gradient and move its parameters; tell whose was clipped, (R,), if any can be."""
        clipped = None
        if self._clip_norm is not None:
            clipped = self._runs.clip_gradients(self._names, self._clip_norm)
        self._steps += 1
        steps = self._steps.float()
        for rate, moved in self._by_rate():
            parameters, gradients, first, second = zip(*moved, strict=True)
            torch._fused_adam_(
                parameters,
                gradients,
                first,
                second,
                [],
                [steps] * len(moved),
                lr=rate,
                beta1=BETA_1,
                beta2=BETA_2,
                weight_decay=0.0,
                eps=EPS,
                amsgrad=False,
                maximize=False,
            )
        return clipped

    def _by_rate(self) -> Iterator[tuple[Tensor, list[tuple[Tensor, ...]]]]:
        """Yield learning rates, and (parameter, gradient, moments) of what moves by them: of all runs, or of one."""
        for number, rates in enumerate(self._rates):
            moved: list[tuple[Tensor, ...]] = [
                (parameter, parameter.grad.contiguous(), *moments)
                for parameter, moments, rate in zip(self._parameters, self._moments, self._rate_of, strict=True)
                if rate == number and parameter.grad is not None
            ]
            if moved and self._alike[number]:
                yield rates[0], moved
            elif moved:
                for run, rate in enumerate(rates):
                    yield rate, [tuple(part[run] for part in parts) for parts in moved]


class FusedAdam(Adam):
    """In two passes over a GPU's memory: one for the norms, one that clips, moves and rounds.

    Sums of squares are added block by block in a fixed order, so that a run repeats. A process by itself adds up those
    of a gradient as soon as backward has made it, beside what is left of it; several average their gradients first.
    """

    def __init__(self, phase: "Phase", runs: Runs) -> None:
        from acova.kernels import adam

        super().__init__(phase, runs)
        self._kernels = adam
        runs.keep_rounded()
        self._rounded = [runs.rounded.get(name) for name in self._names]
        self._sizes = [parameter.numel() // self._count for parameter in self._parameters]
        blocks = [adam.blocks_of(size) for size in self._sizes]
        self._starts = [sum(blocks[:number]) for number in range(len(blocks))]
        self._squares = self._steps.new_zeros(self._count, sum(blocks), dtype=torch.float32)
        self._factors = self._squares.new_ones(self._count)
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


def _each_rate(group: Any, count: int) -> list[float]:
    rates = group.learning_rate
    return [float(rates)] * count if isinstance(rates, int | float) else [float(rate) for rate in rates]
