"""Reconstruction of views, each summed over its features, and its gradient: one pass over memory each."""

# mypy: ignore-errors

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from acova.kernels import leading

KINDS = {"gaussian": 0, "bernoulli": 1, "laplace": 2}


class Misfit(torch.autograd.Function):
    """The twin of `acova.functional.objectives`' own in float32, for outputs of V views in one tensor (V, N, W).

    W may be more than a view's features. Tensors have at most one axis before these.
    """

    @staticmethod
    def forward(outputs: Tensor, observed: Tensor, likelihoods: tuple[str, ...], *views: Tensor) -> Tensor:
        """Return the loss of every row and view, (N, V), 0 where it is not observed."""
        losses = torch.empty(observed.shape, dtype=torch.float32, device=outputs.device)
        _pass(outputs, observed, likelihoods, views, losses, None)
        return losses

    @staticmethod
    def setup_context(ctx, inputs, losses):
        """Keep what went in."""
        outputs, observed, ctx.likelihoods, *views = inputs
        ctx.save_for_backward(outputs, observed, *views)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient):
        """Return the gradient of the outputs; cells of rows that are not observed may be NaN and get 0."""
        outputs, observed, *views = ctx.saved_tensors
        slopes = torch.empty(outputs.shape, dtype=torch.float32, device=outputs.device)
        _pass(outputs, observed, ctx.likelihoods, views, gradient, slopes)
        return slopes, None, None, *(None for _ in views)

    @staticmethod
    def vmap(info, in_dims, outputs, observed, likelihoods, *views):
        """Put the mapped axis first."""
        axes = in_dims[0], in_dims[1], *in_dims[3:]
        outputs, observed, *views = leading(info, axes, (outputs, observed, *views))
        return Misfit.apply(outputs, observed, likelihoods, *views), 0


def _pass(
    outputs: Tensor,
    observed: Tensor,
    likelihoods: tuple[str, ...],
    views: Sequence[Tensor],
    losses: Tensor,
    slopes: Tensor | None,
) -> None:
    """Write the losses; or, where slopes are asked for, write these times what comes back to the losses."""
    observed, losses = (tensor if tensor.ndim == 3 else tensor.unsqueeze(0) for tensor in (observed, losses))
    outputs, slopes = (t if t is None or t.ndim == 4 else t.unsqueeze(0) for t in (outputs, slopes))
    runs, rows, _ = observed.shape
    for v, (view, likelihood) in enumerate(zip(views, likelihoods, strict=True)):
        output, target = outputs[:, v], view if view.ndim == 3 else view.unsqueeze(0)
        output, target = (part if part.stride(-1) == 1 else part.contiguous() for part in (output, target))
        seen, loss = observed[..., v], losses[..., v]
        slope = output if slopes is None else slopes[:, v]
        strides = (stride for tensor in (output, target, seen, loss, slope) for stride in tensor.stride()[:2])
        _misfit[(rows, runs)](
            output,
            target,
            seen,
            loss,
            slope,
            target.shape[-1],
            output.shape[-1],
            *strides,
            KIND=KINDS[likelihood],
            BACK=slopes is not None,
            BLOCK=min(1024, triton.next_power_of_2(output.shape[-1])),
        )


@triton.jit
def _misfit(
    output,
    view,
    observed,
    loss,
    slope,
    width,
    padded,
    output_run,
    output_row,
    view_run,
    view_row,
    observed_run,
    observed_row,
    loss_run,
    loss_row,
    slope_run,
    slope_row,
    KIND: tl.constexpr,
    BACK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    row, run = tl.program_id(0).to(tl.int64), tl.program_id(1).to(tl.int64)
    shown = tl.where(tl.load(observed + run * observed_run + row * observed_row), width, 0)
    place = loss + run * loss_run + row * loss_row
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, padded, BLOCK):
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
            value = tl.where(inside, value * tl.load(place), 0.0)
            tl.store(slope + run * slope_run + row * slope_row + at, value, mask=at < padded)
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
        tl.store(place, tl.sum(total, axis=0))
