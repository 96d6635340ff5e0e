"""A checkpoint folder: what a fit needs to go on after it was killed.

``checkpoint.json`` says of what (settings, seed, data); ``run-N.safetensors`` is a finished run;
``current.safetensors`` is the state of the runs that train now. Files are replaced as a whole; nothing is unpickled.
"""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acova.base import RunFolderError
from acova.base.version import __version__
from acova.data import StoredViews, Views
from acova.engine import ALONE, Keeper, Processes, read_state, write_whole
from acova.engine.keeper import State, write_state
from acova.networks import MultiViewVAE

FORMAT = "acova checkpoint"
FORMAT_VERSION = 2
_HEAD, _CURRENT = "checkpoint.json", "current.safetensors"


class Checkpoint:
    """The checkpoints of one fit.

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

    def seed(self) -> int | None:
        """Return the seed of the fit that was interrupted here, None if there is none."""
        told = self._told()
        return None if told is None else int(told["seed"])

    def open(self, identity: Mapping[str, Any]) -> None:
        """Start the folder, or make sure that what it holds is of the same fit."""
        self._processes.first_does(lambda: self._open(identity))

    def _open(self, identity: Mapping[str, Any]) -> None:
        identity = json.loads(json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, **identity}, default=str))
        told = self._told()
        if told is None:
            if self.folder.is_dir() and any(self.folder.iterdir()):
                msg = f"checkpoint={str(self.folder)!r} is a folder with other files in it; choose an empty or new one."
                raise RunFolderError(msg)
            self.folder.mkdir(parents=True, exist_ok=True)
            head = {**identity, "acova_version": __version__}
            write_whole(self.folder / _HEAD, (json.dumps(head, indent=2) + "\n").encode())
            return
        other = [name for name in identity if told.get(name) != identity[name]]
        if other:
            changed = _differences(told.get("params", {}), identity.get("params", {})) if "params" in other else other
            msg = (
                f"checkpoint={str(self.folder)!r} holds another fit: {', '.join(changed)} differ. Go on with the same "
                "settings and data, choose another folder, or delete this one to start afresh."
            )
            raise RunFolderError(msg)

    def keeper(self, runs: Sequence[int]) -> Keeper:
        """Return what writes the state of these runs, with the state to go on from if there is one."""
        keeper = Keeper(self.folder / _CURRENT, every=self._every, processes=self._processes, runs=list(runs))
        if (self.folder / _CURRENT).exists():
            state, held = read_state(self.folder / _CURRENT)
            if held == list(runs):
                keeper.resumed = state
        return keeper

    def begun(self) -> list[int]:
        """Return the numbers of the runs that were training together."""
        return read_state(self.folder / _CURRENT)[1] if (self.folder / _CURRENT).exists() else []

    def forget_current(self) -> None:
        """Delete the state of the runs that were training together."""
        self._processes.first_does(lambda: (self.folder / _CURRENT).unlink(missing_ok=True))

    def finish(self, run: int, network: MultiViewVAE, records: list[dict[str, Any]]) -> None:
        """Write a finished run."""
        if self._processes.is_first:
            state = State("done", 0, 0, [records], [], [], [], {}, dict(network.state_dict()))
            write_state(self.folder / f"run-{run}.safetensors", state, [run])

    def finished(self, run: int, network: MultiViewVAE) -> list[dict[str, Any]] | None:
        """Read a finished run into a network and return its records; None if it is not finished."""
        path = self.folder / f"run-{run}.safetensors"
        if not path.exists():
            return None
        state, _ = read_state(path)
        network.load_state_dict(state.tensors)
        return state.records[0]

    def remove(self) -> None:
        """Delete the folder: the fit is complete."""
        self._processes.first_does(lambda: shutil.rmtree(self.folder))

    def _told(self) -> dict[str, Any] | None:
        path = self.folder / _HEAD
        if not path.is_file():
            return None
        try:
            told = json.loads(path.read_text())
        except ValueError as error:
            msg = f"{path} is damaged ({error}). Delete its folder to start afresh."
            raise RunFolderError(msg) from error
        if told.get("format") != FORMAT or told.get("format_version") != FORMAT_VERSION:
            msg = f"{path} is no checkpoint this version of acova ({__version__}) reads; choose another folder."
            raise RunFolderError(msg)
        return dict(told)


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
    return digest.hexdigest()[:16]
