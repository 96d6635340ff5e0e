"""Files that are replaced as a whole, read against a schema, and whose failures are errors of this package."""

import json
import os
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from acova.base.errors import AcovaError, FileError

T = TypeVar("T")


@contextmanager
def file_errors(doing: str) -> Iterator[None]:
    """Turn an `OSError` inside the block (disk full, read-only, name too long) into a `FileError`.

    Parameters
    ----------
    doing : str
        What the block does, such as ``"writing run/model.safetensors"``; the message starts with it.
    """
    try:
        yield
    except AcovaError:
        raise
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        msg = f"{doing} failed: {reason}. Check the path, its permissions and the free space on the disk."
        raise FileError(msg) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, make sure it is on disk, and move it there: the old content stays until then."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with file_errors(f"writing {path}"):
        try:
            with part.open("wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def read_json(path: Path, schema: type[T]) -> T:
    """Read a JSON file that must match a schema (a type msgspec knows); raise `FileError` with the offending field."""
    with file_errors(f"reading {path}"):
        content = path.read_bytes()
    return parse_json(content, schema, str(path))


def parse_json(content: bytes | str, schema: type[T], source: str) -> T:
    """Parse JSON text against a schema; `source` names the text in errors."""
    try:
        # The standard parser knows the NaN and Infinity that a diverged loss leaves in a record.
        return msgspec.convert(json.loads(content), schema)
    except (ValueError, RecursionError) as error:
        raise _malformed(source, "JSON", error) from error


def read_toml(path: Path, schema: type[T]) -> T:
    """Read a TOML file that must match a schema; raise `FileError` with the offending field."""
    with file_errors(f"reading {path}"):
        content = path.read_bytes()
    try:
        return msgspec.convert(tomllib.loads(content.decode()), schema)
    except (ValueError, RecursionError) as error:
        raise _malformed(str(path), "TOML", error) from error


def _malformed(source: str, format_name: str, error: Any) -> FileError:
    reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
    return FileError(f"{source} is not the {format_name} file it should be: {reason}.")
