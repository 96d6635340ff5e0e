"""A trained network with one view more, or one less: every other part keeps its numbers."""

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from acova.functional import Batch, remaining_correlation, remaining_loadings
from acova.networks.multiview_vae import MultiViewVAE
from acova.networks.perceptrons import Perceptrons


@torch.no_grad()
def take_over(network: MultiViewVAE, trained: MultiViewVAE, places: Sequence[int | None]) -> MultiViewVAE:
    """Give a fresh network what another has learned, and return it.

    A learned correlation is bordered with zeros for views that are added at the end; for views that are gone see
    `remaining_correlation`.

    Parameters
    ----------
    network : MultiViewVAE
        For other views than the trained one, but with the same widths inside, the same clusters and latent space.
    trained : MultiViewVAE
    places : sequence of V (int or None)
        Which of the trained network's views each view is; None for views that it does not know, after all others.
    """
    for mine, theirs in ((network.encoders, trained.encoders), (network.decoders, trained.decoders)):
        _copy_perceptrons(mine, theirs, places)
    for density, place in zip(network.densities, places, strict=True):
        if place is not None:
            density.load_state_dict(trained.densities[place].state_dict())
    network.prior.load_state_dict(trained.prior.state_dict())
    network.temperature = trained.temperature
    known = [place for place in places if place is not None]
    if network.fusion == "weighted":
        kept = trained.fusion_logits[known]
        network.fusion_logits[: len(known)] = kept
        network.fusion_logits[len(known) :] = kept.mean()
    _take_over_correlation(network, trained, known)
    return network


def parts_of_last_view(network: MultiViewVAE, *, correlation: bool) -> dict[str, Tensor | None]:
    """Return the parameters that belong to the last view alone, by name.

    Of a parameter that other views share it is a mask, True in the view's part; None stands for all of it. A mask has
    the parameter's last axes, so that it also fits networks that are stacked.

    Parameters
    ----------
    network : MultiViewVAE
    correlation : bool
        Whether the view's correlations with the others belong to it. These are the last row of the packed triangle,
        which no other entry of the matrix depends on.
    """
    last = len(network.view_sizes) - 1
    of_view = torch.arange(last + 1, device=network.prior.means.device) == last
    found: dict[str, Tensor | None] = {}
    for name, parameter in network.named_parameters():
        of_perceptron = name.startswith(("encoders.", "decoders."))
        if of_perceptron and name.endswith(".weight"):
            found[name] = of_view[:, None, None]
        elif of_perceptron and name.endswith(".bias"):
            found[name] = of_view[:, None]
        elif of_perceptron and name.endswith(f".{last}"):
            found[name] = None
        elif name == "fusion_logits":
            found[name] = of_view
        elif name == "correlation_parameter" and correlation:
            places = torch.arange(parameter.shape[-1], device=of_view.device)
            found[name] = of_view[:, None] if network.n_factors else places >= len(places) - (last + 1)
    return found


def last_view_loss(network: MultiViewVAE, batch: Batch, noise: Tensor, *, fill_weight: float) -> dict[str, Tensor]:
    """Return what teaches the last view where the others put a sample, per sample that has it.

    It is the objective, and again the objective of a sample that has nothing but the last view, from which all that it
    has is decoded. Beside the others the view would hardly learn what to say without them.
    """
    found = network.loss(batch, noise, fill_weight=fill_weight)
    only = torch.zeros_like(batch.observed)
    only[..., -1] = batch.observed[..., -1]
    shares = network._shares(batch.observed, fill_weight)
    alone, _ = network._objective(batch._replace(observed=only), noise, shares)
    return {**found, "total": found["total"] + alone.total(network.alpha, network.elbo_weight)}


def _copy_perceptrons(mine: Perceptrons, theirs: Perceptrons, places: Sequence[int | None]) -> None:
    for own, other in zip(mine.layers, theirs.layers, strict=True):
        for v, place in enumerate(places):
            if place is not None:
                for into, source in zip(_of_view(own, v), _of_view(other, place), strict=True):
                    into.copy_(source)


def _of_view(layer: nn.Module, v: int) -> tuple[Tensor, Tensor]:
    """Return windows on a view's weight and bias."""
    if layer.stacked:
        return cast("Tensor", layer.weight)[v], cast("Tensor", layer.bias)[v]
    return cast("nn.ParameterList", layer.weights)[v], cast("nn.ParameterList", layer.biases)[v]


def _take_over_correlation(network: MultiViewVAE, trained: MultiViewVAE, known: Sequence[int]) -> None:
    before, after = len(trained.view_sizes), len(network.view_sizes)
    scale = trained.error_scale
    if len(known) < before and network.correlates and network.fusion == "correlated":
        matrix, factor = remaining_correlation(trained.correlation(), list(known), network.missing)
        if network.n_factors:
            loadings = remaining_loadings(trained.correlation_parameter.double(), list(known), network.missing)
            network.correlation_parameter.copy_(loadings)
        elif network.learns_correlation:
            network.set_correlation(matrix)
        else:
            network.correlation_value.copy_(matrix)
        factors = _by_dimension(factor, network.latent_dim).to(network.prior.means)
        scale = factors if scale is None else scale[list(known)] * factors
        scale = None if bool((scale == 1).all()) else scale
    elif network.learns_correlation:
        kept, whole = trained.correlation_parameter, network.correlation_parameter.zero_()
        place = (..., slice(kept.shape[-2]), slice(None)) if network.n_factors else (..., slice(kept.shape[-1]))
        whole[place] = kept
    if scale is not None:
        more = scale.new_ones(after - len(scale), scale.shape[1])
        network.error_scale = torch.cat([scale, more])


def _by_dimension(factor: Tensor, latent_dim: int) -> Tensor:
    """Return factors (V,), or (G, V) for each stretch of the latent dimensions, as (V, D)."""
    if factor.ndim == 1:
        return factor[:, None].expand(-1, latent_dim)
    stretches = torch.arange(latent_dim).tensor_split(len(factor))
    parts = [of_stretch[:, None].expand(-1, len(some)) for of_stretch, some in zip(factor, stretches, strict=True)]
    return torch.cat(parts, dim=1)
