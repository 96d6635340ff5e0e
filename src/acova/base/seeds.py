"""The seed of a fit, and named random streams: every number has a name, so none depends on what was drawn before."""

import hashlib
from numbers import Integral
from typing import Any, Self

import numpy as np

from acova.base.errors import OptionError

_SEEDS = 2**31 - 1
"""Seeds of fits are smaller than this."""


def draw_seed(random_state: Any, who: str) -> int:
    """Return the seed that `random_state` stands for; None draws one that nothing else depends on.

    Parameters
    ----------
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None
        The same integer gives the same seed. A RandomState or Generator moves on by one draw.
    who : str
        The class that has the setting, for the error message.

    Returns
    -------
    int
        From 0 to 2**31 - 2.
    """
    check_seed(who, random_state)
    if random_state is None:
        return int(np.random.default_rng().integers(_SEEDS))
    if random_state is np.random:
        return int(np.random.randint(_SEEDS))  # noqa: NPY002
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(_SEEDS))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(_SEEDS))
    return int(np.random.RandomState(int(random_state)).randint(_SEEDS))


def check_seed(who: str, random_state: Any) -> None:
    """Raise `OptionError` unless `random_state` is something that `draw_seed` takes."""
    if random_state is None or random_state is np.random:
        return
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return
    if isinstance(random_state, Integral) and not isinstance(random_state, bool) and 0 <= int(random_state) < 2**32:
        return
    msg = (
        f"{who}: random_state must be an integer from 0 to 2**32 - 1, a numpy RandomState or Generator, or None; "
        f"got {random_state!r}."
    )
    raise OptionError(msg)


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
