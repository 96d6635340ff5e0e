"""GPU kernels of the optimiser, in Triton. Tensors are (R, size) in memory: R runs one after the other."""

# mypy: ignore-errors

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from acova.engine.adam import BETA_1, BETA_2, EPS

_BLOCK = 2048


@cache
def work() -> bool:
    """Tell whether kernels can be compiled here, which takes more than a GPU."""
    try:
        sum_squares(torch.ones(1, 1, device="cuda"), torch.zeros(1, 1, device="cuda"), 1, 0)
    except Exception:  # compilers fail in many ways
        return False
    return True


def blocks_of(size: int) -> int:
    """Return in how many blocks a run's part of a tensor is worked on."""
    return triton.cdiv(size, _BLOCK)


def sum_squares(values: Tensor, squares: Tensor, size: int, start: int) -> None:
    """Write the sum of squares of every run's blocks to `squares` (R, …), from column `start` on."""
    grid = (blocks_of(size), len(squares))
    _sum_squares[grid](values, squares, size, start, squares.shape[1], BLOCK=_BLOCK)


def move(
    parameter: Tensor,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    factors: Tensor,
    rates: Tensor,
    corrections: Tensor,
    size: int,
) -> None:
    """Take Adam's step, each run's gradient times its factor and with its learning rate; all in place."""
    grid = (blocks_of(size), len(factors))
    _move[grid](
        parameter.data, gradient, first, second, factors, rates, corrections, size, BETA_1, BETA_2, EPS, BLOCK=_BLOCK
    )


@triton.jit
def _sum_squares(values, squares, size, start, columns, BLOCK: tl.constexpr):
    block, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(values + run * size + at, mask=at < size, other=0.0)
    tl.store(squares + run * columns + start + block, tl.sum(x * x, axis=0))


@triton.jit
def _move(
    parameter, gradient, first, second, factors, rates, corrections, size, beta_1, beta_2, eps, BLOCK: tl.constexpr
):
    block, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    place = run * size + at
    g = tl.load(gradient + place, mask=inside) * tl.load(factors + run)
    m = tl.load(first + place, mask=inside)
    v = tl.load(second + place, mask=inside)
    m += (g - m) * (1 - beta_1)
    v = v * beta_2 + g * g * (1 - beta_2)
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    step = tl.load(rates + run) / tl.load(corrections)
    p = tl.load(parameter + place, mask=inside)
    p -= step * m / (tl.sqrt(v) / tl.load(corrections + 1) + eps)
    tl.store(parameter + place, p, mask=inside)
