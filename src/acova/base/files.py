"""Files that are replaced as a whole, read against a schema, and whose failures are errors of this package."""

import hashlib
import json
import os
import tomllib
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from acova.base.errors import AcovaError, FileError

T = TypeVar("T")
CHECKSUM = "checksum"
"""The entry of a sealed JSON file that protects all others."""
_WHOLE, _BLOCK, _BLOCKS = 2**28, 2**16, 256
"""Bytes up to which a file is read as a whole for its checksum; size and number of the blocks read of a larger one."""


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


@contextmanager
def replaced_file(path: Path) -> Iterator[Path]:
    """Give a scratch file beside `path` that takes its place when the block succeeds and the file is on disk.

    The old content stays until then. A link keeps pointing to the file, whose content is replaced.
    """
    target = Path(os.path.realpath(path))
    # A name of its own length: one made from a long name would be too long. Writers of some formats look at its end.
    part = target.with_name(f".{uuid.uuid4().hex[:8]}.part{target.suffix}")
    with file_errors(f"writing {path}"):
        try:
            yield part
            with part.open("r+b") as stream:
                os.fsync(stream.fileno())
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file as `replaced_file` does."""
    with replaced_file(path) as part:
        part.write_bytes(content)


def read_json(path: Path, schema: type[T]) -> T:
    """Read a JSON file that must match a schema (a type msgspec knows); raise `FileError` with the offending field."""
    with file_errors(f"reading {path}"):
        content = path.read_bytes()
    return parse_json(content, schema, str(path))


def parse_json(content: bytes | str, schema: type[T], source: str) -> T:
    """Parse JSON text against a schema; `source` names the text in errors."""
    try:
        # The standard parser knows the NaN and Infinity that a diverged loss leaves in a record.
        return msgspec.convert(json.loads(content, object_pairs_hook=_unique), schema)
    except (ValueError, RecursionError) as error:
        raise _malformed(source, "JSON", error) from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        (name, _), *_ = Counter(name for name, _ in pairs).most_common(1)
        msg = f"the name {name!r} occurs more than once in one object"
        raise ValueError(msg)
    return found


def sealed_json(content: Mapping[str, Any], default: Callable[[Any], Any] | None = None) -> bytes:
    """Return an object as JSON text with a checksum as its last entry; `default` converts what JSON lacks.

    `check_seal` of what is read back tells whether anything changed.
    """
    plain = json.loads(json.dumps(content, default=default))
    return (json.dumps({**plain, CHECKSUM: _seal(plain)}, indent=2) + "\n").encode()


def check_seal(content: Mapping[str, Any], source: str) -> None:
    """Raise `FileError` unless an object read from JSON is what `sealed_json` wrote."""
    rest = {name: value for name, value in content.items() if name != CHECKSUM}
    try:
        intact = content.get(CHECKSUM) == _seal(rest)
    except RecursionError:
        intact = False
    if not intact:
        msg = f"{source} is damaged, or was edited: its content does not match its checksum."
        raise FileError(msg)


def _seal(plain: Mapping[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(plain).encode(), digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """Return a checksum of a file: of all its bytes, or, above 256 MB, of its size and 256 blocks spread evenly."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        digest.update(str(size).encode())
        if size <= _WHOLE:
            while block := stream.read(2**20):
                digest.update(block)
        else:
            for number in range(_BLOCKS):
                stream.seek((size - _BLOCK) * number // (_BLOCKS - 1))
                digest.update(stream.read(_BLOCK))
    return digest.hexdigest()


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
