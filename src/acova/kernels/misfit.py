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
        return _pass(output, view, observed, None, likelihood)

    @staticmethod
    def setup_context(ctx, inputs, loss):
        """Keep what went in."""
        *tensors, ctx.likelihood = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        """Return the gradient of the output; cells of rows that are not observed may be NaN and get 0."""
        return _pass(*ctx.saved_tensors, gradient, ctx.likelihood), None, None, None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        """Put the mapped axis first."""
        *tensors, likelihood = inputs
        return Misfit.apply(*leading(info, in_dims, tensors), likelihood), 0


def _pass(output: Tensor, view: Tensor, observed: Tensor, gradient: Tensor | None, likelihood: str) -> Tensor:
    """Return the loss (..., N), or, for what comes back to it, the gradient of the output (..., N, P)."""
    shape = output.shape[:-1] if gradient is None else output.shape
    result = torch.empty(shape, dtype=torch.float32, device=output.device)
    output, view = (_side_by_side(_runs_first(tensor, 3)) for tensor in (output, view))
    runs, rows, width = output.shape
    observed = _runs_first(observed, 2)
    back = observed if gradient is None else _runs_first(gradient, 2)
    strides = (stride for tensor in (output, view, observed, back) for stride in tensor.stride()[:2])
    block = min(1024, triton.next_power_of_2(width))
    _misfit[(rows, runs)](
        output,
        view,
        observed,
        back,
        result,
        rows,
        width,
        *strides,
        KIND=KINDS[likelihood],
        BACK=gradient is not None,
        BLOCK=block,
    )
    return result


def _runs_first(tensor: Tensor, axes: int) -> Tensor:
    return tensor if tensor.ndim == axes else tensor.unsqueeze(0)


def _side_by_side(tensor: Tensor) -> Tensor:
    """Return a tensor whose features are neighbours in memory; runs and rows may lie anywhere."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


@triton.jit
def _misfit(
    output,
    view,
    observed,
    gradient,
    result,
    rows,
    width,
    output_run,
    output_row,
    view_run,
    view_row,
    observed_run,
    observed_row,
    gradient_run,
    gradient_row,
    KIND: tl.constexpr,
    BACK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, run = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    shown = tl.where(tl.load(observed + run * observed_run + row * observed_row), width, 0)
    come = tl.load(gradient + run * gradient_run + row * gradient_row)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, width, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < shown
        y = tl.load(output + run * output_run + row * output_row + at, mask=inside, other=0.0)
        x = tl.load(view + run * view_run + row * view_row + at, mask=inside, other=0.0)
        if BACK:
            if KIND == 1:
                value = 1.0 / (1.0 + tl.exp(-y)) - x
            elif KIND == 2:
                value = tl.where(y > x, 1.0, tl.where(y < x, -1.0, y - x))
            else:
                value = 2.0 * (y - x)
            place = result + (run * rows + row) * width + at
            tl.store(place, tl.where(inside, value * come, 0.0), mask=at < width)
        else:
            if KIND == 1:
                # log(1 + exp(y)) without overflow.
                value = tl.maximum(y, 0.0) + tl.log(1.0 + tl.exp(-tl.abs(y))) - y * x
            elif KIND == 2:
                value = tl.abs(y - x)
            else:
                value = (y - x) * (y - x)
            total += tl.where(inside, value, 0.0)
    if not BACK:
        tl.store(result + run * rows + row, tl.sum(total, axis=0))
