"""Clipping and Adam. Tensors are (R, size) in memory: R runs one after the other."""

# mypy: ignore-errors

import math

import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 2048


def blocks_of(size: int) -> int:
    """Return in how many blocks a run's part of a tensor is worked on."""
    return triton.cdiv(size, _BLOCK)


def sum_squares(values: Tensor, squares: Tensor, size: int, start: int) -> None:
    """Write the sum of squares of every run's blocks to `squares` (R, …), from column `start` on."""
    grid = (blocks_of(size), len(squares))
    _sum_squares[grid](values, squares, size, start, squares.shape[1], BLOCK=_BLOCK)


def shorten(squares: Tensor, factors: Tensor, clip_norm: float) -> None:
    """Write to `factors` (R,) what brings every run's gradient, of squares (R, …), to a norm of at most `clip_norm`."""
    _shorten[(len(factors),)](squares, factors, squares.shape[1], clip_norm, BLOCK=_BLOCK)


def move(
    parameter: Tensor,
    rounded: Tensor | None,
    gradient: Tensor,
    first: Tensor,
    second: Tensor,
    factors: Tensor,
    rates: Tensor,
    steps: Tensor,
    size: int,
    betas: tuple[float, float],
    eps: float,
) -> None:
    """Take Adam's step, the one of this number, each run's gradient times its factor and with its rate; in place.

    What the parameter becomes is written to `rounded` too, in its type.
    """
    grid = (blocks_of(size), len(factors))
    logs = math.log(betas[0]), math.log(betas[1])
    both = parameter.data, parameter.data if rounded is None else rounded
    constants = {"ROUND": rounded is not None, "EPS": eps, "BLOCK": _BLOCK}
    _move[grid](*both, gradient, first, second, factors, rates, steps, size, *betas, *logs, **constants)


@triton.jit
def _sum_squares(values, squares, size, start, columns, BLOCK: tl.constexpr):
    block, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(values + run * size + at, mask=at < size, other=0.0)
    tl.store(squares + run * columns + start + block, tl.sum(x * x, axis=0))


@triton.jit
def _shorten(squares, factors, columns, clip_norm, BLOCK: tl.constexpr):
    run = tl.program_id(0).to(tl.int64)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(squares + run * columns + at, mask=at < columns, other=0.0)
    factor = clip_norm / (tl.sqrt(tl.sum(total, axis=0)) + 1e-6)
    # Not a minimum: a norm that is not a number must show.
    tl.store(factors + run, tl.where(factor > 1.0, 1.0, factor))


@triton.jit
def _move(
    parameter,
    rounded,
    gradient,
    first,
    second,
    factors,
    rates,
    steps,
    size,
    BETA_1: tl.constexpr,
    BETA_2: tl.constexpr,
    LOG_1: tl.constexpr,
    LOG_2: tl.constexpr,
    ROUND: tl.constexpr,
    EPS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    block, run = tl.program_id(0), tl.program_id(1).to(tl.int64)
    at = block * BLOCK + tl.arange(0, BLOCK)
    inside = at < size
    place = run * size + at
    # 1 - βᵗ in float64: 1 - 0.999 has few digits left in float32.
    number = tl.load(steps)
    correction = (1.0 - tl.exp(number * LOG_1)).to(tl.float32)
    root = tl.sqrt(1.0 - tl.exp(number * LOG_2)).to(tl.float32)
    g = tl.load(gradient + place, mask=inside) * tl.load(factors + run)
    m = tl.load(first + place, mask=inside)
    v = tl.load(second + place, mask=inside)
    m += (g - m) * (1.0 - BETA_1)
    v = v * BETA_2 + g * g * (1.0 - BETA_2)
    tl.store(first + place, m, mask=inside)
    tl.store(second + place, v, mask=inside)
    step = tl.load(rates + run) / correction
    p = tl.load(parameter + place, mask=inside)
    p -= step * m / (tl.sqrt(v) / root + EPS)
    tl.store(parameter + place, p, mask=inside)
    if ROUND:
        tl.store(rounded + place, p.to(rounded.dtype.element_ty), mask=inside)
