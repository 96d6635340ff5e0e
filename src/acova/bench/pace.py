"""How long things take, and a line that tells it."""

import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from acova.bench.checks import one_line
from acova.bench.entries import Fit


class Pace:
    """Seconds per fit, learned from rows: of the same method on the same data, else of the method."""

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self._times: dict[tuple[str, str], list[float]] = defaultdict(list)
        for row in rows:
            self.learn(row)

    def learn(self, row: Mapping[str, Any]) -> None:
        """Take note of a row's time."""
        if "seconds" in row:
            self._times[row["method"], row["dataset"]].append(float(row["seconds"]))

    @property
    def overall(self) -> float:
        """Mean seconds of all rows."""
        times = [one for each in self._times.values() for one in each]
        return sum(times) / len(times) if times else 0.0

    def seconds(self, fit: Fit) -> float | None:
        """Return the mean seconds of a fit like this one; None without any row of its method or data."""
        name, data = fit.method.name, fit.data.name
        same = self._times.get((name, data), [])
        times = same or [one for key, each in self._times.items() if key[0] == name for one in each]
        return sum(times) / len(times) if times else None


class Progress:
    """A bar on a terminal, a line per group elsewhere; silent unless shown."""

    def __init__(self, fits: Iterable[Fit], pace: Pace, *, shown: bool) -> None:
        self.pace, self._shown = pace, shown
        self._left = {fit.key: fit for fit in fits}
        self._total = len(self._left)
        self._start = time.monotonic()
        self._bar: Any = None

    def __enter__(self) -> Self:
        if self._shown and self._total and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
            from rich.progress import Progress as Bar

            columns = (
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[left]}  {task.description}", markup=False),
            )
            self._bar = Bar(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task("starting", total=self._total, left="")
            self._bar.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, rows: list[dict[str, Any]], workers: int = 1) -> None:
        """Tell of rows that were written."""
        for row in rows:
            self.pace.learn(row)
            self._left.pop(row["key"], None)
        if not self._shown:
            return
        left = self.seconds_left(workers)
        text = f"about {duration(left)} left" if self._left else f"done in {duration(time.monotonic() - self._start)}"
        if self._bar is not None:
            self._bar.update(self._task, advance=len(rows), description=line_about(rows), left=text)
        else:
            line = f"[{self._total - len(self._left)}/{self._total}, {text}] {line_about(rows)}"
            print(line, file=sys.stderr, flush=True)  # noqa: T201

    def seconds_left(self, workers: int) -> float:
        """Return how long the fits that are left will take: each as long as those like it took so far."""
        known = [self.pace.seconds(fit) for fit in self._left.values()]
        sure = [one for one in known if one is not None]
        usual = sum(sure) / len(sure) if sure else self.pace.overall
        return sum(usual if one is None else one for one in known) / max(workers, 1)


def line_about(rows: list[dict[str, Any]]) -> str:
    """Return a line about rows that were fitted together."""
    first = rows[0]
    rates = sorted({row["missing_percent"] for row in rows})
    shown = f"{rates[0]:g} %" if len(rates) == 1 else f"{rates[0]:g}–{rates[-1]:g} %"
    names = {row["method"] for row in rows}
    who = first["method"] if len(names) == 1 else f"{len(names)} methods"
    scores = [row["acc"] for row in rows if "acc" in row]
    what = f"ACC {sum(scores) / len(scores):.3f}" if scores else str(first.get("failed", first.get("unavailable", "")))
    count = f"run {first['run']}" if len(rows) == 1 else f"{len(rows)} runs"
    took = f", {float(first['seconds']):.1f} s each" if "seconds" in first else ""
    return one_line(f"{first['dataset']} {shown} {who}, {count}: {what}{took}")


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
