"""Bias and ReLU of fully connected layers, and what goes back through them. Tensors are (G, rows, width) in memory."""

# mypy: ignore-errors

import torch
import triton
import triton.language as tl
from torch import Tensor

_ROWS, _COLUMNS = 32, 128
_ENOUGH = 512
"""Programs that keep a GPU busy; fewer, and sums over rows are split."""


def add_bias_relu(out: Tensor, bias: Tensor) -> Tensor:
    """Return ``relu(out + bias)``, in the place of `out` (..., rows, width), for bias (..., width)."""
    rows, width = out.shape[-2:]
    grid = (triton.cdiv(width, _COLUMNS), triton.cdiv(rows, _ROWS), out.shape[:-2].numel())
    _add_bias_relu[grid](out, bias.contiguous(), rows, width, ROWS=_ROWS, COLUMNS=_COLUMNS)
    return out


def through_bias_relu(gradient: Tensor, out: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return the gradient before the ReLU, rounded to `dtype`, and that of the bias (..., width) in float32.

    Parameters
    ----------
    gradient : Tensor of shape (..., rows, width)
    out : Tensor of the same shape, or None
        What the ReLU gave; None where there was none.
    dtype : torch.dtype
    """
    *axes, rows, width = gradient.shape
    gradient = gradient.contiguous()
    groups, columns = gradient.shape[:-2].numel(), triton.cdiv(width, _COLUMNS)
    parts = max(1, min(triton.cdiv(rows, _ROWS), _ENOUGH // (groups * columns)))
    steps = triton.cdiv(rows, _ROWS * parts)
    narrow = torch.empty_like(gradient, dtype=dtype)
    sums = torch.empty(groups, parts, width, dtype=torch.float32, device=gradient.device)
    _through_bias_relu[(columns, parts, groups)](
        gradient,
        gradient if out is None else out,
        narrow,
        sums,
        rows,
        width,
        steps,
        RELU=out is not None,
        ROWS=_ROWS,
        COLUMNS=_COLUMNS,
    )
    return narrow, (sums.squeeze(1) if parts == 1 else sums.sum(1)).view(*axes, width)


@triton.jit
def _add_bias_relu(out, bias, rows, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    group = tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    inside = (row < rows)[:, None] & (column < width)[None, :]
    place = out + (group * rows + row[:, None]) * width + column[None, :]
    shift = tl.load(bias + group * width + column, mask=column < width, other=0.0).to(tl.float32)
    value = tl.load(place, mask=inside).to(tl.float32) + shift[None, :]
    # Not a maximum, which would turn NaN into 0.
    tl.store(place, tl.where(value < 0, 0.0, value), mask=inside)


@triton.jit
def _through_bias_relu(
    gradient, out, narrow, sums, rows, width, steps, RELU: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    part, parts, group = tl.program_id(1), tl.num_programs(1), tl.program_id(2).to(tl.int64)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for step in range(steps):
        row = (part * steps + step) * ROWS + tl.arange(0, ROWS)
        inside = (row < rows)[:, None] & (column < width)[None, :]
        place = (group * rows + row[:, None]) * width + column[None, :]
        value = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        if RELU:
            value = tl.where(tl.load(out + place, mask=inside, other=0.0).to(tl.float32) > 0, value, 0.0)
        rounded = value.to(narrow.dtype.element_ty)
        tl.store(narrow + place, rounded, mask=inside)
        total += rounded.to(tl.float32)
    tl.store(sums + (group * parts + part) * width + column, tl.sum(total, axis=0), mask=column < width)
