"""How many threads of the CPU a computation takes: as many as its products pay for, and no more than it may."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from threadpoolctl import ThreadpoolController
from torch import nn

from acova.base import OptionError
from acova.base.errors import check_number
from acova.engine.switches import SharedSwitch

VARIABLE = "ACOVA_THREADS"
"""Environment variable with the number of threads of all fits."""
_PRODUCTS_OF_A_THREAD = 2**29
"""Multiplications of a step, forward, from which one more thread pays, also beside other work."""

_requested: ContextVar[int | None] = ContextVar("requested", default=None)
_limit: ContextVar[int | None] = ContextVar("limit", default=None)
_setting = threading.Lock()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let fits and predictions inside the block compute on this many threads of the CPU, instead of their own choice.

    Without it, and without the environment variable ``ACOVA_THREADS``, a computation takes one thread if its products
    are small, and never more than ``torch.get_num_threads()``. The block is of the Python thread that enters it.

    Parameters
    ----------
    count : int

    Examples
    --------
    >>> from acova import ACOVA
    >>> from acova.engine import threads
    >>> with threads(2):
    ...     model = ACOVA(2, epochs=1, hidden=(8,)).fit([[[0.0]], [[1.0]]] * 2)  # doctest: +SKIP
    """
    check_number("threads", "count", count, minimum=1, integer=True)
    before = _requested.set(int(count))
    try:
        yield
    finally:
        _requested.reset(before)


@contextmanager
def threads_for(products: float) -> Iterator[None]:
    """Compute in this Python thread, inside the block, on as many threads as this many multiplications pay for.

    The number depends on the size of the products alone, up to torch's own setting outside of all such blocks. What
    other Python threads have, or get when they start, does not change.
    """
    before = torch.get_num_threads()
    outermost = _limit.set(most_threads())
    _set_threads(thread_count(products))
    try:
        yield
    finally:
        _limit.reset(outermost)
        _set_threads(before)


def thread_count(products: float) -> int:
    """Return the number of threads that `threads_for` would take."""
    return _requested_number() or max(1, min(most_threads(), int(products // _PRODUCTS_OF_A_THREAD)))


def most_threads() -> int:
    """Return torch's own number of threads outside of all blocks: no computation takes more unless asked to."""
    limit = _limit.get()
    return torch.get_num_threads() if limit is None else limit


def number_in_environment(variable: str, what: str) -> int | None:
    """Return the number that an environment variable asks for, None if it asks for nothing."""
    word = os.environ.get(variable, "")
    if word and not (word.isdecimal() and int(word)):
        msg = f"The environment variable {variable} must be a number of {what}, at least 1; got {word!r}. Unset it."
        raise OptionError(msg)
    return int(word) if word else None


def multiplications(network: nn.Module, rows: int) -> int:
    """Return how many multiplications a network needs for this many rows, forward."""
    return rows * sum(parameter.numel() for parameter in network.parameters() if parameter.ndim >= 2)


def _requested_number() -> int | None:
    """Return the number of threads that the user asks for, if any."""
    return number_in_environment(VARIABLE, "threads") if _requested.get() is None else _requested.get()


def _set_threads(count: int) -> None:
    """Set the number of threads of this Python thread alone; torch would give it to those that start later, too."""
    if count == torch.get_num_threads():
        return
    with _setting:
        later = _in_new_thread(torch.get_num_threads)
        torch.set_num_threads(count)
        _in_new_thread(lambda: torch.set_num_threads(later))


def _in_new_thread(act: Callable[[], Any]) -> Any:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()
    thread.join()
    return found[0]


def _limits(user_api: str) -> Any:
    # Selected first: `threadpool_limits` gives back the numbers of all libraries, whichever it limits.
    return ThreadpoolController().select(user_api=user_api).limit(limits=1)


_one_blas_thread = SharedSwitch(lambda: _limits("blas").restore_original_limits)


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let numpy and scikit-learn compute on one thread: sums over several come in no fixed order.

    The number of BLAS threads is that of the whole process, so the last of several fits restores it.
    """
    with _one_blas_thread, _limits("openmp"):
        yield
