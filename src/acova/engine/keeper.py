"""Checkpoints: the whole state of training in one file, replaced as a whole; and a stop that loses nothing."""

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from acova.base import RunFolderError
from acova.engine.processes import ALONE, Processes


@dataclass
class State:
    """Where runs that train together are: inside which phase, after which step, with what.

    Attributes
    ----------
    phase : str
    epoch, step : int
        Epochs done, and steps done of the next one.
    records : list of R lists of dict
    best, best_epoch, stopped : lists of R
        What early stopping remembers.
    tensors : dict of str to Tensor
        Parameters, Adam's moments, learning rates, running sums; parameters of runs that stopped.
    """

    phase: str
    epoch: int
    step: int
    records: list[list[dict[str, Any]]]
    best: list[float]
    best_epoch: list[int]
    stopped: list[int | None]
    aside: dict[str, Tensor]
    tensors: dict[str, Tensor]


class Keeper:
    """Keeps the state of training in a file, every so many epochs and when asked to stop.

    Parameters
    ----------
    path : Path, optional
        None keeps nothing.
    every : int
        Epochs between checkpoints.
    processes : Processes
        The first of them writes.
    runs : sequence of int
        Numbers of the runs that train together, written down with the state.

    Attributes
    ----------
    resumed : State or None
        What training goes on from.
    stop_requested : bool
        Set by an interrupt inside `interruptible`.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        every: int = 1,
        processes: Processes = ALONE,
        runs: list[int] | None = None,
    ) -> None:
        self._path, self._every, self._processes = path, every, processes
        self._runs = runs or []
        self._since = 0
        self.resumed: State | None = None
        self.stop_requested = False

    def keep(self, state: Callable[[], State]) -> None:
        """Note the end of an epoch; write the state when it is time."""
        self._since += 1
        if self._since >= self._every:
            self._since = 0
            self._write(state)

    def stop(self, state: State) -> None:
        """Write the state and end training as an interrupt does."""
        self._write(lambda: state)
        where = self._path.parent if self._path else None
        at = f"stopped in epoch {state.epoch + 1} of phase {state.phase!r}"
        msg = f"{at}; the state is kept: fit again with the same settings and checkpoint={str(where)!r} to go on."
        raise KeyboardInterrupt(msg)

    def _write(self, state: Callable[[], State]) -> None:
        if self._path is not None and self._processes.is_first:
            write_state(self._path, state(), self._runs)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a first Ctrl-C inside the block only ask for a stop after the current step; a second one acts at once.

        Interrupts stay as they are where nothing is kept, outside the main thread, and with several processes, which
        would stop after different steps: those go on from the last checkpoint.
        """
        main = threading.current_thread() is threading.main_thread()
        if self._path is None or self._processes.size > 1 or not main:
            yield
            return
        before = signal.getsignal(signal.SIGINT)

        def ask(number: int, frame: Any) -> None:
            self.stop_requested = True
            signal.signal(signal.SIGINT, before)

        signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def write_state(path: Path, state: State, runs: list[int]) -> None:
    """Write a state to a file, as a whole or not at all."""
    told = {name: value for name, value in vars(state).items() if name not in ("tensors", "aside")}
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in {**state.tensors, **state.aside}.items()}
    write_whole(path, save(tensors, {"state": json.dumps({**told, "runs": runs})}))


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, make sure it is on disk, and move it there."""
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as stream:
        stream.write(content)
        stream.flush()
        os.fsync(stream.fileno())
    part.replace(path)


def read_state(path: Path) -> tuple[State, list[int]]:
    """Read what `write_state` wrote: the state and the numbers of its runs."""
    try:
        with safe_open(path, framework="pt") as file:
            told: Mapping[str, Any] = json.loads((file.metadata() or {})["state"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        fields = {name: value for name, value in told.items() if name != "runs"}
        return State(**fields, aside={}, tensors=tensors), list(told["runs"])
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        msg = f"{path} is no checkpoint of acova, or is damaged ({error}). Delete its folder to start afresh."
        raise RunFolderError(msg) from error
