"""Output files: checked before any work, replaced only when the new one is whole."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from acova.base.errors import FileError
from acova.base.files import file_errors, replaced_file

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def check_output(path: Path) -> None:
    """Raise `FileError` unless a file can be written at `path`; nothing is made or changed.

    What is there must be a regular file, or a link to one. The nearest folder above that exists must take new files.
    """
    with file_errors(f"writing {path}"):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            mode = stat.S_IFREG
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "a device")
            msg = f"{path} is {kind}, and only regular files are written or replaced; choose another path."
            raise FileError(msg)
        folder = next(above for above in _target(path).parents if above.exists())
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Give a scratch file for an output of a user's choice, as `replaced_file` does, in a folder made if need be."""
    check_output(path)
    with file_errors(f"writing {path}"):
        _target(path).parent.mkdir(parents=True, exist_ok=True)
    with replaced_file(path) as part:
        yield part


def _target(path: Path) -> Path:
    return Path(os.path.realpath(path))
