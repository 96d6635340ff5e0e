"""A run folder: ``model.safetensors``, ``config.json``, ``labels.csv``, ``history.csv``. Nothing is unpickled."""

import json
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from acova.base import RunFolderError
from acova.base.version import __version__

FORMAT = "acova run"
FORMAT_VERSION = 3
_MODEL, _CONFIG, _LABELS, _HISTORY = "model.safetensors", "config.json", "labels.csv", "history.csv"
_COMMAND = "command.json"
"""What a fit was asked for; the run folder holds it, and checkpoints, until the fit is done."""


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
        (scratch / _MODEL).write_bytes(save({name: tensor.contiguous() for name, tensor in tensors.items()}))
        (scratch / _CONFIG).write_text(json.dumps({**head, **config}, indent=2, default=_plain) + "\n")
        for number, piece in enumerate(labels):
            piece.to_csv(scratch / _LABELS, index_label="sample", mode="a", header=not number)
        for name, array in arrays.items():
            shutil.copyfile(str(array.filename), scratch / f"{name}.npy")
        history.to_csv(scratch / _HISTORY, index=False)


def begin_run(folder: str | Path, command: Mapping[str, Any], *, overwrite: bool) -> None:
    """Make the folder of a fit that starts."""
    with new_folder(folder, overwrite=overwrite) as scratch:
        (scratch / _COMMAND).write_text(json.dumps(command, indent=2, default=_plain) + "\n")


def abandon_run(folder: str | Path) -> None:
    """Delete the folder of a fit that failed before there was anything to go on from."""
    folder = Path(folder)
    if (folder / _COMMAND).is_file() and not any(folder.rglob("*.safetensors")):
        shutil.rmtree(folder)


def begun_run(folder: str | Path) -> dict[str, Any]:
    """Return what the unfinished fit in a folder was asked for."""
    folder = Path(folder)
    if (folder / _CONFIG).is_file():
        msg = f"{folder} holds a finished run; there is nothing to resume. 'acova predict' and ACOVA.load use it."
        raise RunFolderError(msg)
    try:
        return dict(json.loads((folder / _COMMAND).read_text()))
    except FileNotFoundError:
        msg = f"{folder} holds no interrupted fit; give the folder that 'acova fit --out' was writing to."
        raise RunFolderError(msg) from None
    except ValueError as error:
        raise _damaged(folder / _COMMAND, error) from error


def load_run(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor], pd.DataFrame]:
    """Read the config, the tensors and the history of a run folder."""
    folder = Path(folder)
    if not (folder / _CONFIG).is_file() and (folder / _COMMAND).is_file():
        msg = f"{folder} holds an unfinished fit; go on with it: acova fit --resume {folder}"
        raise RunFolderError(msg)
    if not (folder / _CONFIG).is_file():
        msg = f"{folder} is no run folder: it has no {_CONFIG}. Give the folder that save() or 'acova fit --out' wrote."
        raise RunFolderError(msg)
    try:
        config = json.loads((folder / _CONFIG).read_text())
    except ValueError as error:
        raise _damaged(folder / _CONFIG, error) from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        msg = f"{folder / _CONFIG} was not written by acova; give a folder that save() or 'acova fit --out' wrote."
        raise RunFolderError(msg)
    if config.get("format_version") != FORMAT_VERSION:
        msg = (
            f"{folder} has run format {config.get('format_version')}, written by acova {config.get('acova_version')}; "
            f"this is acova {__version__}, which reads format {FORMAT_VERSION}. Install a matching version."
        )
        raise RunFolderError(msg)
    try:
        tensors = load_file(folder / _MODEL)
    except (SafetensorError, OSError) as error:
        raise _damaged(folder / _MODEL, error) from error
    try:
        history = pd.read_csv(folder / _HISTORY)
    except (ValueError, OSError) as error:
        raise _damaged(folder / _HISTORY, error) from error
    return config, tensors, history


@contextmanager
def new_folder(folder: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Give a scratch folder that becomes `folder` when the block succeeds, and vanishes when it fails.

    An existing run is replaced only with `overwrite`; a folder that is no run never is.
    """
    target = Path(folder).absolute()
    check_free(target, overwrite=overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}")
    scratch.mkdir()
    try:
        yield scratch
    except BaseException:
        shutil.rmtree(scratch)
        raise
    if target.exists():
        old = scratch.with_name(scratch.name + ".old")
        target.rename(old)
        scratch.rename(target)
        shutil.rmtree(old)
    else:
        scratch.rename(target)


def check_free(folder: str | Path, *, overwrite: bool) -> None:
    """Raise `RunFolderError` when a run must not be written to `folder`."""
    target = Path(folder)
    if not target.exists():
        return
    if not overwrite:
        unfinished = (target / _COMMAND).is_file() and not (target / _CONFIG).is_file()
        way = f"go on with it (acova fit --resume {target})" if unfinished else "choose another folder"
        msg = f"{target} already exists; {way}, or replace it with overwrite=True (--force)."
        raise RunFolderError(msg)
    ours = (target / _CONFIG).is_file() or (target / _COMMAND).is_file()
    if not target.is_dir() or (any(target.iterdir()) and not ours):
        msg = f"{target} exists and is not a run folder, so it is not replaced; choose another folder."
        raise RunFolderError(msg)


def _damaged(path: Path, error: Exception) -> RunFolderError:
    return RunFolderError(f"{path} is missing, truncated or damaged ({error}). Fit again, or restore the file.")


def _plain(value: Any) -> Any:
    """Turn numpy values into what JSON knows, and anything else into its text."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return str(value)
