"""One optimiser step of all runs; on a GPU it is captured once and replayed as a CUDA graph."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from acova.engine.runs import RunData, Runs

if TYPE_CHECKING:
    from acova.engine.loop import Phase

_EAGER_CALLS = 3
"""Steps before a capture: they fill the optimiser's state and let libraries choose their kernels."""


class Step:
    """Gather, forward, backward, clip, Adam and the running sums of the losses, for rows given by number.

    Rows and noise are copied to fixed places, so the same kernels can be replayed for every batch of the same size.

    Attributes
    ----------
    noise : Tensor of shape (R, N, …)
        The epoch's noise, to be filled in place before the epoch.
    sums : dict of str to Tensor of shape (R,)
        Losses summed over the samples since `start_epoch`.
    """

    def __init__(self, phase: "Phase", runs: Runs, data: RunData) -> None:
        self._phase, self._runs, self._data = phase, runs, data
        cuda = data.device.type == "cuda"
        self._trained = [name for group in phase.groups for name in group.names]
        self._rates = [torch.tensor(float(group.learning_rate), device=data.device) for group in phase.groups]
        groups = [
            {"params": [runs.parameters[name] for name in group.names], "lr": rate}
            for group, rate in zip(phase.groups, self._rates, strict=True)
        ]
        self._optimiser = torch.optim.Adam(groups, fused=True, capturable=cuda)
        self.noise = torch.zeros(len(runs), data.n_samples, *phase.noise_shape, device=data.device)
        self.sums: dict[str, Tensor] = {}
        self._calls: dict[int, int] = {}
        self._rows: dict[int, Tensor] = {}
        self._graphs: dict[int, torch.cuda.CUDAGraph | None] = {}
        self._may_capture = cuda

    def __call__(self, rows: Tensor) -> None:
        """Take one step on rows (R, B)."""
        size = rows.shape[1]
        if self._may_capture and size not in self._graphs and self._calls.get(size, 0) >= _EAGER_CALLS:
            self._capture(rows)
        graph = self._graphs.get(size)
        if graph is None:
            self._calls[size] = self._calls.get(size, 0) + 1
            self._take(rows)
        else:
            self._rows[size].copy_(rows)
            graph.replay()

    def start_epoch(self) -> None:
        """Set the running sums to zero."""
        for value in self.sums.values():
            value.zero_()

    def end_epoch(self) -> None:
        """Let the learning rates decay."""
        for rate in self._rates:
            rate.mul_(self._phase.decay)

    def _take(self, rows: Tensor) -> None:
        views, observed = self._data.batch(rows)
        run = torch.arange(len(rows), device=rows.device).unsqueeze(-1)
        losses = self._runs.losses(self._phase.loss, views, observed, self.noise[run, rows])
        self._optimiser.zero_grad(set_to_none=True)
        losses["total"].sum().backward()  # type: ignore[no-untyped-call]
        if self._phase.clip_norm is not None:
            self._runs.clip_gradients(self._trained, self._phase.clip_norm)
        self._optimiser.step()
        for name, value in losses.items():
            self.sums.setdefault(name, torch.zeros_like(value)).add_(value.detach(), alpha=rows.shape[1])

    def _capture(self, rows: Tensor) -> None:
        """Record a step without taking it; where that fails, steps go on being taken one by one."""
        size = rows.shape[1]
        self._rows[size] = rows.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                self._take(self._rows[size])
            self._graphs[size] = graph
        except RuntimeError:
            self._graphs[size] = None
