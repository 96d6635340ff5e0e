"""The network that CPSPAN and PMIMC share: an auto-encoder per view, codes made alike, and donors of missing codes."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acova.functional import Batch, Fused, cross_view_lenders, mean_errors, same_view_lenders, side_by_side
from acova.networks import MixturePrior, Perceptrons
from acova.networks.base import ClusteringNetwork
from acova.networks.perceptrons import decode_wanted, encode_observed


class AlignedAutoencoders(ClusteringNetwork):
    """An encoder and a decoder per view; subclasses say what aligns the codes.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters : int
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    impute : {"cross_view", "zero_code"}
        What finds the donor of a missing code: the views that the sample has, or the code of a row of zeros.
    instance_weight, prototype_weight : float
        Weights of the two alignments.
    prototypes : str
        Which form the second has.
    generator : torch.Generator, optional
        Draws the initial weights (default: torch's global generator).
    """

    def __init__(
        self,
        view_sizes: Sequence[int],
        latent_dim: int,
        n_clusters: int,
        *,
        hidden: Sequence[int],
        impute: str,
        instance_weight: float,
        prototype_weight: float,
        prototypes: str,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        sizes, inner = list(view_sizes), list(map(int, hidden))
        self.n_views, self.impute, self.form = len(sizes), impute, prototypes
        self.instance_weight, self.prototype_weight = instance_weight, prototype_weight
        self.encoders = Perceptrons([sizes, *inner, latent_dim], self.n_views, generator=generator)
        self.decoders = Perceptrons([latent_dim, *reversed(inner), sizes], self.n_views, generator=generator)
        self.donors = Donors(self.n_views, latent_dim)
        self.prior = MixturePrior(n_clusters, self.n_views * latent_dim)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round the encoders' and decoders' products to this type in training."""
        self.encoders.dtype = self.decoders.dtype = dtype

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return the centres of the clusters."""
        return {"means": self.prior.means.cpu().numpy()}

    def codes(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return every view's code (N, V, D); those of hidden views mean nothing."""
        return encode_observed(self.encoders, views, observed, mapped=self.mapped)

    def autoencoding_loss(self, batch: Batch, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Return the sum of the views' mean squared errors, each over the samples that have the view."""
        total = self._misfit(batch, self.codes(batch.views, batch.observed)).expand(len(batch.observed))
        return {"total": total, "reconstruction": total}

    def loss(self, batch: Batch, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Return the objective of the batch and its parts, the same for every sample; the noise is ignored."""
        observed, codes = batch.observed, self.codes(batch.views, batch.observed)
        parts = {"reconstruction": self._misfit(batch, codes)}
        nothing = torch.zeros_like(parts["reconstruction"])
        pairs = list(combinations(range(self.n_views), 2))
        both = {(v, w): (observed[:, v] & observed[:, w]).to(codes.dtype) for v, w in pairs}
        each = [self.instance_misfit(codes[:, v], codes[:, w], both[v, w]) for v, w in pairs]
        parts["instances"] = torch.stack([nothing, *each]).sum()
        each = [self.prototype_misfit(codes, observed, v, w, both[v, w]) for v, w in pairs]
        parts["prototypes"] = torch.stack([nothing, *each]).sum()
        total = parts["reconstruction"] + self.instance_weight * parts["instances"]
        total = total + self.prototype_weight * parts["prototypes"]
        return {name: value.expand(len(observed)) for name, value in {"total": total, **parts}.items()}

    def _misfit(self, batch: Batch, codes: Tensor) -> Tensor:
        outputs = decode_wanted(self.decoders, codes.unbind(1), batch.observed, mapped=self.mapped)
        seen = batch.observed.to(codes.dtype).unbind(1)
        errors = [
            mean_errors(view, output, rows) for view, output, rows in zip(batch.views, outputs, seen, strict=True)
        ]
        return torch.stack(errors).sum()

    def instance_misfit(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        """Return how far two views' codes (N, D) of one sample are apart, over the rows (N,) that have both."""
        raise NotImplementedError

    def prototype_misfit(self, codes: Tensor, observed: Tensor, v: int, w: int, rows: Tensor) -> Tensor:
        """Return how far the prototypes of views v and w are apart; `rows` (N,) are those that have both."""
        raise NotImplementedError

    def completed(self, views: Sequence[Tensor], observed: Tensor, oracle: Sequence[Tensor] | None = None) -> Tensor:
        """Return all codes (N, V, D), those of missing views lent by a donor.

        `oracle` are the views with what they hide, NaN where even that is not known: their codes then find the donors.
        """
        codes = self.codes(views, observed)
        queries = None
        if oracle is not None:
            everything = torch.ones_like(observed)
            queries = self.codes([view.nan_to_num() for view in oracle], everything)
            unknown = torch.stack([view.isnan().any(-1) for view in oracle], dim=1)
            queries = queries.masked_fill(unknown.unsqueeze(-1), torch.nan)
        elif self.impute == "zero_code":
            zeros = [torch.zeros_like(view[:1]) for view in views]
            queries = self.codes(zeros, torch.ones_like(observed[:1])).expand_as(codes)
        return self.donors.fill(codes, observed, queries)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the completed codes side by side."""
        return side_by_side(self.completed(views, observed), observed)


class Donors(nn.Module):
    """Codes of training samples in all views they have, which prediction lends to others; empty until they are set.

    Parameters
    ----------
    n_views, latent_dim : int
    """

    codes: Tensor
    observed: Tensor

    def __init__(self, n_views: int, latent_dim: int) -> None:
        super().__init__()
        self.register_buffer("codes", torch.zeros(0, n_views, latent_dim, dtype=torch.float32))
        self.register_buffer("observed", torch.zeros(0, n_views, dtype=torch.bool))

    def set(self, codes: Tensor, observed: Tensor) -> None:
        """Take these codes (M, V, D), of the views that are observed (M, V)."""
        self.codes, self.observed = codes.clone(), observed.clone()

    def fill(self, codes: Tensor, observed: Tensor, queries: Tensor | None = None) -> Tensor:
        """Return codes (n, V, D) with those of hidden views lent by the most similar donor that has the view.

        Donors are compared in the views that both have, or, given codes that stand for the hidden ones (`queries`,
        NaN where there is none), in the hidden view itself. Where no donor can be compared, the mean of all donors'
        codes stands in.
        """
        filled = torch.where(observed.unsqueeze(-1), codes, 0.0)
        for v, lacks in enumerate((~observed).unbind(1)):
            has = self.observed[:, v]
            filled[lacks, v] = self.codes[has, v].mean(0)
        lacking = (~observed).any(1).nonzero().squeeze(-1)
        if not len(lacking):
            return filled
        lenders = cross_view_lenders(codes[lacking], observed[lacking], self.codes, self.observed, 1)
        for v, of_view in enumerate(lenders):
            self._lend(filled, v, lacking, of_view.row, of_view.found & ~observed[lacking, v].unsqueeze(-1))
            known = None if queries is None else (~observed[:, v] & queries[:, v].isfinite().all(-1)).nonzero()
            if queries is not None and known is not None and len(known):
                rows = known.squeeze(-1)
                found = same_view_lenders(queries[rows, v], self.codes[:, v], self.observed[:, v])
                self._lend(filled, v, rows, found.row, found.found)
        return filled

    def _lend(self, filled: Tensor, v: int, rows: Tensor, index: Tensor, found: Tensor) -> None:
        at = found.squeeze(-1)
        filled[rows[at], v] = self.codes[index.squeeze(-1)[at], v]

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *args: Any) -> None:
        """Read donors of any number."""
        for name in ("codes", "observed"):
            saved = state_dict.get(f"{prefix}{name}")
            if saved is not None:
                setattr(self, name, torch.empty_like(saved, device=getattr(self, name).device))
        super()._load_from_state_dict(state_dict, prefix, *args)
