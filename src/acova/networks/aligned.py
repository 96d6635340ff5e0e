"""The networks of CPSPAN and PMIMC: an auto-encoder per view, codes made alike, and donors of missing codes."""

from collections.abc import Sequence
from itertools import combinations

import torch
from torch import Tensor, nn

from acova.functional import (
    Fused,
    column_misfit,
    group_means,
    mean_errors,
    nearest_centers,
    neighbourhood_divergence,
    partner_misfit,
    robust_matching,
)
from acova.networks.donors import Donors, side_by_side
from acova.networks.mixture_prior import MixturePrior
from acova.networks.perceptrons import Perceptrons, decode_wanted, encode_observed

ALIGNMENTS = ("matched", "released")
PROTOTYPES = ("centers", "released")
IMPUTATIONS = ("cross_view", "zero_code")
_LLOYD_STEPS = 3


class AlignedAutoencoders(nn.Module):
    """An encoder and a decoder per view.

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

    mapped = False
    correlates = False
    noise_shape = (0,)

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

    def renumber(self, order: Tensor) -> None:
        """Give cluster ``order[k]`` the number k."""
        self.prior.renumber(order)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round the encoders' and decoders' products to this type in training."""
        self.encoders.dtype = self.decoders.dtype = dtype

    def codes(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return every view's code (N, V, D); those of hidden views mean nothing."""
        return encode_observed(self.encoders, views, observed, mapped=self.mapped)

    def autoencoding_loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the sum of the views' mean squared errors, each over the samples that have the view."""
        total = self._misfit(views, self.codes(views, observed), observed).expand(len(observed))
        return {"total": total, "reconstruction": total}

    def loss(self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Return the objective of the batch and its parts, the same for every sample.

        Parameters
        ----------
        views : sequence of V tensors of shape (N, P_v)
        observed : Tensor of bool, shape (N, V)
        noise : ignored
        """
        codes = self.codes(views, observed)
        parts = {"reconstruction": self._misfit(views, codes, observed)}
        nothing = torch.zeros_like(parts["reconstruction"])
        pairs = list(combinations(range(self.n_views), 2))
        both = {(v, w): (observed[:, v] & observed[:, w]).to(codes.dtype) for v, w in pairs}
        each = [self._instances(codes[:, v], codes[:, w], both[v, w]) for v, w in pairs]
        parts["instances"] = torch.stack([nothing, *each]).sum()
        each = [self._prototypes(codes, observed, v, w, both[v, w]) for v, w in pairs]
        parts["prototypes"] = torch.stack([nothing, *each]).sum()
        total = parts["reconstruction"] + self.instance_weight * parts["instances"]
        total = total + self.prototype_weight * parts["prototypes"]
        return {name: value.expand(len(observed)) for name, value in {"total": total, **parts}.items()}

    def _misfit(self, views: Sequence[Tensor], codes: Tensor, observed: Tensor) -> Tensor:
        outputs = decode_wanted(self.decoders, codes.unbind(1), observed, mapped=self.mapped)
        seen = observed.to(codes.dtype).unbind(1)
        errors = [mean_errors(view, output, rows) for view, output, rows in zip(views, outputs, seen, strict=True)]
        return torch.stack(errors).sum()

    def _instances(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def _prototypes(self, codes: Tensor, observed: Tensor, v: int, w: int, rows: Tensor) -> Tensor:
        raise NotImplementedError

    def completed(self, views: Sequence[Tensor], observed: Tensor, hidden: Sequence[Tensor] | None = None) -> Tensor:
        """Return all codes (N, V, D), those of missing views lent by a donor.

        `hidden` are the views with what they hide, NaN where even that is not known: their codes then find the donors.
        """
        codes = self.codes(views, observed)
        queries = None
        if hidden is not None:
            everything = torch.ones_like(observed)
            queries = self.codes([view.nan_to_num() for view in hidden], everything)
            unknown = torch.stack([view.isnan().any(-1) for view in hidden], dim=1)
            queries = queries.masked_fill(unknown.unsqueeze(-1), torch.nan)
        elif self.impute == "zero_code":
            zeros = [torch.zeros_like(view[:1]) for view in views]
            queries = self.codes(zeros, torch.ones_like(observed[:1])).expand_as(codes)
        return self.donors.fill(codes, observed, queries)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the completed codes side by side."""
        return side_by_side(self.completed(views, observed), observed)


class PrototypeAlignment(AlignedAutoencoders):
    """The network of CPSPAN; parameters are those of `AlignedAutoencoders`.

    ``prototypes="matched"`` compares the means of matched clusters, around centres that are kept in `centers`;
    ``"released"`` compares all columns of the codes, as the authors' program does.
    """

    def __init__(self, view_sizes: Sequence[int], latent_dim: int, n_clusters: int, **settings: object) -> None:
        super().__init__(view_sizes, latent_dim, n_clusters, **settings)  # type: ignore[arg-type]
        self.centers = nn.Parameter(torch.zeros(self.n_views, n_clusters, latent_dim, dtype=torch.float32))

    def _instances(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        return partner_misfit(first, second, rows)

    def _prototypes(self, codes: Tensor, observed: Tensor, v: int, w: int, rows: Tensor) -> Tensor:
        if self.form == "released":
            return column_misfit(codes[:, v], codes[:, w], rows)
        means = []
        for view in (v, w):
            centers, mine = self.centers[view].detach(), codes[:, view]
            nearest = nearest_centers(mine.detach(), centers)
            means.append(group_means(mine, nearest, observed[:, view].to(mine.dtype), len(centers)))
        (first, first_sizes), (second, second_sizes) = means
        exist = ((first_sizes > 0) & (second_sizes > 0)).to(first.dtype)
        return partner_misfit(first, second, exist)


class PrototypeMatching(AlignedAutoencoders):
    """The network of PMIMC; parameters are those of `AlignedAutoencoders`.

    Parameters
    ----------
    prototype_rate : float
        Prototypes as a share of a batch. ``prototypes="centers"`` starts them at the codes of samples that have both
        views and moves them to the centres of what is nearest; ``"released"`` takes each view's first codes as they
        are, so that with missing views the k-th of one view and the k-th of another are of different samples.
    """

    def __init__(
        self,
        view_sizes: Sequence[int],
        latent_dim: int,
        n_clusters: int,
        *,
        prototype_rate: float,
        **settings: object,
    ) -> None:
        super().__init__(view_sizes, latent_dim, n_clusters, **settings)  # type: ignore[arg-type]
        self.prototype_rate = prototype_rate

    def _instances(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        return neighbourhood_divergence(first, second, rows)

    def _prototypes(self, codes: Tensor, observed: Tensor, v: int, w: int, rows: Tensor) -> Tensor:
        count = max(1, int(self.prototype_rate * len(codes)))
        if self.form == "released":
            first, first_exist = _leading(codes[:, v], observed[:, v], count)
            second, second_exist = _leading(codes[:, w], observed[:, w], count)
            return robust_matching(first, second, first_exist * second_exist)
        both = rows > 0
        starts = [_leading(codes[:, view], both, count) for view in (v, w)]
        moved = [
            _moved(codes[:, view], observed[:, view], start) for view, (start, _) in zip((v, w), starts, strict=True)
        ]
        return robust_matching(moved[0], moved[1], starts[0][1])


def _leading(codes: Tensor, chosen: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the first codes (count, D) of the chosen rows (N,), and which of them there are, (count,)."""
    order = chosen.to(torch.int8).argsort(descending=True, stable=True)[:count]
    return codes[order], chosen[order].to(codes.dtype)


def _moved(codes: Tensor, observed: Tensor, start: Tensor) -> Tensor:
    """Return prototypes (M, D) moved to the means of the observed codes (N, D) nearest to them."""
    rows, centers = observed.to(codes.dtype), start
    for _ in range(_LLOYD_STEPS):
        nearest = nearest_centers(codes.detach(), centers.detach())
        means, sizes = group_means(codes, nearest, rows, len(start))
        centers = torch.where((sizes > 0).unsqueeze(-1), means, centers)
    return centers
