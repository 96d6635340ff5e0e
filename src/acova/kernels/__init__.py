"""The parts of a training step that a GPU does faster as one kernel, in Triton; every one has its twin in torch.

The mathematics is that of `acova.functional` and `acova.networks`, which choose: inside `fused`, and where kernels can
be compiled, they call these, everywhere else torch's own operations. Gradients of kernels can be taken once.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

__all__ = ["beside", "compile_here", "fused", "leading", "usable", "wait_for", "warn_once"]

_log = logging.getLogger("acova")
_mode: ContextVar[str | None] = ContextVar("mode", default=None)
"""Of this Python thread: None outside of `fused`, else whether the process is "alone" or one of "several"."""


@contextmanager
def fused(*, alone: bool = True) -> Iterator[None]:
    """Let functions on a GPU use kernels inside the block, if that works here, and let work run `beside` other work.

    Processes that exchange gradients are not `alone`: all their work is done in one order.
    """
    before = _mode.set("alone" if alone else "several")
    try:
        yield
    finally:
        _mode.reset(before)


def usable(tensor: Tensor) -> bool:
    """Tell whether a function of this tensor is to use its kernel."""
    return _mode.get() is not None and tensor.is_cuda and compile_here()


@cache
def compile_here() -> bool:
    """Tell whether kernels can be compiled here, which takes more than a GPU."""
    if not torch.cuda.is_available() or find_spec("triton") is None:
        return False
    try:
        from acova.kernels.adam import sum_squares

        sum_squares(
            torch.ones(1, 1, dtype=torch.float32, device="cuda"),
            torch.zeros(1, 1, dtype=torch.float32, device="cuda"),
            1,
            0,
        )
    except Exception as error:  # compilers fail in many ways
        warn_once(f"Kernels cannot be compiled here; torch's own operations take longer: {error!r}")
        return False
    return True


@cache
def warn_once(message: str) -> None:
    """Log a warning, the same one only once in a process."""
    _log.warning(message)


@contextmanager
def beside(tensor: Tensor) -> Iterator["torch.cuda.Stream | None"]:
    """Let the block's work run beside what follows it on a GPU, its gradients too, until `wait_for` what this gives.

    What the block reads must live until then, and what it keeps for its gradients must be made inside it, or live as
    long as the step: memory that was given back would be used anew without waiting for the block.
    """
    if _mode.get() != "alone" or not tensor.is_cuda:
        yield None
        return
    stream = _second_stream(tensor.device)
    stream.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(stream):
        yield stream


def wait_for(stream: "torch.cuda.Stream | None") -> None:
    """Let what follows wait for the work of a block `beside`."""
    if stream is not None:
        torch.cuda.current_stream(stream.device).wait_stream(stream)


@cache
def _second_stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def leading(info: Any, in_dims: Sequence[int | None], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors with the axis that is mapped (`torch.func.vmap`) first, repeated where it is not mapped."""
    return [
        tensor.movedim(axis, 0) if axis is not None else tensor.expand(info.batch_size, *tensor.shape)
        for tensor, axis in zip(tensors, in_dims, strict=False)
    ]
