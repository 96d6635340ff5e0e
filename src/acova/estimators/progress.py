"""A progress bar with the loss and the time left."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from acova.engine import EpochReport


@contextmanager
def progress_bar(name: str, n_runs: int, epochs_per_run: int, *, shown: bool) -> Iterator[EpochReport | None]:
    """Give a function to call after each epoch, which moves a bar on standard error; None if not `shown`."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=n_runs * epochs_per_run, loss="…")

        def report(phase: str, epoch: int, epochs: int, record: Mapping[str, Any]) -> None:
            done = int(bar.tasks[0].completed) // max(epochs_per_run, 1) + 1
            run = f" run {min(done, n_runs)}/{n_runs}" if n_runs > 1 else ""
            bar.update(task, advance=1, description=f"{name}{run} {phase}", loss=f"{record['total']:.4g}")

        yield report
