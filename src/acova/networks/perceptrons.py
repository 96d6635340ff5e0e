"""One perceptron per view, computed side by side: fully connected layers with ReLU between them.

Inner layers have the same widths in every view, so their weights are one tensor and all views are one batched product.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad

from acova import kernels

_ALIGNMENT = 8
"""Widths are stored as multiples of this, which matrix units ask for; the units added are zero and stay zero."""

_HEIGHTS = 16
"""Packed rows are a multiple of this: libraries prepare themselves anew for each number of rows."""

_MOST_FILLED = 1.2
"""Rows computed for each one wanted, at most, for the sake of one product of all views."""

Rows = Tensor | list[Tensor]
"""Rows of V views: one tensor (V, N, width), or V tensors of their own numbers of rows."""


class Perceptrons(nn.Module):
    """V perceptrons.

    Parameters
    ----------
    widths : sequence of layers' widths, each one int for all views or a sequence of V
        Inputs first, outputs last.
    n_views : int
    xavier : bool
        Weights start normal with the variance 2/(inputs + outputs); else uniform, as torch's own layers.
    silent : sequence of V int, optional
        How many of each view's inputs, the last ones, start with weights of zero.
    generator : torch.Generator, optional
        Draws the initial weights (default: torch's global generator).

    Attributes
    ----------
    dtype : torch.dtype
        What rows and weights are rounded to for products in training; outputs are not rounded, gradients of weights
        on a CPU alone, and where no gradient is asked for nothing is.
    """

    def __init__(
        self,
        widths: Sequence[int | Sequence[int]],
        n_views: int,
        *,
        xavier: bool = False,
        silent: Sequence[int] | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        silent = [0] * n_views if silent is None else silent
        per_view = [[width] * n_views if isinstance(width, int) else list(width) for width in widths]
        self.outputs = per_view[-1]
        self.layers = nn.ModuleList(
            _Layer(
                before,
                after,
                relu=number + 2 < len(per_view),
                xavier=xavier,
                silent=[0] * n_views if number else silent,
                generator=generator,
            )
            for number, (before, after) in enumerate(pairwise(per_view))
        )

    @property
    def dtype(self) -> torch.dtype:
        """What factors are rounded to."""
        return cast("_Layer", self.layers[0]).round_to

    @dtype.setter
    def dtype(self, dtype: torch.dtype) -> None:
        for layer in self.layers:
            cast("_Layer", layer).round_to = dtype

    def forward(self, rows: Sequence[Tensor], *, together: bool) -> list[Tensor]:
        """Map V tensors of rows, (N_v, inputs_v), to V tensors (N_v, outputs_v).

        With `together` every view has the same number of rows, and layers take all views at once.
        """
        flowing = self.whole(rows, together=together)
        parts = flowing.unbind() if isinstance(flowing, Tensor) else flowing
        return [part[..., :width] for part, width in zip(parts, self.outputs, strict=True)]

    def whole(self, rows: Sequence[Tensor], *, together: bool) -> Rows:
        """Return the same as layers give it: in one tensor (V, N, width) if the last takes all at once, units added."""
        narrow = self.dtype if torch.is_grad_enabled() else torch.float32
        flowing: Rows = [part.to(narrow) if part.dtype == torch.float32 else part for part in rows]
        for layer in self.layers:
            flowing = layer(flowing, together)
        return flowing


class Packed:
    """Which rows of a batch are computed where each view may lack some.

    Every view's rows are filled up to the same number, so that all views are one product; where that would take more
    time than it saves, each view is a product of its own.
    """

    def __init__(self, wanted: Tensor) -> None:
        self.rows = [seen.nonzero().squeeze(-1) for seen in wanted.unbind(1)]
        counts = [len(rows) for rows in self.rows]
        height = -(-max(counts) // _HEIGHTS) * _HEIGHTS
        self.together = len(counts) * height <= _MOST_FILLED * sum(counts)
        self._computed = [pad(rows, (0, height - len(rows))) for rows in self.rows] if self.together else self.rows

    @staticmethod
    def of(wanted: Tensor, *, mapped: bool) -> "Packed | None":
        """Pack the wanted rows (N, V), or return None to compute all of them.

        Hidden rows are skipped on a CPU. On a GPU that would make the device wait for the host, and when several
        runs are computed at once (`mapped`) shapes must not depend on data.
        """
        return None if mapped or wanted.device.type != "cpu" else Packed(wanted)

    def take(self, views: Sequence[Tensor]) -> list[Tensor]:
        """Return the rows to compute of V tensors (N, width)."""
        return [view[rows] for view, rows in zip(views, self._computed, strict=True)]

    def wanted_of(self, parts: Sequence[Tensor]) -> list[Tensor]:
        """Return the wanted rows of V tensors of computed ones."""
        return [part[: len(rows)] for part, rows in zip(parts, self.rows, strict=True)]


def encode_observed(encoders: Perceptrons, views: Sequence[Tensor], observed: Tensor, *, mapped: bool) -> Tensor:
    """Return what the encoders say of the views (N, P_v), (N, V, D); hidden entries mean nothing."""
    packed = Packed.of(observed, mapped=mapped)
    if packed is None:
        return torch.stack(encoders(views, together=True), dim=1)
    parts = packed.wanted_of(encoders(packed.take(views), together=packed.together))
    n_views = len(parts)
    into = torch.cat([rows * n_views + v for v, rows in enumerate(packed.rows)])
    flat = parts[0].new_zeros(len(observed) * n_views, parts[0].shape[1]).index_copy(0, into, torch.cat(parts))
    estimates: Tensor = flat.view(len(observed), n_views, parts[0].shape[1])
    return estimates


def decode_wanted(decoders: Perceptrons, latents: Sequence[Tensor], wanted: Tensor, *, mapped: bool) -> list[Tensor]:
    """Return every view (N, P_v) of its latents (N, D), where wanted (N, V); other rows mean nothing."""
    packed = Packed.of(wanted, mapped=mapped)
    if packed is None:
        return decoders(latents, together=True)  # type: ignore[no-any-return]
    parts = packed.wanted_of(decoders(packed.take(latents), together=packed.together))
    return [
        part.new_zeros(len(wanted), part.shape[1]).index_copy(0, rows, part)
        for part, rows in zip(parts, packed.rows, strict=True)
    ]


class _Layer(nn.Module):
    """``relu(rows @ weight + bias)`` of every view; without `relu`, the product as it is, in full precision.

    Weights are stored as (inputs, outputs): their gradients then come out of the matrix product as they are stored.
    Where `rounded` holds the weights of all views in the rows' type, they need not be rounded again.
    """

    round_to = torch.float32
    rounded: Tensor | None

    def __init__(
        self,
        inputs: Sequence[int],
        outputs: Sequence[int],
        *,
        relu: bool,
        xavier: bool,
        silent: Sequence[int],
        generator: torch.Generator | None,
    ) -> None:
        super().__init__()
        self.relu = relu
        pairs = [_start(*widths, xavier, generator) for widths in zip(inputs, silent, outputs, strict=True)]
        self.stacked = len({weight.shape for weight, _ in pairs}) == 1
        if self.stacked:
            self.weight = nn.Parameter(torch.stack([weight for weight, _ in pairs]))
            self.bias = nn.Parameter(torch.stack([bias for _, bias in pairs]))
            self.register_buffer("rounded", None, persistent=False)
        else:
            self.weights = nn.ParameterList(weight for weight, _ in pairs)
            self.biases = nn.ParameterList(bias for _, bias in pairs)

    def forward(self, rows: Rows, together: bool) -> Rows:
        if not (self.stacked and together):
            parts = rows.unbind() if isinstance(rows, Tensor) else rows
            weights = (self.weight, self.bias) if self.stacked else (self.weights, self.biases)
            each = zip(parts, *weights, strict=True)
            return [_affine(_padded(part, weight), weight, bias, self.relu) for part, weight, bias in each]
        # Padded first: views of different widths share a stack when their padded widths are the same.
        stack = rows if isinstance(rows, Tensor) else torch.stack([_padded(part, self.weight) for part in rows])
        return _affine(_padded(stack, self.weight), self.weight, self.bias, self.relu, self.rounded)


def _start(
    inputs: int, silent: int, outputs: int, xavier: bool, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return weight and bias, as torch's own linear layer starts or the weight by Xavier, zero in the units added.

    The weights of the last inputs, the `silent` ones, are zero, and the others as if these were not there.
    """
    spare = silent + -inputs % _ALIGNMENT, -outputs % _ALIGNMENT
    inputs -= silent
    bound = 1 / math.sqrt(inputs)
    weight, bias = (torch.empty(shape, dtype=torch.float32) for shape in ((inputs, outputs), (outputs,)))
    weight.uniform_(-bound, bound, generator=generator)
    if xavier:
        weight.normal_(0, math.sqrt(2 / (inputs + outputs)), generator=generator)
    bias.uniform_(-bound, bound, generator=generator)
    return pad(weight, (0, spare[1], 0, spare[0])), pad(bias, (0, spare[1]))


def _padded(rows: Tensor, weight: Tensor) -> Tensor:
    spare = weight.shape[-2] - rows.shape[-1]
    return pad(rows, (0, spare)) if spare else rows


def _affine(rows: Tensor, weight: Tensor, bias: Tensor, relu: bool, rounded: Tensor | None = None) -> Tensor:
    """Map rows (..., N, inputs) by weight (..., inputs, outputs) and bias (..., outputs)."""
    if rows.dtype == weight.dtype and not rows.is_cuda:  # nothing is rounded: torch's own gradients cost less Python
        out = torch.addmm(bias, rows, weight) if rows.ndim == 2 else torch.baddbmm(bias.unsqueeze(-2), rows, weight)
        return out.relu_() if relu else out
    if rounded is None or rounded.dtype != rows.dtype:
        rounded = weight.detach().to(rows.dtype)
    result: Tensor = _Affine.apply(rows, weight, bias, rounded, relu)  # type: ignore[no-untyped-call]
    return result


class _Affine(torch.autograd.Function):
    """Product, bias and ReLU as one node: the ReLU works in place and its mask is its output.

    Products take the weight rounded to the rows' type (`narrow`); its gradient is that of the weight as it is.
    """

    @staticmethod
    def forward(rows: Tensor, weight: Tensor, bias: Tensor, narrow: Tensor, relu: bool) -> Tensor:
        if relu and _fused(rows):
            from acova.kernels.layers import add_bias_relu

            return add_bias_relu(_product(rows, narrow, rows.dtype), bias)
        if relu or rows.dtype == weight.dtype:
            out = _product_plus(bias.to(rows.dtype), rows, narrow)
        elif rows.device.type == "cpu":
            out = _product_plus(bias, rows.to(weight.dtype), narrow.to(weight.dtype))
        else:
            out = _product(rows, narrow, weight.dtype).add_(bias.unsqueeze(-2))
        return out.relu_() if relu else out

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], out: Tensor) -> None:
        rows, weight, _, narrow, ctx.relu = inputs
        ctx.set_materialize_grads(False)
        ctx.master, ctx.fused = weight.dtype, _fused(rows)
        ctx.save_for_backward(rows, narrow, out if ctx.relu else None)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, weight, out = ctx.saved_tensors
        if gradient is None:
            return (None,) * 5
        if ctx.fused:
            from acova.kernels.layers import through_bias_relu

            gradient, to_bias = through_bias_relu(gradient, out, rows.dtype)
        else:
            if ctx.relu:
                gradient = torch.ops.aten.threshold_backward(gradient, out, 0)
            gradient = gradient.to(rows.dtype)
            to_bias = gradient.sum(-2, dtype=ctx.master)
        to_rows = gradient @ weight.mT if ctx.needs_input_grad[0] else None
        return to_rows, _product(rows.mT, gradient, ctx.master), to_bias, None, None

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], *inputs: Any) -> tuple[Any, int]:
        """Put the mapped axis first: the function takes any leading axes."""
        *tensors, relu = inputs
        return _Affine.apply(*kernels.leading(info, in_dims, tensors), relu), 0  # type: ignore[no-untyped-call]


def _fused(rows: Tensor) -> bool:
    """Tell whether bias and ReLU are one kernel: where rows are rounded, they are added to a rounded product."""
    return rows.dtype == torch.bfloat16 and kernels.usable(rows)


def _product_plus(bias: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
    if rows.ndim == 2:
        return torch.addmm(bias, rows, weight)
    out = torch.baddbmm(bias.unsqueeze(-2).flatten(0, -3), rows.flatten(0, -3), weight.flatten(0, -3))
    return out.view(*rows.shape[:-1], weight.shape[-1])


def _product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """Multiply, and return the sums in `dtype`; a CPU alone rounds them to the factors' type before."""
    if left.dtype == dtype:
        return left @ right
    if left.device.type == "cpu":
        return (left @ right).to(dtype)
    if left.ndim == 2:
        return torch.mm(left, right, out_dtype=dtype)
    return torch.bmm(left.flatten(0, -3), right.flatten(0, -3), out_dtype=dtype).view(*left.shape[:-1], right.shape[-1])
