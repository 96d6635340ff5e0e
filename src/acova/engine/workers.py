"""Tasks side by side in processes of this machine: how many, and the folder through which they and this one talk.

The processes are joblib's (loky): they need no ``__main__`` guard and are not forked. Idle ones serve the next tasks,
and end after five minutes.
"""

import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from joblib import Parallel, cpu_count, delayed
from joblib.externals.loky.backend import resource_tracker
from joblib.parallel import BACKENDS, get_active_backend
from torch import Tensor

from acova.base import ProcessError
from acova.engine.parallel import most_threads, number_in_environment

VARIABLE = "ACOVA_JOBS"
"""Environment variable with the number of processes of a fit."""
_LOOK = 0.1
"""Seconds between two looks at what the workers report, and of a worker at whether its owner is there."""
_STOP, _REPORTS, _WATCH = "stop", "reports.jsonl", "acova ends with its owner"

Record = tuple[str, type[Warning], str, int]
"""A warning of a worker: message, category, file, line."""


def worker_count(tasks: int, threads: int) -> int:
    """Return how many processes to start for tasks of so many threads each; 1 means to start none.

    A number given by ``joblib.parallel_config(n_jobs=…)`` counts, or else by the environment variable ``ACOVA_JOBS``.
    Without one the tasks take as many cores as this process may use, and no more than torch's number of threads.
    Processes that others started, and Python threads without a number of their own, start none.
    """
    backend, given = get_active_backend()
    nested = backend.nesting_level or multiprocessing.parent_process() is not None
    if nested or not isinstance(backend, BACKENDS.get("loky", ())):
        return 1
    if given is not None:
        return max(1, min(tasks, int(backend.effective_n_jobs(given))))
    if threading.current_thread() is not threading.main_thread():
        return 1
    asked = number_in_environment(VARIABLE, "processes")
    return max(1, min(tasks, asked or min(cpu_count(), most_threads()) // threads))


def side_by_side(function: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], count: int) -> Iterator[Any]:
    """Yield what a function gives for every task, as results come, from so many processes.

    The first error of a task ends all of them.
    """
    parallel = Parallel(n_jobs=count, return_as="generator_unordered", batch_size=1, max_nbytes=None)
    try:
        with _unseen_interrupts():
            results = parallel(delayed(function)(*task) for task in tasks)
        yield from results
    except BrokenProcessPool as error:
        reason = str(error).strip().splitlines()[0]
        msg = (
            f"A worker process of this fit ended before its run was done, perhaps for want of memory ({reason}). "
            f"Use fewer processes: joblib.parallel_config(n_jobs=…) around the fit, or the environment variable "
            f"{VARIABLE}; with 1 all runs train in this process. A fit with a checkpoint goes on from there."
        )
        raise ProcessError(msg) from error


@contextmanager
def _unseen_interrupts() -> Iterator[None]:
    """Start processes that never see Ctrl-C, which would print where they were; it reaches this one after the block."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass(frozen=True)
class Lent:
    """Stands for a tensor on its way to a worker, where it is unpickled as a tensor whose memory all workers share."""

    path: Path

    def __reduce__(self) -> tuple[Any, ...]:
        return _mapped, (self.path,)


def _mapped(path: Path) -> Tensor:
    # Its memory begins where 64 bytes do, as that of torch's own tensors; a worker that writes gets a copy of the page.
    return torch.from_numpy(np.load(path, mmap_mode="c"))


@dataclass(frozen=True)
class Exchange:
    """A temporary folder that this process and its workers share: tensors, reports, a request to stop.

    Attributes
    ----------
    folder : Path
    owner : int
        Process that made it.
    """

    folder: Path
    owner: int = field(default_factory=os.getpid)

    @classmethod
    @contextmanager
    def opened(cls) -> "Iterator[Exchange]":
        """Make a folder that is deleted at the end, also when this process is killed."""
        with TemporaryDirectory(prefix="acova-", ignore_cleanup_errors=True) as folder:
            resource_tracker.register(folder, "folder")
            try:
                yield cls(Path(folder))
            finally:
                resource_tracker.unregister(folder, "folder")

    # --- data ---------------------------------------------------------------------------------

    def lent(self, tensor: Tensor, lent: dict[int, "Lent"]) -> "Lent":
        """Write a tensor to a file that workers map into memory, once for all who lend it; `lent` remembers it."""
        if id(tensor) not in lent:
            path = self.folder / f"{len(lent)}.npy"
            np.save(path, np.ascontiguousarray(tensor.detach().numpy()))
            lent[id(tensor)] = Lent(path)
        return lent[id(tensor)]

    # --- reports ------------------------------------------------------------------------------

    def report(self, *values: Any) -> None:
        """Tell the owner some values that JSON knows."""
        with (self.folder / f"{os.getpid()}.{_REPORTS}").open("ab") as stream:
            stream.write(json.dumps(values).encode() + b"\n")

    @contextmanager
    def passed_on(self, receive: Callable[..., None] | None) -> Iterator[None]:
        """Call `receive` with what the workers report, in a Python thread of its own, until the block ends."""
        if receive is None:
            yield
            return
        ended, places = threading.Event(), dict[Path, int]()

        def watch() -> None:
            last = False
            while not last:
                last = ended.wait(_LOOK)
                for values in self._new_reports(places):
                    receive(*values)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _new_reports(self, places: dict[Path, int]) -> Iterator[list[Any]]:
        for path in sorted(self.folder.glob(f"*.{_REPORTS}")):
            with path.open("rb") as stream:
                stream.seek(places.get(path, 0))
                whole, _, _ = stream.read().rpartition(b"\n")
            places[path] = places.get(path, 0) + len(whole) + bool(whole)
            yield from map(json.loads, whole.splitlines())

    # --- the end ------------------------------------------------------------------------------

    def ask_to_stop(self) -> None:
        """Ask all workers to stop after their current step."""
        (self.folder / _STOP).touch()

    def asked(self) -> bool:
        """Tell a worker whether it is to stop."""
        return os.path.exists(self.folder / _STOP)


@contextmanager
def in_worker(owner: int) -> Iterator[None]:
    """Let this process end when its owner is gone, and leave Ctrl-C and SIGTERM to the owner inside the block.

    Terminals and clusters send them to all processes; the owner asks for a stop.
    """
    if sys.platform != "win32" and _WATCH not in {thread.name for thread in threading.enumerate()}:
        threading.Thread(target=_end_with, args=(owner,), name=_WATCH, daemon=True).start()
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with(owner: int) -> None:
    """End this process, idle or not, soon after its owner was killed."""
    while os.getppid() == owner:
        time.sleep(_LOOK)
    os._exit(1)


@contextmanager
def recorded_warnings() -> Iterator[list[Record]]:
    """Give a list that the warnings of the block are in afterwards, to be sent and given by `warn_again`."""
    records: list[Record] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield records
    records += [(str(each.message), each.category, each.filename, each.lineno) for each in caught]


def warn_again(records: Iterable[Record], registry: dict[Any, Any]) -> None:
    """Give warnings of workers here, where filters decide on them; those in the registry were given before."""
    for message, category, file, line in records:
        warnings.warn_explicit(message, category, file, line, registry=registry)
