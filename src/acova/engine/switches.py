"""Switches of the whole process, which several fits in threads may want at once."""

import threading
from collections.abc import Callable


class SharedSwitch:
    """A context manager: the first to enter turns the switch, the last to leave turns it back.

    Parameters
    ----------
    turn : callable
        Turns the switch, and returns what turns it back.
    """

    def __init__(self, turn: Callable[[], Callable[[], object]]) -> None:
        self._turn = turn
        self._lock, self._inside = threading.Lock(), 0
        self._turn_back: Callable[[], object] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._turn_back = self._turn()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside and self._turn_back is not None:
                self._turn_back()
