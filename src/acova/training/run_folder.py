"""Run folders: whole, locked while they are written, and checked when they are read. Nothing is unpickled.

A finished run is ``config.json``, ``model.safetensors``, ``labels.csv``, ``history.csv`` and, of data on disk, one
``.npy`` file per array. An unfinished fit is ``command.json`` (what was asked for) and the folder ``checkpoint``. One
folder may hold both: while a fit replaces a run, the finished run stays and can be used.

Who writes a folder ``run`` has its lock, ``.run.lock`` beside it. A new run is written to ``.run.new``, its
``config.json`` last. Then ``run`` becomes ``.run.old``, ``.run.new`` becomes ``run``, files that are not of this
library move along, and ``.run.old`` is deleted. A process may be killed at any moment: whoever looks for the run next
finishes these steps.

``config.json`` and ``command.json`` end with a checksum of themselves; ``config.json`` also has those of the model,
the history and the arrays. Arrays above 256 MB are checked by their size and by 256 blocks. ``labels.csv`` is for
people: it is not read back and may be edited.
"""

import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from safetensors.torch import save
from torch import Tensor

from acova.base import FileError, RunFolderError
from acova.base.files import file_digest, file_errors, parse_json, sealed_json, write_whole
from acova.base.locks import folder_lock
from acova.base.version import __version__

FORMAT = "acova run"
FORMAT_VERSION = 4
MODEL, CONFIG, LABELS, HISTORY = "model.safetensors", "config.json", "labels.csv", "history.csv"
COMMAND, CHECKPOINT, HEAD = "command.json", "checkpoint", "checkpoint.json"
COMMAND_FORMAT = "acova command"
_OF_RUN = re.compile(
    r"(model\.safetensors|(config|command)\.json|(labels|history)\.csv|report\.html|\..*\.part(\.\w+)?)"
)
_OF_CHECKPOINT = re.compile(r"(checkpoint\.json|(current(-\d+)?|run-\d+)\.safetensors|\..*\.part(\.\w+)?)")
"""Names of the files that this library writes, and may therefore delete."""
_LOG = logging.getLogger("acova")


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """What ``acova fit`` was asked for."""

    data: str
    preset: str | None
    missing: float
    pattern: str
    seed: int
    stream: bool
    drop: list[str]
    holes: str
    method: str
    settings: dict[str, Any]
    drop_sample: list[str] = []
    id_column: list[str] = []
    transpose: list[str] = []
    match_ids: str = "exactly"
    layer: str | None = None
    covariates: str | None = None


def save_run(
    folder: str | Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    labels: Iterable[pd.DataFrame],
    history: pd.DataFrame,
    arrays: Mapping[str, "np.memmap[Any, Any]"],
    *,
    overwrite: bool = False,
) -> None:
    """Write a run folder as a whole or not at all; `labels` come in pieces, mapped `arrays` are copied as files."""
    head = {"format": FORMAT, "format_version": FORMAT_VERSION, "acova_version": __version__}
    with new_folder(folder, overwrite=overwrite) as scratch:
        (scratch / MODEL).write_bytes(save({name: tensor.contiguous() for name, tensor in tensors.items()}))
        for number, piece in enumerate(labels):
            # Names of files that are no valid text come back as the bytes they were.
            piece.to_csv(scratch / LABELS, index_label="sample", mode="a", header=not number, errors="surrogateescape")
        for name, array in arrays.items():
            shutil.copyfile(str(array.filename), scratch / f"{name}.npy")
        history.to_csv(scratch / HISTORY, index=False, errors="surrogateescape")
        checked = [MODEL, HISTORY, *(f"{name}.npy" for name in arrays)]
        for name in (*checked, LABELS):
            _to_disk(scratch / name)
        digests = {name: file_digest(scratch / name) for name in checked}
        write_whole(scratch / CONFIG, sealed_json({**head, **config, "digests": digests}, default=plain))


def begin_run(folder: str | Path, command: Command) -> None:
    """Write what a fit that starts was asked for, in place of an earlier unfinished fit; a finished run stays."""
    folder = Path(folder)
    with file_errors(f"writing to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        remove_checkpoint(folder / CHECKPOINT)
    head = {"format": COMMAND_FORMAT, **msgspec.structs.asdict(command)}
    write_whole(folder / COMMAND, sealed_json(head, default=plain))


def abandon_run(folder: str | Path) -> None:
    """Forget an unfinished fit that failed before there was anything to go on from."""
    folder = Path(folder)
    if (folder / COMMAND).is_file() and not any((folder / CHECKPOINT).glob("*.safetensors")):
        with suppress(OSError):
            remove_checkpoint(folder / CHECKPOINT)
            (folder / COMMAND).unlink()
            folder.rmdir()


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a scratch folder that becomes `folder` when the block succeeds, and vanishes when it fails.

    An existing run is replaced only with `overwrite`; a folder that is no run never is.
    """
    with writing(folder) as target, file_errors(f"writing {target}"):
        check_free(target, overwrite=overwrite)
        scratch, old = scratch_of(target), aside_of(target)
        scratch.mkdir()
        try:
            yield scratch
            if target.exists():
                target.rename(old)
            scratch.rename(target)
        except BaseException:
            if old.exists() and not target.exists():
                old.rename(target)
            shutil.rmtree(scratch, ignore_errors=True)
            raise
        _clear(old, target)


@contextmanager
def writing(folder: str | Path) -> Iterator[Path]:
    """Keep a run folder for this process, finish what a killed process left, and give the folder's real path.

    Raises `RunFolderError` when another process writes to it and `FileError` when nobody could.
    """
    target = place_of(folder)
    with folder_lock(target):
        with file_errors(f"writing to {target}"):
            heal(target)
        yield target


def check_free(folder: str | Path, *, overwrite: bool) -> None:
    """Raise `RunFolderError` when a run must not be written to `folder`."""
    target = Path(folder)
    with file_errors(f"looking at {target}"):
        if not target.exists():
            return
        if not overwrite:
            unfinished = (target / COMMAND).is_file()
            way = f"go on with it (acova fit --resume {target})" if unfinished else "choose another folder"
            msg = f"{target} already exists; {way}, or replace it with overwrite=True (--force)."
            raise RunFolderError(msg)
        if not target.is_dir() or (any(target.iterdir()) and not _is_run(target)):
            msg = f"{target} exists and is not a run folder, so it is not replaced; choose another folder."
            raise RunFolderError(msg)


def _is_run(folder: Path) -> bool:
    """Whether a folder holds a run, or an unfinished fit: other programs have a config.json, too."""
    for name, words in ((CONFIG, FORMAT), (COMMAND, COMMAND_FORMAT), (COMMAND, '"settings"')):
        if (folder / name).is_file() and words.encode() in (folder / name).read_bytes():
            return True
    return False


def place_of(folder: str | Path) -> Path:
    """Return the real path of a run folder, links followed."""
    try:
        return Path(folder).resolve()
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: a loop of links
        msg = f"{folder!s} is no place for a run ({error}); choose another folder."
        raise RunFolderError(msg) from error


def scratch_of(target: Path) -> Path:
    """Return where a run is written before it is moved to its place."""
    return target.with_name(f".{target.name}.new")


def aside_of(target: Path) -> Path:
    """Return where a run lies while another takes its place."""
    return target.with_name(f".{target.name}.old")


def heal(target: Path) -> None:
    """Finish what a killed process left; the caller has the lock."""
    new, old = scratch_of(target), aside_of(target)
    whole = (new / CONFIG).is_file()  # which is written last
    if not target.exists() and whole:
        new.rename(target)
        _LOG.warning("%s: a process was killed after it had written this run; moved the run to its place.", target)
    elif not target.exists() and old.exists():
        old.rename(target)
        _LOG.warning("%s: a process was killed while it replaced this run; moved the old run back.", target)
    if old.exists():
        _clear(old, target)
    if new.exists():
        _remove_run(new, into=target if target.exists() else None)


def _clear(old: Path, target: Path) -> None:
    """Delete a run that was replaced; what others put into its folder moves to the new one."""
    if not old.exists():
        return
    try:
        _remove_run(old, into=target)
    except OSError as error:  # the new run is whole, which is what counts
        _LOG.warning("%s: the run that was replaced could not be deleted (%s); %s can go.", target, error, old)


def _remove_run(folder: Path, into: Path | None = None) -> None:
    """Delete what this library wrote to a run folder; move the rest elsewhere."""
    arrays = _array_names(folder)
    checkpoint = folder / CHECKPOINT
    remove_checkpoint(checkpoint, None if into is None else into / CHECKPOINT)
    _remove(folder, lambda name: name in arrays or _OF_RUN.fullmatch(name) is not None, into)


def remove_checkpoint(folder: Path, into: Path | None = None) -> None:
    """Delete the files of a checkpoint, and its folder if nothing else is in it."""
    if folder.is_dir() and not folder.is_symlink():
        _remove(folder, is_of_checkpoint, into)


def is_of_checkpoint(name: str) -> bool:
    """Tell whether checkpoints have files of this name."""
    return _OF_CHECKPOINT.fullmatch(name) is not None


def _remove(folder: Path, ours: Callable[[str], bool], into: Path | None) -> None:
    """Delete our files of a folder, move the others, and delete the folder if it is empty."""
    heads_last = sorted(folder.iterdir(), key=lambda path: (path.name == HEAD, path.name))
    for path in heads_last:  # a checkpoint without its head would be a folder of unknown files
        if ours(path.name) and not path.is_dir():
            path.unlink()
        elif into is not None and not (into / path.name).exists():
            into.mkdir(exist_ok=True)
            path.rename(into / path.name)
    if not any(folder.iterdir()):
        folder.rmdir()


def _array_names(folder: Path) -> set[str]:
    """Return the names of a run's arrays on disk."""
    try:
        names = parse_json((folder / CONFIG).read_bytes(), dict[str, Any], "").get("on_disk")
    except (OSError, FileError):
        return set()
    return {f"{name}.npy" for name in names} if isinstance(names, list) else set()


def _to_disk(path: Path) -> None:
    if path.exists():
        with path.open("rb+") as stream:
            os.fsync(stream.fileno())


def plain(value: Any) -> Any:
    """Turn numpy values into what JSON knows, and anything else into its text."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
