"""A checkpoint folder: what a fit needs to go on after it was killed.

``checkpoint.json`` says of what (settings, seed, data); ``run-N.safetensors`` is a finished run;
``current-N.safetensors`` is the state of a run that trains now, ``current.safetensors`` that of several that train as
one computation. Files are replaced as a whole and carry checksums; nothing is unpickled. Only these files are ever
deleted, and the folder when nothing else is in it.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import msgspec
import numpy as np

from acova.base import FileError, RunFolderError
from acova.base.files import check_seal, file_errors, parse_json, sealed_json, write_whole
from acova.base.locks import folder_lock
from acova.base.version import __version__
from acova.data import StoredViews, Views
from acova.engine.distributed import ALONE, Processes
from acova.engine.state import Keeper, State, read_state, write_state
from acova.networks.base import ClusteringNetwork
from acova.training.reading import load_weights
from acova.training.run_folder import HEAD, is_of_checkpoint, remove_checkpoint

FORMAT = "acova checkpoint"
FORMAT_VERSION = 3
_TOGETHER, _ALONE = "current.safetensors", re.compile(r"current-(\d+)\.safetensors")


class _Head(msgspec.Struct, frozen=True):
    """What ``checkpoint.json`` says."""

    format: Literal["acova checkpoint"]
    format_version: int
    params: dict[str, Any]
    seed: int | list[int]
    data: str | list[str]
    acova_version: str


class Checkpoint:
    """The checkpoints of one fit; as a context, it keeps other processes from writing to the folder.

    Parameters
    ----------
    folder : str or Path
    every : int
        Epochs between checkpoints.
    processes : Processes
        The first of them writes.
    """

    def __init__(self, folder: str | Path, every: int, processes: Processes = ALONE) -> None:
        self.folder, self._every, self._processes = Path(folder), every, processes
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._processes.first_does(lambda: self._held.enter_context(folder_lock(self.folder.absolute())))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def seed(self) -> int | None:
        """Return the seed of the fit that was interrupted here, None if there is none."""
        head = self._head()
        return head.seed if head is not None and isinstance(head.seed, int) else None

    def open(self, identity: Mapping[str, Any]) -> None:
        """Start the folder, or make sure that what it holds is of the same fit."""
        self._processes.first_does(lambda: self._open(identity))

    def _open(self, identity: Mapping[str, Any]) -> None:
        identity = json.loads(json.dumps(identity, default=str))
        head = self._head()
        if head is None:
            self._start(identity)
            return
        content = msgspec.structs.asdict(head)
        other = [name for name in identity if content.get(name) != identity[name]]
        if other:
            changed = _differences(head.params, identity["params"]) if "params" in other else other
            msg = (
                f"checkpoint={str(self.folder)!r} holds another fit: {', '.join(changed)} differ. Go on with the same "
                "settings and data, choose another folder, or delete this one to start afresh."
            )
            raise RunFolderError(msg)

    def _start(self, identity: Mapping[str, Any]) -> None:
        """Write the head, where a write that failed or was killed may have left its part."""
        with file_errors(f"writing to {self.folder}"):
            if self.folder.is_dir():
                names = {path.name for path in self.folder.iterdir()}
                if not all(is_of_checkpoint(name) and name.startswith(".") for name in names):
                    msg = (
                        f"checkpoint={str(self.folder)!r} is a folder with other files in it; choose an empty or new "
                        "one."
                    )
                    raise RunFolderError(msg)
            self.folder.mkdir(parents=True, exist_ok=True)
        head = {"format": FORMAT, "format_version": FORMAT_VERSION, **identity, "acova_version": __version__}
        try:
            write_whole(self.folder / HEAD, sealed_json(head))
        except FileError:
            with suppress(OSError):
                self.folder.rmdir()
            raise

    def unlocked(self) -> "Checkpoint":
        """Return a copy for a worker process, which writes while this process has the lock."""
        return Checkpoint(self.folder.absolute(), self._every)

    def keeper(self, runs: Sequence[int], asked: Callable[[], bool] | None = None) -> Keeper:
        """Return what writes the state of these runs, with the state to go on from if there is one.

        `asked` tells whether another process asks for a stop.
        """
        path = self._state_file(runs)
        keeper = Keeper(path, every=self._every, processes=self._processes, runs=list(runs), asked=asked)
        for candidate in (path, self.folder / _TOGETHER):
            if keeper.resumed is None and candidate.exists():
                state, numbers = read_state(candidate)
                keeper.resumed = state if numbers == list(runs) else None
        return keeper

    def watcher(self) -> Keeper:
        """Return what takes the signals while runs train in other processes."""
        return Keeper(self.folder / _TOGETHER)

    def begun(self) -> list[list[int]]:
        """Return the numbers of the runs that were training: several are of one computation."""
        path = self.folder / _TOGETHER
        together = [read_state(path)[1]] if path.exists() else []
        # Not read: another process may be about to delete that of a finished run.
        alone = [_ALONE.fullmatch(path.name) for path in sorted(self.folder.glob("current-*"))]
        return together + [[int(found[1])] for found in alone if found]

    def forget(self, runs: Sequence[int]) -> None:
        """Delete the state of runs that were training together."""
        self._processes.first_does(lambda: self._forget(runs))

    def _forget(self, runs: Sequence[int]) -> None:
        path = self._state_file(runs)
        with file_errors(f"deleting {path}"):
            path.unlink(missing_ok=True)

    def _state_file(self, runs: Sequence[int]) -> Path:
        return self.folder / (f"current-{runs[0]}.safetensors" if len(runs) == 1 else _TOGETHER)

    def finish(self, run: int, network: ClusteringNetwork, records: list[dict[str, Any]]) -> None:
        """Write a finished run, and delete its state."""
        if self._processes.is_first:
            state = State.of_finished_run(records, dict(network.state_dict()))
            write_state(self.folder / f"run-{run}.safetensors", state, [run])
            self._forget([run])

    def finished(self, run: int, network: ClusteringNetwork) -> list[dict[str, Any]] | None:
        """Read a finished run into a network and return its records; None if it is not finished."""
        path = self.folder / f"run-{run}.safetensors"
        if not path.exists():
            return None
        state, runs = read_state(path)
        try:
            if runs != [run] or len(state.records) != 1:
                msg = f"it is of the runs {runs}"
                raise RunFolderError(msg)
            load_weights(network, state.tensors)
        except RunFolderError as error:
            msg = f"{path} is not run {run} of this fit ({error}). Delete it, and the fit trains this run again."
            raise RunFolderError(msg) from error
        return state.records[0]

    def remove(self) -> None:
        """Delete the checkpoints, and their folder if nothing else is in it: the fit is complete."""
        self._processes.first_does(self._remove)

    def _remove(self) -> None:
        with file_errors(f"deleting the checkpoints in {self.folder}"):
            remove_checkpoint(self.folder)

    def _head(self) -> _Head | None:
        path = self.folder / HEAD
        with file_errors(f"reading {path}"):
            if not path.is_file():
                return None
            content = path.read_bytes()
        try:
            entries = parse_json(content, dict[str, Any], str(path))
            if entries.get("format") != FORMAT or entries.get("format_version") != FORMAT_VERSION:
                msg = f"{path} is no checkpoint this version of acova ({__version__}) reads; choose another folder."
                raise RunFolderError(msg)
            check_seal(entries, str(path))
            return msgspec.convert(entries, _Head)
        except RunFolderError:
            raise
        except (FileError, msgspec.ValidationError, RecursionError) as error:
            msg = f"{path} is damaged ({error}). Delete its folder to start afresh."
            raise RunFolderError(msg) from error


def _differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
    return [f"{name} ({first.get(name)!r} there, {second.get(name)!r} now)" for name in names]


def fingerprint(views: Views | StoredViews) -> str:
    """Return a short text that changes with the data: of views on disk, with their shapes and a few blocks."""
    digest = hashlib.sha256(repr((views.names, views.sizes, views.n_samples)).encode())
    count = views.n_samples
    parts = [views] if isinstance(views, Views) else [views.read(at, min(at + 64, count)) for at in (0, count // 2)]
    for part in parts:
        digest.update(np.packbits(part.observed).tobytes())
        for array in part.arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
        if part.covariates is not None:
            digest.update(part.covariates.to_csv().encode())
    return digest.hexdigest()[:16]
