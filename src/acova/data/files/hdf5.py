"""HDF5 files, walked in bounded time: every group once, and no link that leaves the file."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import IO, Any

from acova.base import DataError
from acova.base.errors import require
from acova.data.files.limits import check_expansion

_HEAP = b"GCOL\x01\0\0\0"
_STEP = 2**22


@contextmanager
def opened_hdf5(path: Path, who: str, *, tree: bool = False) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a file and yield it with its data sets by their paths, after all of them have been checked.

    Links to other files, data sets whose cells lie in other files and content that takes too much memory are refused.

    Parameters
    ----------
    path : Path
    who : str
        Who needs h5py, for the error where it is not installed.
    tree : bool
        Whether no group may occur under two names: packages that walk the file themselves would follow cycles.
    """
    h5py = require("h5py", who, "hdf5")
    _check_heaps(path)
    with h5py.File(path, "r") as file:
        walk = _Walk(path, h5py, tree)
        walk.enter(file, "")
        walk.follow_soft_links()
        check_expansion(path, sum(map(_bytes, walk.found.values())), path.stat().st_size)
        yield file, walk.found


def _check_heaps(path: Path) -> None:
    """Refuse heaps of texts with an entry of no length: the HDF5 library would stay at it for ever."""
    with path.open("rb") as stream:
        for heap in _places(stream, _HEAP):
            stream.seek(heap + len(_HEAP))
            end, place = heap + int.from_bytes(stream.read(8), "little"), heap + 16
            while place + 16 <= end and len(entry := _at(stream, place)) == 16:
                number, size = int.from_bytes(entry[:2], "little"), int.from_bytes(entry[8:], "little")
                step = size if number == 0 else 16 + size + -size % 8
                if step == 0:
                    msg = f"{path}: damaged at byte {place}, in the texts that it holds; copy or write it again."
                    raise DataError(msg)
                place += step


def _at(stream: IO[bytes], place: int) -> bytes:
    stream.seek(place)
    return stream.read(16)


def _places(stream: IO[bytes], mark: bytes) -> Iterator[int]:
    """Yield where the mark occurs in a file."""
    start = 0
    while len(block := _block(stream, start)) >= len(mark):
        found = block.find(mark)
        while found >= 0:
            yield start + found
            found = block.find(mark, found + 1)
        start += len(block) - len(mark) + 1


def _block(stream: IO[bytes], start: int) -> bytes:
    stream.seek(start)
    return stream.read(_STEP)


class _Walk:
    def __init__(self, path: Path, h5py: Any, tree: bool) -> None:
        self._path, self._h5py, self._tree = path, h5py, tree
        self._seen: set[Any] = set()
        self._soft: list[tuple[Any, str, str]] = []
        self.found: dict[str, Any] = {}

    def enter(self, group: Any, place: str) -> None:
        """Take up all data sets below a group that was not seen before."""
        info = self._h5py.h5o.get_info(group.id)
        if (info.fileno, info.addr) in self._seen:
            if self._tree:
                self._refuse(place, "is a group that has another name, too")
            return
        self._seen.add((info.fileno, info.addr))
        for name in group:
            path = f"{place}/{name}".removeprefix("/")
            link = group.get(name, getlink=True)
            if isinstance(link, self._h5py.ExternalLink):
                self._refuse(path, f"is a link to another file, {link.filename!r}")
            elif isinstance(link, self._h5py.SoftLink):
                self._soft.append((group, name, path))
            else:
                self._add(group[name], path)

    def follow_soft_links(self) -> None:
        """Follow them last: by then it is known that no path leads out of the file."""
        while self._soft:
            group, name, path = self._soft.pop()
            entry = group.get(name)
            if entry is None:
                self._refuse(path, "is a link that leads nowhere")
            self._add(entry, path)

    def _add(self, entry: Any, path: str) -> None:
        if isinstance(entry, self._h5py.Group):
            self.enter(entry, path)
        elif isinstance(entry, self._h5py.Dataset):
            if entry.external or entry.is_virtual:
                self._refuse(path, "has its cells in other files")
            self._check_chunks(entry, path)
            self.found[path] = entry

    def _check_chunks(self, entry: Any, path: str) -> None:
        """Refuse a chunk of no bytes: the HDF5 library would crash where it unpacks it."""
        empty: list[int] = []
        if entry.chunks is not None and entry.id.get_num_chunks():
            entry.id.chunk_iter(lambda chunk: empty.append(chunk.byte_offset) if chunk.size == 0 else None)
        if empty:
            msg = f"{self._path}: {path!r} is damaged: its chunk at byte {empty[0]} is empty; copy or write it again."
            raise DataError(msg)

    def _refuse(self, path: str, fact: str) -> None:
        msg = (
            f"{self._path}: {path!r} {fact}; such files are not read. Copy everything into one file: h5repack, h5copy."
        )
        raise DataError(msg)


def _bytes(entry: Any) -> int:
    """Return the bytes of all cells, or of one chunk where that is more: chunks are unpacked whole."""
    if entry.shape is None:
        return 0
    return int(max(prod(map(int, entry.shape)), prod(map(int, entry.chunks or ())))) * int(entry.dtype.itemsize)
