"""Named random streams: every random number has a name, so none depends on what was drawn before it."""

import hashlib
from typing import Self

import numpy as np


class Streams:
    """A tree of independent random streams grown from one seed.

    The stream of a name is a function of the seed and the name alone. Drawing more numbers from one
    stream, or asking for the streams in another order, changes no other stream; so logging, evaluating
    or resuming cannot disturb training.

    Parameters
    ----------
    seed : int
        Non-negative root seed.
    path : tuple of str
        Names that lead from the root to this branch.
    """

    def __init__(self, seed: int, path: tuple[str, ...] = ()) -> None:
        self._seed = int(seed)
        self._path = path

    def child(self, *names: object) -> Self:
        """Return the branch below this one that the names lead to."""
        return type(self)(self._seed, (*self._path, *map(str, names)))

    def integer(self, *names: object) -> int:
        """Return the 63-bit seed of a named stream."""
        path = "\x1f".join([str(self._seed), *self._path, *map(str, names)])
        return int.from_bytes(hashlib.sha256(path.encode()).digest()[:8], "little") >> 1

    def numpy(self, *names: object) -> np.random.Generator:
        """Return a fresh numpy generator at the start of a named stream."""
        return np.random.default_rng(self.integer(*names))
