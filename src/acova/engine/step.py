"""One optimiser step of all runs; on a GPU it is captured once and replayed as a CUDA graph."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from acova.engine.data import RunData
from acova.engine.runs import Runs

if TYPE_CHECKING:
    from acova.engine.loop import Phase

_EAGER_CALLS = 3
"""Steps before a capture: they fill the optimiser's state and let libraries choose their kernels."""


class Step:
    """Gather, forward, backward, clip, Adam and the running sums of the losses, for rows given by number.

    Rows and noise are copied to fixed places, so the same kernels can be replayed for every batch of the same size.

    Attributes
    ----------
    noise : Tensor of shape (R, n, …)
        Noise of the rows at hand, to be filled in place.
    sums : dict of str to Tensor of shape (R,)
        Losses summed over the samples since `start_epoch`.
    """

    def __init__(self, phase: "Phase", runs: Runs, data: RunData) -> None:
        self._phase, self._runs, self._data = phase, runs, data
        cuda = data.device.type == "cuda"
        self._trained = [name for group in phase.groups for name in group.names]
        runs.train_only(self._trained)
        groups = [mine for group in phase.groups for mine in _by_rate(group, runs)]
        self._rates = [torch.tensor(rate, device=data.device) for rate, _, _ in groups]
        self._windows = [place for _, places, own in groups if own for place in places]
        self._optimiser = torch.optim.Adam(
            [
                {"params": [runs.of_run(*place) if own else runs.parameters[place[0]] for place in places], "lr": rate}
                for rate, (_, places, own) in zip(self._rates, groups, strict=True)
            ],
            fused=True,
            capturable=cuda,
        )
        self.noise = torch.zeros(len(runs), data.observed.shape[1], *phase.noise_shape, device=data.device)
        self.sums: dict[str, Tensor] = {}
        self._calls: dict[int, int] = {}
        self._rows: dict[int, Tensor] = {}
        self._graphs: dict[int, torch.cuda.CUDAGraph | None] = {}
        self._may_capture = cuda and runs.processes.size == 1

    def __call__(self, rows: Tensor, batch: int) -> None:
        """Take one step on rows (R, b), which are all or this process's part of `batch` samples."""
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

    def end_epoch(self) -> None:
        """Let the learning rates decay."""
        for rate in self._rates:
            rate.mul_(self._phase.decay)

    def state(self) -> dict[str, Tensor]:
        """Return everything the next step depends on, as it is now (copies are up to the caller)."""
        tensors = {f"parameter.{name}": value.detach() for name, value in self._runs.parameters.items()}
        tensors |= {f"rate.{number}": rate for number, rate in enumerate(self._rates)}
        tensors |= {f"sum.{name}": value for name, value in self.sums.items()}
        for number, parameter in enumerate(self._optimised()):
            tensors |= {f"adam.{number}.{key}": value for key, value in self._optimiser.state[parameter].items()}
        return tensors

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an earlier `state`."""
        kinds: dict[str, dict[str, Tensor]] = {"parameter": {}, "rate": {}, "sum": {}, "adam": {}}
        for key, value in tensors.items():
            kind, _, name = key.partition(".")
            if kind in kinds:
                kinds[kind][name] = value.to(self._data.device)
        with torch.no_grad():
            for name, parameter in self._runs.parameters.items():
                parameter.copy_(kinds["parameter"][name])
        for number, rate in enumerate(self._rates):
            rate.copy_(kinds["rate"][str(number)])
        self.sums = kinds["sum"]
        for number, parameter in enumerate(self._optimised()):
            start = f"{number}."
            mine: dict[str, Any] = {k.removeprefix(start): v for k, v in kinds["adam"].items() if k.startswith(start)}
            self._optimiser.state[parameter] = mine

    def _optimised(self) -> list[Tensor]:
        return [parameter for group in self._optimiser.param_groups for parameter in group["params"]]

    def _take(self, rows: Tensor, batch: int) -> None:
        views, observed = self._data.batch(rows)
        run = torch.arange(len(rows), device=rows.device).unsqueeze(-1)
        losses = self._runs.losses(self._phase.loss, views, observed, self.noise[run, rows])
        for name in self._trained:
            self._runs.parameters[name].grad = None
        # The gradient is that of the mean over the whole batch; processes average their gradients.
        (losses["total"].sum() * (self._runs.processes.size / batch)).backward()  # type: ignore[no-untyped-call]
        if self._phase.clip_norm is not None:
            self._runs.clip_gradients(self._trained, self._phase.clip_norm)
        for place in self._windows:
            self._runs.of_run(*place)
        self._optimiser.step()
        for name, value in losses.items():
            mine = value.detach().sum(1)
            self.sums.setdefault(name, torch.zeros_like(mine)).add_(mine)

    def _capture(self, rows: Tensor) -> None:
        """Record a step without taking it; where that fails, steps go on being taken one by one."""
        size = rows.shape[1]
        self._rows[size] = rows.clone()
        graph = torch.cuda.CUDAGraph()
        try:
            torch.cuda.synchronize()
            with torch.cuda.graph(graph):
                self._take(self._rows[size], size)
            self._graphs[size] = graph
        except RuntimeError:
            self._graphs[size] = None


def _by_rate(group: Any, runs: Runs) -> list[tuple[float, list[tuple[str, int]], bool]]:
    """Return (rate, [(name, run)], whether each run's own tensors are meant) for every learning rate of a group."""
    rates = group.learning_rate
    if isinstance(rates, int | float) or len(set(rates)) == 1:
        rate = rates if isinstance(rates, int | float) else rates[0]
        return [(float(rate), [(name, 0) for name in group.names], False)]
    return [
        (float(rate), [(name, run) for run, mine in enumerate(rates) if mine == rate for name in group.names], True)
        for rate in dict.fromkeys(rates)
    ]
