"""The training loop."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from acova.base import Streams, TrainingError
from acova.engine.data import RunData, StreamedData, Window, batch_sizes, fill_noise
from acova.engine.phase import Phase
from acova.engine.runs import Runs
from acova.engine.state import Keeper, State
from acova.engine.step import CLIPPED, Step

EpochReport = Callable[[str, int, int, Sequence[Mapping[str, Any]]], None]
"""Called after each epoch with the phase's name, the epoch, the phase's epochs and every run's record."""


_LEAST_MEMBERS = 0.5


class Trainer:
    """Takes runs through phases and keeps a record of every run and epoch.

    A run's order of samples and its noise come from its own streams, named after the phase and the epoch, and the noise
    belongs to the sample: neither reporting, batching, the runs beside it nor an interruption change what is drawn.

    Parameters
    ----------
    runs : Runs
    data : RunData or StreamedData
    streams : sequence of R Streams
    report : callable, optional
    keeper : Keeper, optional
        Writes checkpoints, and holds the state to go on from.

    Attributes
    ----------
    records : list of R lists of dict
        ``phase``, ``epoch``, the mean over the samples of every named part of the loss, and how often guards acted:
        ``clipped`` steps, and ``empty_<name>``, the number of clusters that together have less than half a sample.
    """

    def __init__(
        self,
        runs: Runs,
        data: RunData | StreamedData,
        streams: Sequence[Streams],
        report: EpochReport | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        self.runs, self.data, self._streams, self._report = runs, data, streams, report
        self._keeper = keeper or Keeper()
        self.records: list[list[dict[str, Any]]] = [[] for _ in runs.networks]

    def train(self, phase: Phase) -> None:
        """Run one phase of all runs; with a state to go on from, only what is left of it."""
        state = self._keeper.resumed
        if state is not None and state.phase != phase.name:
            return  # the state is of a later phase, and phases come in order
        if state is None and phase.prepare is not None:
            phase.prepare()
        data = self.data if phase.data is None else phase.data
        if not phase.epochs or not batch_sizes(data.n_samples, phase.batch_size, phase.drop_last):
            return
        step = Step(phase, self.runs, data.resident)
        draws = _Draws(data, step.noise, [stream.child(phase.name) for stream in self._streams])
        stopping = _Stopping(phase, self.runs)
        epoch, skip = 0, 0
        if state is not None:
            self._keeper.check_resumed(step.state(), phase.epochs, len(self.runs))
            self._keeper.resumed = None
            step.load(state.tensors)
            self.records = state.records
            stopping.load(state)
            epoch, skip = state.epoch, state.step
        while epoch < phase.epochs and not stopping.all_stopped:
            self._epoch(phase, step, draws, stopping, epoch, skip)
            epoch, skip = epoch + 1, 0
        stopping.put_back()
        self._check_parameters(phase)

    def _epoch(self, phase: Phase, step: Step, draws: "_Draws", stopping: "_Stopping", epoch: int, skip: int) -> None:
        if not skip:
            self._begin_epoch(phase, step, epoch)
        self.runs.round_again()
        taken, seen = 0, 0
        for window in draws.windows(epoch):
            for rows, batch in window.batches(phase.batch_size, phase.drop_last):
                taken, seen = taken + 1, seen + batch
                if taken <= skip:
                    continue
                step(rows, batch)
                if self._keeper.stop_requested:
                    self._keeper.stop(State(phase.name, epoch, taken, self.records, *stopping.state(), step.state()))
        step.end_epoch(epoch)
        if phase.before_epoch is None and epoch + 1 < phase.epochs:
            draws.look_ahead(epoch + 1)
        latest = self._latest(phase, epoch, step, seen)
        for run, record in enumerate(latest):
            if stopping.stopped[run] is None:
                self.records[run].append(record)
        stopping.look_at(latest, epoch)
        self._keeper.keep(lambda: State(phase.name, epoch + 1, 0, self.records, *stopping.state(), step.state()))
        if self._report is not None:
            self._report(phase.name, epoch + 1, phase.epochs, latest)

    @staticmethod
    def _begin_epoch(phase: Phase, step: Step, epoch: int) -> None:
        step.start_epoch()
        if phase.before_epoch is not None:
            phase.before_epoch(epoch)

    def _latest(self, phase: Phase, epoch: int, step: Step, seen: int) -> list[dict[str, Any]]:
        sums = {name: value.double() for name, value in step.sums.items()}
        extra = {} if phase.measure is None else self.runs.measure(phase.measure)
        if CLIPPED in sums:
            extra[CLIPPED] = sums.pop(CLIPPED)  # every process clips the same gradient
        for name in [name for name, value in sums.items() if value.ndim > 1]:
            extra[f"empty_{name}"] = (self.runs.processes.sum(sums.pop(name)) < _LEAST_MEMBERS).sum(-1)
        parts = sums
        means = self.runs.processes.sum(torch.stack(list(parts.values()))) / seen
        means = torch.cat([means, *(value.double().unsqueeze(0) for value in extra.values())])
        names = [*parts, *extra]
        values = means.cpu()  # the only place of an epoch where the host waits for the device
        broken = ~torch.isfinite(values[names.index("total")])
        self._refuse(broken, f"Training became non-finite in epoch {epoch + 1} of phase {phase.name!r}")
        return [
            {"phase": phase.name, "epoch": epoch + 1, **dict(zip(names, column.tolist(), strict=True))}
            for column in values.T
        ]

    def _check_parameters(self, phase: Phase) -> None:
        """Refuse what the last step left: no loss after it would tell."""
        broken = ~self.runs.finite().cpu()
        self._refuse(broken, f"Training left non-finite parameters at the end of phase {phase.name!r}")

    def _refuse(self, broken: Tensor, what: str) -> None:
        """Raise an error about the first of the runs (R,) that are broken, if any is."""
        if not broken.any():
            return
        of_run = f" of run {int(broken.nonzero()[0]) + 1}" if len(self.runs) > 1 else ""
        advice = "Keep standardize=True, lower learning_rate, or look for extreme values in the data."
        msg = f"{what}{of_run}. {advice}"
        raise TrainingError(msg)


class _Draws:
    """The order and the noise of every epoch of a phase; the noise lies in a fixed place (R, n, …).

    Many small draws keep the host busy. Where data are on a GPU, those of the next epoch can be made while it works off
    this one's steps, before the host waits for it.
    """

    def __init__(self, data: RunData | StreamedData, noise: Tensor, streams: Sequence[Streams]) -> None:
        self._data, self._noise, self._streams = data, noise, streams
        self._ready: tuple[int, Window, Tensor] | None = None

    def windows(self, epoch: int) -> Iterator[Window]:
        """Yield every window, its noise in its place."""
        if self._ready is not None and self._ready[0] == epoch:
            _, window, noise = self._ready
            self._noise.copy_(noise)
            yield window
            return
        for window in self._data.windows(self._streams, epoch):
            self._draw(self._noise, window, epoch)
            yield window

    def look_ahead(self, epoch: int) -> None:
        """Draw what an epoch needs, on a GPU that holds all data."""
        if self._noise.is_cuda and type(self._data) is RunData:
            (window,) = self._data.windows(self._streams, epoch)
            noise = torch.empty_like(self._noise) if self._ready is None else self._ready[2]
            self._draw(noise, window, epoch)
            self._ready = epoch, window, noise

    def _draw(self, noise: Tensor, window: Window, epoch: int) -> None:
        for run, streams in enumerate(self._streams):
            fill_noise(noise[run], window.spans, streams, epoch)


@dataclass
class _Stopping:
    """Stops each run when its own loss stands still: its parameters are set aside, the others go on."""

    phase: Phase
    runs: Runs
    best: list[float] = field(init=False)
    best_epoch: list[int] = field(init=False)
    stopped: list[int | None] = field(init=False)

    def __post_init__(self) -> None:
        count = len(self.runs)
        self.best, self.best_epoch, self.stopped = [float("inf")] * count, [0] * count, [None] * count
        self._aside: dict[str, Tensor] = {}

    @property
    def all_stopped(self) -> bool:
        return all(epoch is not None for epoch in self.stopped)

    def look_at(self, latest: Sequence[Mapping[str, Any]], epoch: int) -> None:
        if self.phase.patience is None:
            return
        for run, record in enumerate(latest):
            total = record["total"]
            if self.stopped[run] is not None:
                continue
            if total < self.best[run] - self.phase.tol * abs(total):
                self.best[run], self.best_epoch[run] = total, epoch
            elif epoch - self.best_epoch[run] >= self.phase.patience:
                self.stopped[run] = epoch
                for name in self.runs.parameters:
                    self._aside[f"aside.{run}.{name}"] = self.runs.of_run(name, run).detach().clone()

    def put_back(self) -> None:
        """Return the runs that stopped to where they stopped."""
        with torch.no_grad():
            for key, value in self._aside.items():
                _, run, name = key.split(".", 2)
                self.runs.of_run(name, int(run)).copy_(value)

    def state(self) -> tuple[list[float], list[int], list[int | None], dict[str, Tensor]]:
        return self.best, self.best_epoch, self.stopped, self._aside

    def load(self, state: State) -> None:
        self.best, self.best_epoch, self.stopped = state.best, state.best_epoch, state.stopped
        device = self.runs.of_run(next(iter(self.runs.parameters)), 0).device
        self._aside = {key: value.to(device) for key, value in state.tensors.items() if key.startswith("aside.")}
