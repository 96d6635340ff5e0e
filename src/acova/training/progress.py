"""How far a fit is: a bar on a terminal, one line for each phase in a notebook or a log."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from acova.console import say
from acova.engine.trainer import EpochReport

_EVERY = 10
"""Lines of a phase that ``verbose=2`` writes."""


@contextmanager
def progress_bar(name: str, epochs: int, *, shown: bool | int) -> Iterator[EpochReport | None]:
    """Give a function to call after each epoch, which says on standard error how far it is; None if not `shown`.

    On a terminal a bar counts the epochs of all runs. Elsewhere, in notebooks and logs, each phase of a group of runs
    gets a line when it ends, and with ``shown=2`` about ten more on its way. The loss is the mean over the runs that
    train together.
    """
    if not shown:
        yield None
    elif sys.stderr is not None and sys.stderr.isatty():
        with _bar(name, epochs) as report:
            yield report
    else:
        lines = Lines(name, often=int(shown) > 1)
        yield lines.report
        lines.end_phase()


def of_runs(report: EpochReport | None, numbers: Sequence[int], total: int) -> EpochReport | None:
    """Return a report that names the runs that train together among all of a fit, as in "train, run 2 of 5"."""
    if report is None or total == 1:
        return report
    first, last = numbers[0] + 1, numbers[-1] + 1
    if len(numbers) == 1:
        runs = f"run {first}"
    elif last - first + 1 == len(numbers):
        runs = f"runs {first} to {last}"
    else:
        runs = f"runs {', '.join(str(number + 1) for number in numbers)}"

    def named(phase: str, *rest: Any) -> None:
        report(f"{phase}, {runs} of {total}", *rest)

    return named


class Lines:
    """Plain lines about the phases of a fit.

    Parameters
    ----------
    name : str
        Of the method.
    often : bool
        Whether about ten lines are written in each phase, and not only one at its end.
    """

    def __init__(self, name: str, *, often: bool) -> None:
        self._name, self._often, self._start = name, often, time.monotonic()
        self._last: tuple[str, int, int, Sequence[Mapping[str, Any]]] | None = None

    def report(self, phase: str, epoch: int, of_phase: int, records: Sequence[Mapping[str, Any]]) -> None:
        """Take note of an epoch. Runs may take turns, so a phase ends with its last epoch or with the fit."""
        self._last = phase, epoch, of_phase, records
        if self._often and epoch < of_phase and epoch % max(of_phase // _EVERY, 1) == 0:
            self._write(*self._last)
        if epoch == of_phase:
            self.end_phase()

    def end_phase(self) -> None:
        """Write the line of the phase that has ended."""
        if self._last is not None:
            self._write(*self._last)
        self._last = None

    def _write(self, phase: str, epoch: int, of_phase: int, records: Sequence[Mapping[str, Any]]) -> None:
        spent = time.monotonic() - self._start
        loss = f"{_mean_loss(records):.4g}"
        say(f"{self._name} {phase}: epoch {epoch} of {of_phase}, loss {loss}, {spent:.0f} s", error=True)


@contextmanager
def _bar(name: str, epochs: int) -> Iterator[EpochReport]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}", markup=False),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=epochs, loss="…")

        def report(phase: str, epoch: int, of_phase: int, records: Sequence[Mapping[str, Any]]) -> None:
            loss = f"{_mean_loss(records):.4g}"
            bar.update(task, advance=len(records), description=f"{name} {phase}", loss=loss)

        yield report


def _mean_loss(records: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(record["total"] for record in records) / len(records))
