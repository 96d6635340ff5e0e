"""Locks that the operating system takes back when the process that holds them ends, however it ends."""

import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from acova.base.errors import RunFolderError
from acova.base.files import file_errors

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_FAR = 2**30
"""A byte beyond the text of a lock file: a locked byte cannot be read on Windows."""


if sys.platform == "win32":

    def lock_byte(handle: int, byte: int, *, wait: bool) -> bool:
        """Lock one byte of an open file for this process; return False when another process has it."""
        while True:
            os.lseek(handle, byte, os.SEEK_SET)
            try:
                msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            except OSError:
                if not wait:
                    return False
            else:
                return True

    def unlock_byte(handle: int, byte: int) -> None:
        """Give a locked byte back."""
        os.lseek(handle, byte, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_UNLCK, 1)

else:

    def lock_byte(handle: int, byte: int, *, wait: bool) -> bool:
        """Lock one byte of an open file for this process; return False when another process has it."""
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, byte)
        except BlockingIOError:
            return False
        except PermissionError:  # some systems say EACCES for a lock that is taken
            return False
        return True

    def unlock_byte(handle: int, byte: int) -> None:
        """Give a locked byte back."""
        fcntl.lockf(handle, fcntl.LOCK_UN, 1, byte)


_threads: dict[Path, threading.RLock] = {}
_open: dict[tuple[int, Path], int] = {}
_registry = threading.Lock()
"""The system's locks are those of a process, so the threads of a process keep each other out by these."""


@contextmanager
def folder_lock(folder: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Keep other processes and threads from writing to a folder; the thread that has the lock may take it again.

    The lock is a file beside the folder, ``.NAME.lock``, which names its owner and is deleted afterwards. Missing
    parent folders are made, and deleted again if nothing was put into them.

    Parameters
    ----------
    folder : Path
        Absolute; need not exist.
    wait : float
        Seconds to wait for another owner before `RunFolderError` is raised.
    """
    path = folder.with_name(f".{folder.name}.lock")
    with _registry:
        thread_lock = _threads.setdefault(path, threading.RLock())
    if not thread_lock.acquire(timeout=wait):
        raise _taken(folder, "another thread of this process")
    try:
        key = os.getpid(), path  # a forked child has no locks of its parent
        if key in _open:
            yield
            return
        made = [parent for parent in path.parents if not parent.exists()]
        _open[key] = _acquire(path, folder, wait)
        try:
            yield
        finally:
            _release(path, _open.pop(key))
            with suppress(OSError):
                for parent in made:
                    parent.rmdir()
    finally:
        thread_lock.release()


def _acquire(path: Path, folder: Path, wait: float) -> int:
    give_up = time.monotonic() + wait
    while True:
        with file_errors(f"writing to {folder}"):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if lock_byte(handle, _FAR, wait=False):
            if _is_file_of(handle, path):
                break
            os.close(handle)  # its last owner deleted it after we opened it
            continue
        owner = _owner(handle)
        os.close(handle)
        if time.monotonic() >= give_up:
            raise _taken(folder, owner)
        time.sleep(0.02)
    with suppress(OSError):  # the name of the owner is a courtesy; a full disk must not prevent the lock
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {platform.node()}".encode())
    return handle


def _release(path: Path, handle: int) -> None:
    with suppress(OSError):
        path.unlink()  # before unlocking: whoever waits for this file sees that it is gone, and makes another
    os.close(handle)
    if sys.platform == "win32":  # which deletes no open file
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _is_file_of(handle: int, path: Path) -> bool:
    with suppress(OSError):
        return os.path.samestat(os.fstat(handle), path.stat())
    return False


def _owner(handle: int) -> str:
    with suppress(OSError):
        os.lseek(handle, 0, os.SEEK_SET)
        return os.read(handle, 200).decode(errors="replace") or "another process"
    return "another process"


def _taken(folder: Path, owner: str) -> RunFolderError:
    msg = f"{folder} is being written by {owner}; wait until it is done, end it, or choose another folder."
    return RunFolderError(msg)
