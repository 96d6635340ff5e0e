"""What is read of run folders, and how it is checked."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from acova.base import FileError, RunFolderError
from acova.base.files import check_seal, file_digest, file_errors, parse_json
from acova.base.locks import folder_lock
from acova.base.version import __version__
from acova.data.covariates import Covariates
from acova.training.run_folder import (
    COMMAND,
    CONFIG,
    FORMAT,
    FORMAT_VERSION,
    HISTORY,
    MODEL,
    Command,
    aside_of,
    heal,
    place_of,
    scratch_of,
)

_UNSEALED = 3
"""The format before checksums, which is still read."""
_WAIT = 2.0
"""Seconds that a reader waits for a run that is just being moved to its place."""
T = TypeVar("T")


class _SealedCommand(Command, frozen=True, kw_only=True):
    format: Literal["acova command"]
    checksum: str


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of ``config.json`` that every model has; `rest` is the whole object, also with what methods add."""

    format_version: int
    acova_version: str
    estimator: str
    params: dict[str, Any]
    fitted: dict[str, Any]
    index: Any
    unit_rows: list[bool] | None = None
    limits: list[Annotated[float, msgspec.Meta(gt=0)] | None] = []
    totals: list[float] | None = None
    covariates: Covariates | None = None
    row_lengths: list[float] = []
    categories: dict[str, dict[str, list[str]]] = {}
    feature_names: list[str] | None = None
    on_disk: list[str] = []
    resolved: dict[str, Any] = {}
    reference: int = 0
    digests: dict[str, str] = {}
    rest: dict[str, Any] = {}


def begun_run(folder: str | Path) -> Command:
    """Return what the unfinished fit in a folder was asked for."""
    folder = _looked_for(folder)
    if not (folder / COMMAND).is_file():
        if (folder / CONFIG).is_file():
            msg = f"{folder} holds a finished run; there is nothing to resume. 'acova predict' and ACOVA.load use it."
        else:
            msg = f"{folder} holds no interrupted fit; give the folder that 'acova fit --out' was writing to."
        raise RunFolderError(msg)
    way = "Start again with the options of that fit and --force."
    with _run_errors(way):
        content = _read(folder / COMMAND)
        command = _converted(content, _SealedCommand, folder / COMMAND)
        check_seal(content, str(folder / COMMAND))
    return Command(**{name: getattr(command, name) for name in Command.__struct_fields__})


def read_config(folder: str | Path) -> Config:
    """Read and check the config of a finished run."""
    folder = _looked_for(folder)
    path = folder / CONFIG
    if not path.is_file() and (folder / COMMAND).is_file():
        msg = f"{folder} holds an unfinished fit; go on with it: acova fit --resume {folder}"
        raise RunFolderError(msg)
    if not path.is_file():
        msg = f"{folder} is no run folder: it has no {CONFIG}. Give the folder that save() or 'acova fit --out' wrote."
        raise RunFolderError(msg)
    with _run_errors("Fit again, or restore the file."):
        content = _read(path)
        if content.get("format") != FORMAT:
            msg = f"{path} was not written by acova; give a folder that save() or 'acova fit --out' wrote."
            raise RunFolderError(msg)
        version = content.get("format_version")
        if version not in (FORMAT_VERSION, _UNSEALED):
            msg = (
                f"{folder} has run format {version}, written by acova {content.get('acova_version')}; this is acova "
                f"{__version__}, which reads formats {_UNSEALED} and {FORMAT_VERSION}. Install a matching version."
            )
            raise RunFolderError(msg)
        if version == FORMAT_VERSION:
            check_seal(content, str(path))
        return _converted({**content, "rest": content}, Config, path)


def load_run(folder: str | Path) -> tuple[Config, dict[str, Tensor], pd.DataFrame]:
    """Read the config, the tensors and the history of a run folder."""
    for _ in range(3):
        config = read_config(folder)
        try:
            return config, *_contents(place_of(folder), config)
        except RunFolderError:
            if read_config(folder).rest.get("checksum") == config.rest.get("checksum"):
                raise
            # The run was replaced by another one while it was read.
    msg = f"{folder} is replaced again and again while it is read; load it when that is done."
    raise RunFolderError(msg)


def _contents(folder: Path, config: Config) -> tuple[dict[str, Tensor], pd.DataFrame]:
    for name in (MODEL, HISTORY, *(f"{array}.npy" for array in config.on_disk)):
        _check_digest(folder / name, config)
    try:
        tensors = load((folder / MODEL).read_bytes())  # the library's load_file wants a path that is text
    except (SafetensorError, OSError, ValueError) as error:
        raise _damaged(folder / MODEL, error) from error
    try:
        return tensors, _read_history(folder / HISTORY)
    except (ValueError, OSError) as error:
        raise _damaged(folder / HISTORY, error) from error


def _check_digest(path: Path, config: Config) -> None:
    if config.format_version == _UNSEALED:
        return
    try:
        digest = file_digest(path)
    except OSError as error:
        raise _damaged(path, error) from error
    if config.digests.get(path.name) != digest:
        raise _damaged(path, f"its content does not match its checksum in {CONFIG}")


def load_array(folder: str | Path, name: str) -> "np.memmap[Any, Any]":
    """Map an array that a run keeps on disk."""
    path = place_of(folder) / f"{name}.npy"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise _damaged(path, error) from error
    return array  # type: ignore[no-any-return]


def array_of(tensors: Mapping[str, Tensor], name: str, shape: tuple[int, ...], kind: str = "f") -> NDArray[Any]:
    """Return a tensor as an array of a shape (-1: any size) and a kind of numbers, or raise `RunFolderError`."""
    if name not in tensors:
        msg = f"the tensor {name!r} is missing"
        raise RunFolderError(msg)
    return checked_array(name, tensors[name].numpy(), shape, kind)


def checked_array(name: str, array: NDArray[Any], shape: tuple[int, ...], kind: str = "f") -> NDArray[Any]:
    """Return an array that has a shape (-1: any size) and a kind of numbers, or raise `RunFolderError`."""
    fits = array.ndim == len(shape) and all(want in (-1, have) for want, have in zip(shape, array.shape, strict=True))
    if not fits or array.dtype.kind != kind:
        msg = f"{name!r} has the shape {array.shape} and the type {array.dtype}, not {shape} and {kind!r}"
        raise RunFolderError(msg)
    return array


def load_weights(network: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Give a network its weights, or raise `RunFolderError` where one has another shape or type than it should.

    Tensors that are empty in a fresh network hold training samples; there may be any number of these.
    """
    own: dict[str, Tensor] = network.state_dict()
    samples: dict[str, int] = {}
    for name, value in weights.items():
        want = own.get(name)
        if want is None:
            msg = f"the network has no tensor {name!r}"
            raise RunFolderError(msg)
        any_length = want.ndim > 0 and value.ndim > 0 and not len(want)
        fits = want.shape[1:] == value.shape[1:] if any_length else want.shape == value.shape
        if any_length:
            module = name.rpartition(".")[0]
            fits = fits and samples.setdefault(module, len(value)) == len(value)
        if not fits or want.dtype != value.dtype:
            msg = f"the network's {name!r} is {tuple(value.shape)} {value.dtype}, not {tuple(want.shape)} {want.dtype}"
            raise RunFolderError(msg)
    missing = own.keys() - weights.keys()
    if missing:
        msg = f"the network's {min(missing)!r} is missing"
        raise RunFolderError(msg)
    network.load_state_dict(dict(weights))


def _read_history(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, encoding_errors="surrogateescape", float_precision="round_trip", converters={"phase": str})


def _looked_for(folder: str | Path) -> Path:
    """Return the real path of a run, after finishing what a killed process left of it."""
    target = place_of(folder)
    with file_errors(f"reading {target}"):
        found = any((target / name).is_file() for name in (CONFIG, COMMAND))
        if not found and (scratch_of(target).is_dir() or aside_of(target).is_dir()):
            with folder_lock(target, wait=_WAIT):
                heal(target)
    return target


def _read(path: Path) -> dict[str, Any]:
    with file_errors(f"reading {path}"):
        content = path.read_bytes()
    return parse_json(content, dict[str, Any], str(path))


def _converted(content: Mapping[str, Any], schema: type[T], path: Path) -> T:
    try:
        return msgspec.convert(content, schema)
    except (msgspec.ValidationError, RecursionError) as error:
        msg = f"{path} is damaged or was written by another version of acova: {error}."
        raise FileError(msg) from error


@contextmanager
def _run_errors(way: str) -> Iterator[None]:
    """Turn a `FileError` of the block into a `RunFolderError` that says the way out."""
    try:
        yield
    except RunFolderError:
        raise
    except FileError as error:
        msg = f"{error} {way}"
        raise RunFolderError(msg) from error


def _damaged(path: Path, reason: object) -> RunFolderError:
    return RunFolderError(f"{path} is missing, truncated or damaged ({reason}). Fit again, or restore the file.")
