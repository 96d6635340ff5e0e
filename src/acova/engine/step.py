"""One optimiser step of all runs; on a GPU it is captured once and replayed as a CUDA graph."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from acova import kernels
from acova.engine.data import RunData
from acova.engine.optimiser import new_optimiser
from acova.engine.runs import Runs

if TYPE_CHECKING:
    from acova.engine.phase import Phase

CLIPPED = "clipped"
_EAGER_CALLS = 3
"""Steps before a capture: they fill the optimiser's state and let libraries choose their kernels."""


class Step:
    """Gather, forward, backward, clip, Adam and the running sums of the losses, for rows given by number.

    Rows and noise are copied to fixed places, so the same kernels can be replayed for every batch of the same size.

    Attributes
    ----------
    noise : Tensor of shape (R, n, …)
        Noise of the rows at hand, to be filled in place.
    sums : dict of str to Tensor of shape (R,) or (R, K)
        Losses, and counts of members, summed over the samples since `start_epoch`; ``"clipped"`` counts steps.
    """

    def __init__(self, phase: "Phase", runs: Runs, data: RunData) -> None:
        self._phase, self._runs, self._data = phase, runs, data
        self._trained = [name for group in phase.groups for name in group.names]
        runs.train_only(self._trained)
        self._optimiser = new_optimiser(phase, runs)
        noise_shape = len(runs), data.observed.shape[1], *phase.noise_shape
        self.noise = torch.zeros(noise_shape, dtype=torch.float32, device=data.device)
        self.sums: dict[str, Tensor] = {}
        self._calls: dict[int, int] = {}
        self._rows: dict[int, Tensor] = {}
        self._graphs: dict[int, torch.cuda.CUDAGraph | None] = {}
        self._may_capture = data.device.type == "cuda" and runs.processes.size == 1

    def __call__(self, rows: Tensor, batch: int) -> None:
        """Take one step on rows (R, b), which are all or this process's part of `batch` samples."""
        # Graphs and kernels go to the current GPU, whichever holds the data.
        with torch.cuda.device(rows.device) if rows.is_cuda else nullcontext():
            self._call(rows, batch)

    def _call(self, rows: Tensor, batch: int) -> None:
        size = rows.shape[1]
        if self._may_capture and size not in self._graphs and self._calls.get(size, 0) >= _EAGER_CALLS:
            self._capture(rows)
        graph = self._graphs.get(size)
        if graph is None:
            self._calls[size] = self._calls.get(size, 0) + 1
            self._take(rows, batch)
        else:
            self._rows[size].copy_(rows)
            graph.replay()

    def start_epoch(self) -> None:
        """Set the running sums to zero."""
        for value in self.sums.values():
            value.zero_()

    def end_epoch(self, epoch: int) -> None:
        """Let the learning rates decay when it is time."""
        if (epoch + 1) % self._phase.decay_every == 0:
            self._optimiser.decay(self._phase.decay)

    def state(self) -> dict[str, Tensor]:
        """Return everything the next step depends on, as it is now (copies are up to the caller)."""
        tensors = {f"parameter.{name}": value.detach() for name, value in self._runs.parameters.items()}
        sums = {f"sum.{name}": value for name, value in self.sums.items()}
        return {**tensors, **sums, **self._optimiser.state(), **self._data.state()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an earlier `state`."""
        tensors = {name: value.to(self._data.device) for name, value in tensors.items()}
        with torch.no_grad():
            for name, parameter in self._runs.parameters.items():
                parameter.copy_(tensors[f"parameter.{name}"])
        self.sums = {name.removeprefix("sum."): value for name, value in tensors.items() if name.startswith("sum.")}
        self._optimiser.load(tensors)
        self._data.load(tensors)

    def _take(self, rows: Tensor, batch: int) -> None:
        with kernels.fused(alone=self._runs.processes.size == 1):
            run = torch.arange(len(rows), device=rows.device).unsqueeze(-1)
            losses = self._runs.losses(self._phase.loss, self._data.batch(rows), self.noise[run, rows])
            with kernels.beside(rows) as adding:
                for name, value in losses.items():
                    total = value.detach().sum(1)
                    self.sums.setdefault(name, torch.zeros_like(total)).add_(total)
            for name in self._trained:
                self._runs.parameters[name].grad = None
            # The gradient is that of the mean over the whole batch; processes average their gradients.
            (losses["total"].sum() * (self._runs.processes.size / batch)).backward()  # type: ignore[no-untyped-call]
            clipped = self._optimiser.step()
            kernels.wait_for(adding)
            if clipped is not None:
                self.sums.setdefault(CLIPPED, torch.zeros_like(clipped, dtype=torch.float32)).add_(clipped)

    def _capture(self, rows: Tensor) -> None:
        """Record a step without taking it; where that fails, steps go on being taken one by one."""
        size = rows.shape[1]
        self._rows[size] = rows.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            torch.cuda.synchronize()
            # Other threads of the process may go on using the GPU meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._take(self._rows[size], size)
            self._graphs[size] = graph
        except RuntimeError as error:
            self._graphs[size] = None
            kernels.warn_once(f"Steps of training are not captured as a CUDA graph, and take longer: {error}")
