"""Checkpoints: the whole state of training in one file, replaced as a whole; and a stop that loses nothing."""

import hashlib
import json
import logging
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NoReturn

import msgspec
import torch
from msgspec import Meta
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from acova.base import RunFolderError
from acova.base.files import parse_json, write_whole
from acova.engine.distributed import ALONE, Processes

_LOG = logging.getLogger("acova")
Count = Annotated[int, Meta(ge=0)]


class Terminated(SystemExit):
    """Ends a process as SIGTERM does, after the state of training was written."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


class Interrupted(BaseException):
    """Ends training in a worker process, after its state was written, because another process asked for it."""


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

    @classmethod
    def of_finished_run(cls, records: list[dict[str, Any]], tensors: dict[str, Tensor]) -> "State":
        """Return what is kept of one run that is done: its records and its network's tensors."""
        return cls(
            phase="done",
            epoch=0,
            step=0,
            records=[records],
            best=[],
            best_epoch=[],
            stopped=[],
            aside={},
            tensors=tensors,
        )


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
    asked : callable, optional
        Tells whether another process asks for a stop, which then ends training by `Interrupted`.

    Attributes
    ----------
    resumed : State or None
        What training goes on from.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        every: int = 1,
        processes: Processes = ALONE,
        runs: list[int] | None = None,
        asked: Callable[[], bool] | None = None,
    ) -> None:
        self._path, self._every, self._processes = path, every, processes
        self._runs, self._asked = runs or [], asked
        self._since = self._signal = 0
        self.resumed: State | None = None

    @property
    def stop_requested(self) -> bool:
        """Tell whether a signal asked for a stop inside `interruptible`, or another process did."""
        return bool(self._signal) or (self._asked is not None and self._asked())

    def keep(self, state: Callable[[], State]) -> None:
        """Note the end of an epoch; write the state when it is time."""
        self._since += 1
        if self._since >= self._every:
            self._since = 0
            self._write(state)

    def stop(self, state: State) -> None:
        """Write the state and end training as `end` does."""
        self._write(lambda: state)
        if self._asked is not None:  # by a process that says so itself
            raise Interrupted
        self.end(f"stopped in epoch {state.epoch + 1} of phase {state.phase!r}")

    def end(self, at: str) -> NoReturn:
        """End training as the signal does: `KeyboardInterrupt`, or `Terminated` (exit code 143)."""
        where = self._path.parent if self._path else None
        msg = f"{at}; the state is kept: fit again with the same settings and checkpoint={str(where)!r} to go on."
        if self._signal == signal.SIGTERM:
            _LOG.warning("%s", msg)
            raise Terminated
        raise KeyboardInterrupt(msg)

    def check_resumed(self, expected: Mapping[str, Tensor], epochs: int, runs: int) -> None:
        """Raise `RunFolderError` unless the state to go on from has these tensors, and no more epochs than a phase."""
        state = self.resumed
        if state is None:
            return
        wrong = [
            name
            for name, tensor in expected.items()
            if name not in state.tensors
            or (state.tensors[name].shape, state.tensors[name].dtype) != (tensor.shape, tensor.dtype)
        ]
        lengths = {len(state.records), len(state.best), len(state.best_epoch), len(state.stopped)}
        if wrong or lengths != {runs} or state.epoch > epochs:
            what = f"its tensor {wrong[0]!r} is missing or has another shape" if wrong else "its numbers do not agree"
            msg = f"{self._path} is not a state of this fit: {what}. Delete its folder to start afresh."
            raise RunFolderError(msg)

    def _write(self, state: Callable[[], State]) -> None:
        if self._path is not None and self._processes.is_first:
            write_state(self._path, state(), self._runs)

    @contextmanager
    def interruptible(self, also: Callable[[], object] = lambda: None) -> Iterator[None]:
        """Let a first Ctrl-C or SIGTERM in the block only ask for a stop after the current step; a second acts at once.

        The first one also calls `also`, which may pass the request on to other processes.

        Signals stay as they are where nothing is kept, outside the main thread, and with several processes, which
        would stop after different steps: those go on from the last checkpoint.
        """
        main = threading.current_thread() is threading.main_thread()
        if self._path is None or self._processes.size > 1 or not main:
            yield
            return
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

        def ask(number: int, frame: Any) -> None:
            self._signal = number
            put_back()
            also()

        def put_back() -> None:
            for number, handler in before.items():
                signal.signal(number, handler)

        for number in before:
            signal.signal(number, ask)
        try:
            yield
        finally:
            put_back()


class _Head(msgspec.Struct, frozen=True):
    """What a state file says besides its tensors."""

    phase: str
    epoch: Count
    step: Count
    records: list[list[dict[str, Any]]]
    best: list[float]
    best_epoch: list[int]
    stopped: list[int | None]
    runs: list[Count]


def write_state(path: Path, state: State, runs: list[int]) -> None:
    """Write a state to a file with a checksum, as a whole or not at all."""
    head = {name: value for name, value in vars(state).items() if name not in ("tensors", "aside")}
    text = json.dumps({**head, "runs": runs})
    tensors = {name: tensor.detach().contiguous().cpu() for name, tensor in {**state.tensors, **state.aside}.items()}
    write_whole(path, save(tensors, {"state": text, "checksum": _checksum(text, tensors)}))


def read_state(path: Path) -> tuple[State, list[int]]:
    """Read what `write_state` wrote: the state and the numbers of its runs."""
    try:
        content = path.read_bytes()
        tensors, metadata = load(content), _metadata(content)
        if metadata["checksum"] != _checksum(metadata["state"], tensors):
            msg = "its content does not match its checksum"
            raise ValueError(msg)
        head = parse_json(metadata["state"], _Head, "its head")
        if len(set(head.runs)) < len(head.runs):
            msg = f"it is of the runs {head.runs}"
            raise ValueError(msg)
    except (SafetensorError, OSError, LookupError, TypeError, ValueError, RecursionError) as error:
        msg = f"{path} is no checkpoint of acova, or is damaged ({error}). Delete its folder to start afresh."
        raise RunFolderError(msg) from error
    fields = {name: getattr(head, name) for name in _Head.__struct_fields__ if name != "runs"}
    return State(**fields, aside={}, tensors=tensors), head.runs


def _metadata(content: bytes) -> dict[str, str]:
    """Return the texts in the header of a safetensors file, which begins with the header's length in 8 bytes."""
    header = parse_json(content[8 : 8 + int.from_bytes(content[:8], "little")], dict[str, Any], "its header")
    return msgspec.convert(header["__metadata__"], dict[str, str])


def _checksum(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a checksum of a state's head, and of the names, shapes, types and bytes of its tensors."""
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for name, tensor in sorted(tensors.items()):
        digest.update(repr((name, tensor.dtype, tuple(tensor.shape))).encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
