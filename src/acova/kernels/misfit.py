"""A view's reconstruction, summed over features, and its gradient: one pass over memory each."""

# mypy: ignore-errors

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from acova.kernels import leading

KINDS = {"gaussian": 0, "bernoulli": 1, "laplace": 2}


class Misfit(torch.autograd.Function):
    """The twin of `acova.functional.objectives`' own, in float32; tensors have at most one axis before (N, P)."""

    @staticmethod
    def forward(output: Tensor, view: Tensor, observed: Tensor, likelihood: str) -> Tensor:
        """Return the loss of every row, 0 where it is not observed."""
        shape = output.shape[:-1]
        output, view, observed = _runs_first(output, 3), _runs_first(view, 3), _runs_first(observed, 2)
        runs, rows, width = output.shape
        loss = torch.empty(runs, rows, dtype=torch.float32, device=output.device)
        _misfit[(rows, runs)](
            output,
            view,
            observed,
            loss,
            width,
            *output.stride()[:2],
            *view.stride()[:2],
            *observed.stride(),
            rows,
            KIND=KINDS[likelihood],
            BLOCK=_block(width),
        )
        return loss.view(shape)

    @staticmethod
    def setup_context(ctx, inputs, loss):
        """Keep what went in."""
        output, view, observed, ctx.likelihood = inputs
        ctx.save_for_backward(output, view, observed)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        """Return the gradient of the output; cells of rows that are not observed may be NaN and get 0."""
        output, view, observed = ctx.saved_tensors
        shape = output.shape
        output, view, observed = _runs_first(output, 3), _runs_first(view, 3), _runs_first(observed, 2)
        runs, rows, width = output.shape
        gradient = _runs_first(gradient, 2)
        slope = torch.empty(runs, rows, width, dtype=output.dtype, device=output.device)
        _misfit_gradient[(rows, runs)](
            output,
            view,
            observed,
            gradient,
            slope,
            width,
            *output.stride()[:2],
            *view.stride()[:2],
            *observed.stride(),
            *gradient.stride(),
            rows,
            KIND=KINDS[ctx.likelihood],
            BLOCK=_block(width),
        )
        return slope.view(shape), None, None, None

    @staticmethod
    def vmap(info, in_dims, output, view, observed, likelihood):
        """Put the mapped axis first."""
        return Misfit.apply(*leading(info, in_dims, (output, view, observed)), likelihood), 0


def _block(width: int) -> int:
    return min(1024, triton.next_power_of_2(width))


def _runs_first(tensor: Tensor, axes: int) -> Tensor:
    """Return the tensor with a leading axis, and its features side by side in memory."""
    tensor = tensor if tensor.ndim == axes else tensor.unsqueeze(0)
    return tensor.contiguous() if axes == 3 and tensor.stride(-1) != 1 else tensor


@triton.jit
def _misfit(
    output,
    view,
    observed,
    loss,
    width,
    output_run,
    output_row,
    view_run,
    view_row,
    observed_run,
    observed_row,
    rows,
    KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, run = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    shown = tl.where(tl.load(observed + run * observed_run + row * observed_row), width, 0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < shown
        y = tl.load(output + run * output_run + row * output_row + at, mask=inside, other=0.0)
        x = tl.load(view + run * view_run + row * view_row + at, mask=inside, other=0.0)
        if KIND == 1:
            # log(1 + exp(y)) without overflow.
            value = tl.maximum(y, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(y))) - y * x
        elif KIND == 2:
            value = tl.abs(y - x)
        else:
            value = (y - x) * (y - x)
        total += tl.where(inside, value, 0.0)
    tl.store(loss + run * rows + row, tl.sum(total, axis=0))


@triton.jit
def _misfit_gradient(
    output,
    view,
    observed,
    gradient,
    slope,
    width,
    output_run,
    output_row,
    view_run,
    view_row,
    observed_run,
    observed_row,
    gradient_run,
    gradient_row,
    rows,
    KIND: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, run = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    shown = tl.where(tl.load(observed + run * observed_run + row * observed_row), width, 0)
    factor = tl.load(gradient + run * gradient_run + row * gradient_row)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < shown
        y = tl.load(output + run * output_run + row * output_row + at, mask=inside, other=0.0)
        x = tl.load(view + run * view_run + row * view_row + at, mask=inside, other=0.0)
        if KIND == 1:
            value = 1.0 / (1.0 + tl.exp(-y)) - x
        elif KIND == 2:
            value = tl.where(y > x, 1.0, tl.where(y < x, -1.0, y - x))
        else:
            value = 2.0 * (y - x)
        tl.store(slope + (run * rows + row) * width + at, tl.where(inside, value * factor, 0.0), mask=at < width)
