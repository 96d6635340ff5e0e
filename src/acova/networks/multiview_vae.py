"""The network of the paper: an auto-encoder per view, one fused posterior, a mixture prior."""

from collections.abc import Sequence
from typing import Any, cast

import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import softplus

from acova import kernels
from acova.functional import (
    Batch,
    Fused,
    ObjectiveParts,
    alignment,
    correlation_matrix,
    correlation_parameter,
    fuse,
    fuse_constant,
    fuse_whitened,
    kl_diagonal,
    known_log_responsibilities,
    log_constant,
    low_rank_correlation,
    low_rank_loadings,
    mixture_of_experts,
    objective_parts,
    optimal_log_responsibilities,
    product_of_experts,
    reconstruction,
    reconstruction_of_cells,
    reparameterise,
    total_reconstruction,
    weighted_average,
    whitener_of,
)
from acova.functional.fusion import Missing
from acova.functional.objectives import LIKELIHOODS as WITH_KERNELS
from acova.networks.base import ClusteringNetwork
from acova.networks.likelihoods import LIKELIHOODS, Likelihood
from acova.networks.mixture_prior import MixturePrior
from acova.networks.perceptrons import Perceptrons, decode_wanted, encode_observed

_SPREAD_OF_LOADINGS = 0.1
"""Standard deviation of what is added to the loadings that learning starts from."""
FUSIONS = ("correlated", "constant", "product", "mixture", "weighted")


class MultiViewVAE(ClusteringNetwork):
    """Encode each observed view, fuse the estimates, assign, decode.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters : int
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    likelihoods : sequence of str
        One of `acova.networks.likelihoods.LIKELIHOODS` for each view.
    blocks : sequence of V tuples of int, optional
        How many columns each encoded column of a view became, for the categorical likelihood.
    alpha : float
        Weight of the alignment.
    correlation : Tensor of shape (V, V) or (G, V, V)
        The start of the learned matrix, or the matrix itself when it is not learned; or one matrix for each of G
        stretches of the latent dimensions.
    learn_correlation : bool
    n_factors : int
        What is learned of the matrix: 0 for a triangle of V(V+1)/2 numbers, or the views' loadings on so many common
        factors, see `low_rank_correlation`.
    missing : {"precision", "marginal"}
    min_std : float
        Floor of the encoders' standard deviations.
    assignment : {"draw", "exact"}
        Training's responsibilities: those of a draw from the posterior, or those that minimise the objective.
    reconstruction_weights : sequence of float, optional
        Factor of each view's reconstruction; 1 by default.
    fusion : {"correlated", "constant", "product", "mixture", "weighted"}
        How estimates become one: under the correlation matrix; under a matrix of one constant, in closed form; as
        independent; as an equal mixture; by one learned weight per view. The last two know no correlation.
    elbo_weight : float
        Weight of the evidence bound.
    temperature : float
        By how much the log probabilities of clusters are divided after training.
    marks : sequence of bool, optional
        The views whose tensors (N, 2P_v) hold, after the values, 1 where a cell is empty and 0 elsewhere. The encoder
        takes both; empty cells are not reconstructed.
    n_covariates : int
        How many numbers the tensor of every view ends with that tell a sample's covariates. The decoders take them
        beside the latent vector.
    encodes_covariates : bool
        Whether the encoders take them, too.
    generator : torch.Generator, optional
        Draws the initial weights (default: torch's global generator).
    """

    correlation_value: Tensor
    alpha: Tensor
    elbo_weight: Tensor
    reconstruction_weights: Tensor
    error_scale: Tensor | None
    """(V, D) factors of the encoders' standard deviations, where views were removed from a trained network."""

    def __init__(
        self,
        view_sizes: Sequence[int],
        latent_dim: int,
        n_clusters: int,
        *,
        hidden: Sequence[int],
        likelihoods: Sequence[str],
        blocks: Sequence[tuple[int, ...]] = (),
        alpha: float,
        correlation: Tensor,
        learn_correlation: bool = True,
        n_factors: int = 0,
        missing: Missing = "precision",
        min_std: float = 1e-4,
        assignment: str = "draw",
        reconstruction_weights: Sequence[float] | None = None,
        fusion: str = "correlated",
        elbo_weight: float = 1.0,
        temperature: float = 1.0,
        marks: Sequence[bool] = (),
        n_covariates: int = 0,
        encodes_covariates: bool = False,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_covariates, self.encodes_covariates = n_covariates, encodes_covariates
        self.temperature = float(temperature)
        self.fusion = fusion
        self.assignment = assignment
        self.likelihoods = tuple(likelihoods)
        given = zip(self.likelihoods, view_sizes, blocks or [()] * len(self.likelihoods), strict=True)
        self.densities = nn.ModuleList(LIKELIHOODS[name](size, of_view) for name, size, of_view in given)
        self.register_buffer("alpha", torch.tensor(float(alpha), dtype=torch.float32), persistent=False)
        self.register_buffer("elbo_weight", torch.tensor(float(elbo_weight), dtype=torch.float32), persistent=False)
        self.missing: Missing = missing
        self.min_std = min_std
        sizes = list(view_sizes)
        self.view_sizes, self.marks = tuple(sizes), tuple(marks) or (False,) * len(sizes)
        marked = [size if has_marks else 0 for size, has_marks in zip(sizes, self.marks, strict=True)]
        silent = [more + (n_covariates if encodes_covariates else 0) for more in marked]
        inputs = [size + more for size, more in zip(sizes, silent, strict=True)]
        weights = torch.tensor(reconstruction_weights or [1.0] * len(sizes), dtype=torch.float32)
        self.register_buffer("reconstruction_weights", weights)
        # An encoder starts as one that takes completed views for observed ones, and learns what marks and covariates
        # mean.
        self.encoders = Perceptrons(
            [inputs, *map(int, hidden), 2 * latent_dim], len(sizes), silent=silent, generator=generator
        )
        ends = [density.widths * size for density, size in zip(self.view_likelihoods, sizes, strict=True)]
        self.decoders = Perceptrons(
            [latent_dim + n_covariates, *map(int, reversed(hidden)), ends], len(sizes), generator=generator
        )
        self.prior = self._new_prior(n_clusters, latent_dim)
        self.register_buffer("error_scale", None)
        self._one_matrix = fusion == "correlated" and correlation.ndim == 2
        correlation = correlation.to(torch.float64)
        self.n_factors = n_factors
        if learn_correlation:
            start = self._parameter_of(correlation).to(torch.float32)
            # Where all loadings are 0, no gradient leads away.
            start = start + _SPREAD_OF_LOADINGS * torch.randn(start.shape, generator=generator) if n_factors else start
            self.correlation_parameter = nn.Parameter(start)
        else:
            self.register_buffer("correlation_value", correlation)
        if fusion == "weighted":
            self.fusion_logits = nn.Parameter(torch.zeros(len(sizes), dtype=torch.float32))

    @property
    def view_likelihoods(self) -> list[Likelihood]:
        """The likelihood of each view, with what it learned."""
        return [cast("Likelihood", density) for density in self.densities]

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Standard normal numbers a sample needs: one draw to decode, one to assign."""
        return 2, self.prior.means.shape[1]

    @property
    def correlates(self) -> bool:
        """Whether the fusion asks for the correlation of the views' errors."""
        return self.fusion not in ("mixture", "weighted")

    @property
    def learns_correlation(self) -> bool:
        """Whether the correlation matrix has a parameter."""
        return hasattr(self, "correlation_parameter")

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round the encoders' and decoders' products to this type in training; the fusion stays exact."""
        self.encoders.dtype = self.decoders.dtype = dtype

    def correlation(self) -> Tensor:
        """Return R (V, V), or one for each stretch of the latent dimensions (G, V, V), in float64 where there is."""
        if not self.learns_correlation:
            return self.correlation_value
        parameter = self.correlation_parameter
        wide = parameter if parameter.device.type == "mps" else parameter.double()
        return low_rank_correlation(wide) if self.n_factors else correlation_matrix(wide)

    @torch.no_grad()
    def set_correlation(self, correlation: Tensor) -> None:
        """Restart the learned matrix, or each of them, from the given one."""
        self.correlation_parameter.copy_(self._parameter_of(correlation.to(torch.float64)))

    def _parameter_of(self, correlation: Tensor) -> Tensor:
        """Return the free parameter of a matrix, or of the nearest one there is."""
        if self.n_factors:
            return low_rank_loadings(correlation, self.n_factors)
        return correlation_parameter(correlation)

    def encode(self, views: Sequence[Tensor], observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the views' means and standard deviations, each (N, V, D); hidden entries mean nothing."""
        mean, scale = self._estimates(views, observed).chunk(2, dim=-1)
        std = self.min_std + softplus(scale)
        return mean, std if self.error_scale is None else std * self.error_scale

    def _estimates(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return what the encoders say, (N, V, 2D)."""
        if self.n_covariates and not self.encodes_covariates:
            views = [view[..., : -self.n_covariates] for view in views]
        return encode_observed(self.encoders, views, observed, mapped=self.mapped)

    def covariates_in(self, views: Sequence[Tensor]) -> Tensor | None:
        """Return what the views' tensors tell of the samples' covariates, (N, n_covariates), if they tell any."""
        return views[0][..., -self.n_covariates :] if self.n_covariates else None

    def fuse(self, mean: Tensor, std: Tensor, observed: Tensor) -> Fused:
        """Fuse the observed views' estimates."""
        match self.fusion:
            case "constant":
                matrix = self.correlation_value
                return fuse_constant(mean, std, observed, matrix[0, 1] if len(matrix) > 1 else 0.0)
            case "product":
                return product_of_experts(mean, std, observed)
            case "mixture":
                return mixture_of_experts(mean, std, observed)
            case "weighted":
                return weighted_average(mean, std, observed, self.fusion_logits)
        return fuse(mean, std, observed, self.correlation(), self.missing)

    def _encode_and_fuse(self, views: Sequence[Tensor], observed: Tensor) -> tuple[tuple[Tensor, Tensor], Fused]:
        """Return the views' estimates and the fused posterior; what needs no estimates is computed beside them."""
        with kernels.beside(observed) as waiting:
            whitener = whitener_of(self.correlation(), observed, self.missing) if self._one_matrix else None
        estimates = self.encode(views, observed)
        kernels.wait_for(waiting)
        if whitener is None:
            return estimates, self.fuse(*estimates, observed)
        return estimates, fuse_whitened(*estimates, observed, whitener)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the fused posterior of each sample."""
        return self.fuse(*self.encode(views, observed), observed)

    def decode(self, latents: Sequence[Tensor], wanted: Tensor, covariates: Tensor | None = None) -> list[Tensor]:
        """Return what the decoders say of each view's latents (N, D), where wanted (N, V); other rows mean nothing.

        `view_likelihoods` make means, quantiles and draws of it. For most of them it is a number per feature (N, P_v).
        Covariates (N, n_covariates) are those of `covariates_in`; without them, every sample has their mean.
        """
        return decode_wanted(self.decoders, self._told(latents, covariates), wanted, mapped=self.mapped)

    def _told(self, latents: Sequence[Tensor], covariates: Tensor | None) -> Sequence[Tensor]:
        """Return what the decoders take: latents (N, D), and behind them the covariates."""
        if not self.n_covariates:
            return latents
        if covariates is None:
            covariates = latents[0].new_zeros(*latents[0].shape[:-1], self.n_covariates)
        return [torch.cat([latent, covariates.to(latent.dtype)], -1) for latent in latents]

    def objective(self, batch: Batch, noise: Tensor, *, fill_weight: float = 0.0) -> ObjectiveParts:
        """Return the parts of the objective per sample.

        Parameters
        ----------
        batch : Batch
        noise : Tensor of shape (N, 2, D)
            Standard normal: one draw to decode, one to assign.
        fill_weight : float
            Weight of the reconstruction of hidden views; above 0, the batch must have targets for them.
        """
        return self._objective(batch, noise, self._shares(batch.observed, fill_weight))[0]

    def score(self, batch: Batch, noise: Tensor) -> dict[str, Tensor]:
        """Return the evidence lower bound of each sample's observed views under the model, (N,), as ``"score"``.

        log p(x | z) with its constants at a draw of z from the fused posterior, minus the divergences of the posterior
        and of the assignment from the prior. The weights of training have no part in it: every feature counts once.
        """
        shares = batch.observed.to(self.reconstruction_weights.dtype)
        parts, _ = self._objective(batch, noise, shares)
        if self._have_kernels:
            pairs = zip(self.likelihoods, self.view_sizes, strict=True)
            present = shares.clone()
            for v, empty in enumerate(self._cells(batch.views)[1]):
                if empty is not None:
                    present[:, v] *= 1 - empty.to(present.dtype).mean(-1)
            constants = present @ shares.new_tensor([log_constant(kind, size) for kind, size in pairs])
        else:
            targets, cells = self.targets(batch, batch.observed)
            of_views = zip(self.view_likelihoods, targets, cells, strict=True)
            constants = torch.stack([density.constant(view, known) for density, view, known in of_views]).sum(0)
        return {"score": constants - parts.negative_elbo()}

    @property
    def _have_kernels(self) -> bool:
        """Whether all views' errors are summed by `total_reconstruction`."""
        return set(self.likelihoods) <= set(WITH_KERNELS)

    def _objective(self, batch: Batch, noise: Tensor, shares: Tensor) -> tuple[ObjectiveParts, dict[str, Tensor]]:
        """Return the parts of the objective, and what tells whether guards acted."""
        observed = batch.observed
        estimates, fused = self._encode_and_fuse(batch.views, observed)
        decoded = reparameterise(fused.mean, fused.variance, noise[:, 0])
        with kernels.beside(decoded) as decoding:
            reconstruction = self._reconstruction(batch, decoded, shares)
        prior = self.prior()
        if self.assignment == "exact":
            log_resp = optimal_log_responsibilities(fused.mean, fused.variance, *prior)
        else:
            assigned = reparameterise(fused.mean, fused.variance, noise[:, 1])
            log_resp = self._log_responsibilities(assigned)
        if batch.labels:
            log_resp = known_log_responsibilities(log_resp, batch.labels[0])
        kernels.wait_for(decoding)
        parts = objective_parts(reconstruction, observed, estimates, fused, log_resp, prior)
        return parts, {"floored": self._floored(estimates[1], observed), "clusters": log_resp.detach().exp()}

    def _new_prior(self, n_clusters: int, latent_dim: int) -> MixturePrior:
        return MixturePrior(n_clusters, latent_dim)

    def _log_responsibilities(self, latent: Tensor) -> Tensor:
        """Return training's log responsibilities (N, K) of draws (N, D) from the posterior."""
        log_resp: Tensor = self.prior.log_responsibilities(latent)
        return log_resp

    def _floored(self, std: Tensor, observed: Tensor) -> Tensor:
        """Return how many of a sample's standard deviations lie at the floor, (N,): within a tenth of it."""
        low = (std.detach() < 1.1 * self.min_std) & observed.unsqueeze(-1)
        return low.sum((-1, -2)).to(std.dtype)

    def _shares(self, observed: Tensor, fill_weight: float) -> Tensor:
        """Return the factor (N, V) of every reconstruction in training."""
        return torch.where(observed, self.reconstruction_weights, fill_weight * self.reconstruction_weights)

    def _cells(self, views: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor | None]]:
        """Return the values of the views (N, P_v), and which of them are empty cells; None where none is marked."""
        parts, more = list(zip(views, self.view_sizes, self.marks, strict=True)), self.n_covariates > 0
        values = [view[..., :size] if marked or more else view for view, size, marked in parts]
        return values, [view[..., size : 2 * size] > 0 if marked else None for view, size, marked in parts]

    def targets(self, batch: Batch, known: Tensor) -> tuple[Sequence[Tensor], list[Tensor]]:
        """Return what views are decoded to, (N, P_v), and which cells (N, P_v) of the known rows (N, V) are known."""
        values, empty = self._cells(batch.views)
        rows = [seen.unsqueeze(-1).expand_as(view) for seen, view in zip(known.unbind(-1), values, strict=True)]
        cells = [seen if none is None else seen & ~none for seen, none in zip(rows, empty, strict=True)]
        return batch.targets or values, cells

    def _reconstruction(self, batch: Batch, latent: Tensor, shares: Tensor) -> Tensor:
        """Return how far views are from what a latent (N, D) is decoded to, summed with their shares (N, V); (N,)."""
        values, empty = self._cells(batch.views)
        targets = batch.targets or values
        covariates = self.covariates_in(batch.views)
        latents = [latent] * len(targets)
        # Cut into views, their gradients would have to be put together again.
        whole = kernels.usable(latent)
        if whole:
            outputs = self.decoders.whole(list(self._told([latent], covariates)) * len(targets), together=True)
        else:
            outputs = self.decode(latents, shares > 0, covariates)
        if self._have_kernels:
            return total_reconstruction(targets, outputs, shares, self.likelihoods, empty)
        of_views = zip(self.view_likelihoods, targets, outputs, self.targets(batch, shares > 0)[1], strict=True)
        return (torch.stack([density.reconstruction(*of_view) for density, *of_view in of_views], -1) * shares).sum(-1)

    def loss(self, batch: Batch, noise: Tensor, *, fill_weight: float = 0.0) -> dict[str, Tensor]:
        """Return the objective and its parts, per sample; `fill_weight` as for `objective`."""
        parts, guards = self._objective(batch, noise, self._shares(batch.observed, fill_weight))
        return {"total": parts.total(self.alpha, self.elbo_weight), **parts._asdict(), **guards}

    def warmup_loss(
        self, batch: Batch, noise: Tensor, *, kl_weight: float, fill_weight: float = 0.0
    ) -> dict[str, Tensor]:
        """Return the objective with one standard normal in the place of the mixture, its KL weighted."""
        observed = batch.observed
        estimates, fused = self._encode_and_fuse(batch.views, observed)
        latent = reparameterise(fused.mean, fused.variance, noise[:, 0])
        with kernels.beside(latent) as decoding:
            reconstruction = self._reconstruction(batch, latent, self._shares(observed, fill_weight))
        zero, one = torch.zeros_like(fused.mean), torch.ones_like(fused.mean)
        kl_z = kl_diagonal(fused.mean, fused.variance, zero, one)
        aligned = alignment(fused, *estimates, observed)
        kernels.wait_for(decoding)
        parts = {"reconstruction": reconstruction, "kl_z": kl_z, "alignment": aligned}
        bound = parts["reconstruction"] + kl_weight * parts["kl_z"]
        total = self.elbo_weight * bound + self.alpha * parts["alignment"]
        return {"total": total, **parts, "floored": self._floored(estimates[1], observed)}

    def codes(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return each view's code, the mean of its estimate, (N, V, D)."""
        return self._estimates(views, observed).chunk(2, dim=-1)[0]

    def autoencoding_loss(self, batch: Batch, noise: Tensor | None = None) -> dict[str, Tensor]:
        """Return the mean error of every view's features through its own code, summed over the observed views.

        It is the squared error, but for likelihoods whose outputs are not in the units of what is encoded.
        """
        views, observed = batch.views, batch.observed
        outputs = self.decode(self.codes(views, observed).unbind(1), observed, self.covariates_in(views))
        targets, cells = self.targets(batch, observed)
        errors = []
        for v, (view, empty) in enumerate(zip(*self._cells(views), strict=True)):
            density, output, seen = self.view_likelihoods[v], outputs[v], observed[:, v]
            if not density.starts_squared:
                error = density.reconstruction(targets[v], output, cells[v])
            elif empty is None:
                error = reconstruction(view, output, seen, "gaussian")
            else:
                error = reconstruction_of_cells(view, output, seen, "gaussian", empty)
            errors.append(error / view.shape[1])
        total = torch.stack(errors).sum(0)
        return {"total": total, "reconstruction": total}

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return the mixture's weights, means and variances, and learned weights of the views."""
        found = super().learned()
        if self.fusion == "weighted":
            found["fusion_weights"] = torch.softmax(self.fusion_logits, 0).cpu().numpy()
        return found
