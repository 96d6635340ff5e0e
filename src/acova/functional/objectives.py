"""The named parts of the training objective, one value per sample."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import softplus

from acova import kernels
from acova.functional.fusion import Fused
from acova.functional.gaussian import kl_diagonal
from acova.functional.mixture import expected_kl_to_components, kl_assignment

LIKELIHOODS = ("gaussian", "bernoulli", "laplace")
"""The likelihoods of `reconstruction`, which have GPU kernels; `acova.networks.likelihoods` has these and others."""


class ObjectiveParts(NamedTuple):
    """What the objective is made of; every field has one value per sample, or their mean."""

    reconstruction: Tensor
    kl_z: Tensor
    kl_c: Tensor
    alignment: Tensor

    def negative_elbo(self) -> Tensor:
        """Return minus the evidence lower bound (up to the likelihood's constant)."""
        return self.reconstruction + self.kl_z + self.kl_c

    def total(self, alpha: float | Tensor, elbo_weight: float | Tensor = 1.0) -> Tensor:
        """Return the paper's objective: -ELBO + α·alignment, the first part weighted."""
        return elbo_weight * self.negative_elbo() + alpha * self.alignment

    def mean(self) -> "ObjectiveParts":
        """Average every part over the samples."""
        return ObjectiveParts(*(part.mean() for part in self))


def reconstruction(view: Tensor, output: Tensor, observed: Tensor, likelihood: str) -> Tensor:
    """Return -log p(x_v | z) of one view, summed over features; 0 where the view is hidden.

    Parameters
    ----------
    view : Tensor of shape (..., P)
        The data; in [0, 1] for ``"bernoulli"``.
    output : Tensor of shape (..., P) or wider
        What the decoder gives: means for ``"gaussian"`` and ``"laplace"``, logits for ``"bernoulli"``. More than P are
        left alone.
    observed : Tensor of bool, shape (...)
    likelihood : {"gaussian", "bernoulli", "laplace"}
        ``"gaussian"`` has variance 1/2, as in the published program, and drops its constant: the summed
        squared error. ``"laplace"`` is the summed absolute error.

    Returns
    -------
    Tensor of shape (...)
    """
    if likelihood not in LIKELIHOODS:
        msg = f"reconstruction: likelihood must be one of {LIKELIHOODS}; got {likelihood!r}."
        raise ValueError(msg)
    if output.ndim == 2 and _has_kernel(output, [view]):
        return _misfits(output.unsqueeze(0), observed.unsqueeze(-1), [likelihood], [view]).squeeze(-1)
    output = output[..., : view.shape[-1]]
    loss: Tensor = _Misfit.apply(output, view, observed, likelihood)  # type: ignore[no-untyped-call]
    return loss


def reconstruction_of_cells(view: Tensor, output: Tensor, observed: Tensor, likelihood: str, empty: Tensor) -> Tensor:
    """Return the `reconstruction` of one view, summed over the cells that are not `empty` (..., P)."""
    cells = view.unsqueeze(-1), output[..., : view.shape[-1]].unsqueeze(-1)
    return reconstruction(*cells, observed.unsqueeze(-1) & ~empty, likelihood).sum(-1)


def log_constant(likelihood: str, size: int) -> float:
    """Return what `reconstruction` leaves out of log p(x_v | z) of a view with this many features.

    Gaussian features have variance 1/2, Laplace features scale 1. For Bernoulli views nothing is left out; between 0
    and 1 their cross-entropy is no normalised density.
    """
    if likelihood == "gaussian":
        return -0.5 * size * math.log(math.pi)
    return -size * math.log(2.0) if likelihood == "laplace" else 0.0


def _has_kernel(outputs: Tensor, views: Sequence[Tensor]) -> bool:
    return kernels.usable(outputs) and all(part.dtype == torch.float32 for part in (outputs, *views))


def _misfits(outputs: Tensor, observed: Tensor, likelihoods: Sequence[str], views: Sequence[Tensor]) -> Tensor:
    """Return the `reconstruction` of V views, (N, V), of outputs in one tensor (V, N, W)."""
    from acova.kernels.misfit import Misfit

    losses: Tensor = Misfit.apply(outputs, observed, tuple(likelihoods), *views)  # type: ignore[no-untyped-call]
    return losses


class _Misfit(torch.autograd.Function):
    """The sum over features with its gradient written out, so that a step's largest tensors are read rarely."""

    generate_vmap_rule = True

    @staticmethod
    def forward(output: Tensor, view: Tensor, observed: Tensor, likelihood: str) -> Tensor:
        if likelihood == "bernoulli":
            loss = torch.addcmul(softplus(output), output, view, value=-1.0).sum(-1)
        elif likelihood == "laplace":
            loss = (output - view).abs().sum(-1)
        else:
            loss = (output - view).square().sum(-1)
        return loss.masked_fill(~observed, 0.0)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.likelihood = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        output, view, observed = ctx.saved_tensors
        if ctx.likelihood == "bernoulli":
            slope = output.sigmoid() - view
        else:
            slope = (output - view).sign() if ctx.likelihood == "laplace" else 2.0 * (output - view)
        # Hidden entries may be NaN, which a factor of zero would not remove.
        return (slope * gradient.unsqueeze(-1)).masked_fill(~observed.unsqueeze(-1), 0.0), None, None, None


def total_reconstruction(
    views: Sequence[Tensor],
    outputs: Sequence[Tensor] | Tensor,
    shares: Tensor,
    likelihoods: Sequence[str],
    empty: Sequence[Tensor | None] | None = None,
) -> Tensor:
    """Return the `reconstruction` of V views (..., P_v), summed with the weights `shares` (..., V); shape (...).

    Outputs are V tensors, or one (V, ...), as wide as the views or wider. A share of 0 leaves a view out, whatever its
    cells hold. `empty` are cells (..., P_v) to leave out, None for a view without any.
    """
    empty = [None] * len(views) if empty is None else empty
    if isinstance(outputs, Tensor):
        whole = all(cells is None for cells in empty)
        if outputs.ndim == 3 and whole and _has_kernel(outputs, views):
            return (_misfits(outputs, shares > 0, likelihoods, views) * shares).sum(-1)
        outputs = outputs.unbind()
    losses = [
        reconstruction(view, output, shares[..., v] > 0, likelihood)
        if cells is None
        else reconstruction_of_cells(view, output, shares[..., v] > 0, likelihood, cells)
        for v, (view, output, likelihood, cells) in enumerate(zip(views, outputs, likelihoods, empty, strict=True))
    ]
    return (torch.stack(losses, dim=-1) * shares).sum(-1)


def alignment(fused: Fused, mean: Tensor, std: Tensor, observed: Tensor) -> Tensor:
    """Return the mean over observed views of KL(fused ‖ view).

    Parameters
    ----------
    fused : Fused
        With mean and variance of shape (..., D).
    mean, std : Tensor of shape (..., V, D)
    observed : Tensor of bool, shape (..., V)

    Returns
    -------
    Tensor of shape (...)
    """
    hidden = ~observed.unsqueeze(-1)
    fused_mean, fused_variance = fused.mean.unsqueeze(-2), fused.variance.unsqueeze(-2)
    # NaN is replaced before any arithmetic: a gradient of 0 times NaN would still be NaN.
    view_mean, view_variance = mean.masked_fill(hidden, 0.0), std.masked_fill(hidden, 1.0).square()
    divergences = kl_diagonal(fused_mean, fused_variance, view_mean, view_variance)
    return divergences.masked_fill(hidden.squeeze(-1), 0.0).sum(-1) / observed.sum(-1).clamp(min=1)


def objective_parts(
    reconstruction: Tensor,
    observed: Tensor,
    estimates: tuple[Tensor, Tensor],
    fused: Fused,
    log_resp: Tensor,
    prior: tuple[Tensor, Tensor, Tensor],
) -> ObjectiveParts:
    """Return every part of the objective, per sample.

    Parameters
    ----------
    reconstruction : Tensor of shape (...)
        `total_reconstruction` of what the decoders make of a draw from the fused posterior.
    observed : Tensor of bool, shape (..., V)
    estimates : pair of tensors of shape (..., V, D)
        The views' means and standard deviations.
    fused : Fused
    log_resp : Tensor of shape (..., K)
        Log responsibilities at a second draw.
    prior : log weights (K,), means (K, D), variances (K, D)

    Returns
    -------
    ObjectiveParts
    """
    log_weights, means, variances = prior
    return ObjectiveParts(
        reconstruction=reconstruction,
        kl_z=expected_kl_to_components(fused.mean, fused.variance, log_resp, means, variances),
        kl_c=kl_assignment(log_resp, log_weights),
        alignment=alignment(fused, *estimates, observed),
    )
