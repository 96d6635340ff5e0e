"""Rows of results in one append-only file that several runners may share and that survives their end at any moment.

Every row is one line of JSON, appended by a single write under a lock. Which jobs are being worked on is told by locks
too: a job's claim is one byte of a lock file beside the store, and the operating system takes it back when the process
that holds it ends, however it ends. So there are no stale claims to clean up.
"""

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acova.base import DataError, lock_byte, unlock_byte

_WRITING = 0
"""The byte that is locked while rows are appended; jobs have the others."""


class Store:
    """Rows by the key of their job; the latest row of a key counts.

    Parameters
    ----------
    path : str or Path
        A file of JSON lines, made when the first row comes. Files can be joined with ``cat``.

    Attributes
    ----------
    rows : dict
        Key → row.
    damaged : int
        Lines that are no rows: a writer was killed in the middle of one.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.rows: dict[str, dict[str, Any]] = {}
        self.damaged = 0
        self._read_to = 0
        self._locks = _Locks.of(self.path)
        self.refresh()

    def refresh(self) -> None:
        """Read what others, or this store, have appended since the last look."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read_to)
            new = file.read()
        end = new.rfind(b"\n") + 1  # what follows is still being written, or was cut off
        self._read_to += end
        for line in new[:end].splitlines():
            if line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            key = row["key"]
        except (ValueError, KeyError, TypeError):
            self.damaged += 1
            return
        old = self.rows.get(key)
        if old is not None and "failed" in row and "failed" not in old:
            return  # a later failure does not undo a result
        if old is not None and "records" in old:
            row["records"] = {**old["records"], **row.get("records", {})}
        self.rows[key] = row

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows and see that they are on disk."""
        text = "".join(json.dumps(row, default=str) + "\n" for row in rows).encode()
        if not text:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locks.exclusive(_WRITING):
            file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                size = os.fstat(file).st_size
                if size:
                    os.lseek(file, size - 1, os.SEEK_SET)
                    if os.read(file, 1) != b"\n":  # a line that was cut off stays alone
                        text = b"\n" + text
                while text:
                    text = text[os.write(file, text) :]
                os.fsync(file)
            finally:
                os.close(file)
        self.refresh()

    def borrow(self, keys: Iterable[str]) -> int:
        """Take the rows of these jobs that other stores of the folder have as ours, unwritten; return how many.

        Where several have a row, the one with most of the wanted rows gives it: what is compared was run side by side.
        """
        wanted = set(keys) - set(self.rows)
        others = [path for path in sorted(self.path.parent.glob("*.jsonl")) if path.name != self.path.name]
        held = [Store(path).rows for path in others] if wanted else []
        shares = [{key: rows[key] for key in wanted & set(rows) if "failed" not in rows[key]} for rows in held]
        found: dict[str, dict[str, Any]] = {}
        for share in sorted(shares, key=len):
            found |= share
        self.rows |= found
        return len(found)

    def claim(self, key: str) -> bool:
        """Take a job for this process, unless another runner works on it."""
        return self._locks.take(_byte(key))

    def release(self, keys: Iterable[str]) -> None:
        """Give jobs back."""
        for key in keys:
            self._locks.drop(_byte(key))


def _byte(key: str) -> int:
    """Return the place of a job's claim in the lock file."""
    return 1 + int(key[:12], 16)


class _Locks:
    """Locked bytes of one file.

    The system's locks are those of a process, and closing any handle of the file drops them all; so there is one object
    and one handle per file and process, which also keeps the threads of a process apart.
    """

    _known: "dict[Path, _Locks]" = {}  # noqa: RUF012
    _making = threading.Lock()

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None
        self._owner = 0
        self._held: set[int] = set()
        self._change = threading.Condition()

    @classmethod
    def of(cls, store: Path) -> "_Locks":
        path = store.resolve()
        path = path.with_name(f".{path.name}.lock")
        with cls._making:
            return cls._known.setdefault(path, cls(path))

    def take(self, byte: int) -> bool:
        with self._change:
            handle = self._opened()
            if byte in self._held or not lock_byte(handle, byte, wait=False):
                return False
            self._held.add(byte)
            return True

    def drop(self, byte: int) -> None:
        with self._change:
            if byte in self._held:
                self._held.remove(byte)
                unlock_byte(self._opened(), byte)
                self._change.notify_all()

    @contextmanager
    def exclusive(self, byte: int) -> Iterator[None]:
        """Wait for a byte and hold it."""
        with self._change:
            self._change.wait_for(lambda: byte not in self._held)
            lock_byte(self._opened(), byte, wait=True)
            self._held.add(byte)
        try:
            yield
        finally:
            self.drop(byte)

    def _opened(self) -> int:
        if self._handle is None or self._owner != os.getpid():  # a forked child has no locks of its parent
            self._path.parent.mkdir(parents=True, exist_ok=True)
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                msg = f"The lock file {self._path} cannot be opened ({error}); put the store where you may write."
                raise DataError(msg) from error
            self._owner, self._held = os.getpid(), set()
        return self._handle
