"""The fusion of a row's estimates, in float64, and its gradient: one pass over memory each."""

# mypy: ignore-errors

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.autograd.function import once_differentiable

from acova.kernels import leading

_CELLS = 1024


class FuseUnderOne(torch.autograd.Function):
    """`acova.functional.fuse` in its precision form: one matrix for all rows.

    With w = observed / std, a = |Kw|² and s = w · KᵀKw, the weights are s/a, the mean is the weighted sum of the views'
    means, and the variance is 1/a. Tensors have at most one axis before the rows; K (V, V) has KᵀK = R⁻¹.
    """

    @staticmethod
    def forward(mean: Tensor, std: Tensor, observed: Tensor, whitener: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return fused means and variances, and the weights."""
        rows, _, width = mean.shape[-3:]
        fused_mean, fused_variance = (mean.new_empty(*mean.shape[:-2], width) for _ in range(2))
        weights = torch.empty(mean.shape, dtype=mean.dtype, device=mean.device)
        grid, sizes = _cut(mean)
        _fuse[grid](
            *_laid_out(mean, std, observed, whitener), fused_mean, fused_variance, weights, rows, width, **sizes
        )
        return fused_mean, fused_variance, weights

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        """Keep what went in."""
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)

    @staticmethod
    @once_differentiable
    def backward(ctx, to_mean, to_variance, to_weights):
        """Return gradients of means, standard deviations and the whitener; 0 where a view is hidden."""
        mean, std, observed, whitener = ctx.saved_tensors
        rows, _, width = mean.shape[-3:]
        grid, sizes = _cut(mean)
        given = [None if gradient is None else gradient.contiguous() for gradient in (to_mean, to_variance, to_weights)]
        through = [mean if gradient is None else gradient for gradient in given]
        by_mean, by_std = (torch.empty(mean.shape, dtype=mean.dtype, device=mean.device) for _ in range(2))
        side = sizes["SIDE"]
        by_precision = torch.empty(grid[1], grid[0], side, side, dtype=torch.float64, device=mean.device)
        _fuse_gradient[grid](
            *_laid_out(mean, std, observed, whitener),
            *through,
            by_mean,
            by_std,
            by_precision,
            rows,
            width,
            **sizes,
            **{name: g is not None for name, g in zip(("BY_MEAN", "BY_VARIANCE", "BY_WEIGHTS"), given, strict=True)},
        )
        views = sizes["VIEWS"]
        whole = by_precision.sum(1)[:, :views, :views].reshape(*whitener.shape)
        return by_mean, by_std, None, (whitener @ (whole + whole.mT)).to(whitener.dtype)

    @staticmethod
    def vmap(info, in_dims, *inputs):
        """Put the mapped axis first."""
        return FuseUnderOne.apply(*leading(info, in_dims, inputs)), (0, 0, 0)


def _cut(mean: Tensor) -> tuple[tuple[int, int], dict[str, int]]:
    """Return the grid and the sizes of a block, for means (..., N, V, D)."""
    rows, views, width = mean.shape[-3:]
    side = triton.next_power_of_2(views)
    block = max(16, _CELLS // side**2)
    return (triton.cdiv(rows * width, block), mean.shape[:-3].numel()), {"VIEWS": views, "SIDE": side, "BLOCK": block}


def _laid_out(*tensors: Tensor) -> list[Tensor]:
    return [tensor.contiguous() for tensor in tensors]


@triton.jit
def _standardised(
    mean, std, observed, whitener, rows, width, VIEWS: tl.constexpr, SIDE: tl.constexpr, BLOCK: tl.constexpr
):
    """Return places of a block's cells (BLOCK, SIDE), which exist, which are seen, means, w, K, KᵀKw and a (BLOCK,)."""
    run = tl.program_id(1).to(tl.int64)
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    view = tl.arange(0, SIDE)
    row, column = cell // width, cell % width
    inside = (cell < rows * width)[:, None] & (view < VIEWS)[None, :]
    seen = tl.load(observed + (run * rows + row[:, None]) * VIEWS + view[None, :], mask=inside, other=0) != 0
    place = ((run * rows + row[:, None]) * VIEWS + view[None, :]) * width + column[:, None]
    mu = tl.load(mean + place, mask=seen, other=0.0).to(tl.float64)
    w = 1.0 / tl.load(std + place, mask=seen, other=1.0).to(tl.float64)
    w = tl.where(seen, w, 0.0)
    square = (view < VIEWS)[:, None] & (view < VIEWS)[None, :]
    K = tl.load(whitener + (run * VIEWS + view[:, None]) * VIEWS + view[None, :], mask=square, other=0.0).to(tl.float64)
    y = tl.sum(K[None, :, :] * w[:, None, :], axis=2)
    # A sum of squares: it cannot turn negative however R is conditioned.
    a = tl.sum(y * y, axis=1)
    q = tl.sum(K[None, :, :] * y[:, :, None], axis=1)
    return place, inside, seen, mu, w, K, q, a


@triton.jit
def _fuse(
    mean,
    std,
    observed,
    whitener,
    fused_mean,
    fused_variance,
    weights,
    rows,
    width,
    VIEWS: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    place, inside, _, mu, w, _, q, a = _standardised(mean, std, observed, whitener, rows, width, VIEWS, SIDE, BLOCK)
    some = a > 0
    variance = 1.0 / tl.where(some, a, 1.0)
    share = w * q * variance[:, None]
    run = tl.program_id(1).to(tl.int64)
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = run * rows * width + cell
    exists = cell < rows * width
    tl.store(fused_mean + here, tl.sum(share * mu, axis=1), mask=exists)
    tl.store(fused_variance + here, tl.where(some, variance, float("inf")), mask=exists)
    tl.store(weights + place, share, mask=inside)


@triton.jit
def _fuse_gradient(
    mean,
    std,
    observed,
    whitener,
    to_mean,
    to_variance,
    to_weights,
    by_mean,
    by_std,
    by_precision,
    rows,
    width,
    VIEWS: tl.constexpr,
    SIDE: tl.constexpr,
    BLOCK: tl.constexpr,
    BY_MEAN: tl.constexpr,
    BY_VARIANCE: tl.constexpr,
    BY_WEIGHTS: tl.constexpr,
):
    place, inside, seen, mu, w, K, q, a = _standardised(mean, std, observed, whitener, rows, width, VIEWS, SIDE, BLOCK)
    run = tl.program_id(1).to(tl.int64)
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    here = run * rows * width + cell
    some = (a > 0) & (cell < rows * width)
    variance = tl.where(some, 1.0 / tl.where(some, a, 1.0), 0.0)
    by_share = tl.zeros((BLOCK, SIDE), dtype=tl.float64)
    change = tl.zeros((BLOCK,), dtype=tl.float64)
    from_mean = tl.zeros((BLOCK,), dtype=tl.float64)
    if BY_MEAN:
        from_mean += tl.load(to_mean + here, mask=some, other=0.0).to(tl.float64)
        by_share += from_mean[:, None] * mu
    if BY_WEIGHTS:
        by_share += tl.load(to_weights + place, mask=inside & some[:, None], other=0.0).to(tl.float64)
    if BY_VARIANCE:
        change += tl.load(to_variance + here, mask=some, other=0.0).to(tl.float64)
    s = w * q
    # s = w · KᵀKw and a = Σs, so what comes through both is one factor for each view.
    change = -(tl.sum(by_share * s, axis=1) + change) * variance * variance
    factor = tl.where(seen, by_share * variance[:, None] + change[:, None], 0.0)
    back = tl.sum(K[None, :, :] * (factor * w)[:, None, :], axis=2)
    by_w = factor * q + tl.sum(K[None, :, :] * back[:, :, None], axis=1)
    tl.store(by_mean + place, from_mean[:, None] * s * variance[:, None], mask=inside)
    tl.store(by_std + place, tl.where(seen, -by_w * w * w, 0.0), mask=inside)
    outer = (factor * w)[:, :, None] * w[:, None, :]
    view = tl.arange(0, SIDE)
    block = (run * tl.num_programs(0) + tl.program_id(0)) * SIDE * SIDE
    tl.store(by_precision + block + view[:, None] * SIDE + view[None, :], tl.sum(outer, axis=0))
