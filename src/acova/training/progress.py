"""A progress bar with the loss and the time left."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from acova.engine.trainer import EpochReport


@contextmanager
def progress_bar(name: str, epochs: int, *, shown: bool) -> Iterator[EpochReport | None]:
    """Give a function to call after each epoch, which moves a bar on standard error; None if not `shown`.

    The bar counts the epochs of all runs; the loss is the mean over the runs that train together.
    """
    if not shown:
        yield None
        return
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
            loss = sum(record["total"] for record in records) / len(records)
            bar.update(task, advance=len(records), description=f"{name} {phase}", loss=f"{loss:.4g}")

        yield report
