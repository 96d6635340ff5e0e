"""The network of the paper: an auto-encoder per view, one fused posterior, a mixture prior."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn

from acova.functional import (
    Fused,
    ObjectiveParts,
    alignment,
    correlation_matrix,
    correlation_parameter,
    fuse,
    kl_diagonal,
    objective_parts,
    reconstruction,
    reparameterise,
    total_reconstruction,
)
from acova.functional.aggregation import Missing
from acova.networks.mixture_prior import MixturePrior
from acova.networks.perceptron import Decoder, Encoder, on_rows


class MultiViewVAE(nn.Module):
    """Encode each observed view, fuse the estimates under a correlation matrix, assign, decode.

    Parameters
    ----------
    view_sizes : sequence of int
        Number of features of each view.
    latent_dim, n_clusters : int
    hidden : sequence of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    likelihoods : sequence of str
        ``"gaussian"`` or ``"bernoulli"`` for each view.
    alpha : float
        Weight of the alignment.
    correlation : Tensor of shape (V, V)
        The start of the learned matrix, or the matrix itself when it is not learned.
    learn_correlation : bool
    missing : {"precision", "marginal"}
    min_std : float
        Floor of the encoders' standard deviations.
    """

    correlation_value: Tensor
    alpha: Tensor
    mapped = False
    """Whether several runs are computed at once, so that shapes must not depend on data."""

    def __init__(
        self,
        view_sizes: Sequence[int],
        latent_dim: int,
        n_clusters: int,
        *,
        hidden: Sequence[int],
        likelihoods: Sequence[str],
        alpha: float,
        correlation: Tensor,
        learn_correlation: bool = True,
        missing: Missing = "precision",
        min_std: float = 1e-4,
    ) -> None:
        super().__init__()
        self.likelihoods = tuple(likelihoods)
        self.register_buffer("alpha", torch.tensor(float(alpha)), persistent=False)
        self.missing: Missing = missing
        self.encoders = nn.ModuleList(Encoder(size, hidden, latent_dim, min_std) for size in view_sizes)
        self.decoders = nn.ModuleList(Decoder(size, hidden, latent_dim) for size in view_sizes)
        self.prior = MixturePrior(n_clusters, latent_dim)
        correlation = correlation.to(torch.float64)
        if learn_correlation:
            self.correlation_parameter = nn.Parameter(correlation_parameter(correlation).to(torch.float32))
        else:
            self.register_buffer("correlation_value", correlation)

    @property
    def learns_correlation(self) -> bool:
        """Whether the correlation matrix has a parameter."""
        return hasattr(self, "correlation_parameter")

    def correlation(self) -> Tensor:
        """Return R (V, V), in float64 where the device has it."""
        if not self.learns_correlation:
            return self.correlation_value
        parameter = self.correlation_parameter
        return correlation_matrix(parameter if parameter.device.type == "mps" else parameter.double())

    @torch.no_grad()
    def set_correlation(self, correlation: Tensor) -> None:
        """Restart the learned matrix from the given one."""
        self.correlation_parameter.copy_(correlation_parameter(correlation.to(torch.float64)))

    def encode(self, views: Sequence[Tensor], observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the views' means and standard deviations, each (N, V, D); hidden entries mean nothing."""
        estimates = torch.stack(
            [
                self._on_rows(encoder, view, observed[:, v])
                for v, (encoder, view) in enumerate(zip(self.encoders, views, strict=True))
            ],
            dim=1,
        )
        return estimates[:, :, 0], estimates[:, :, 1]

    def fuse(self, mean: Tensor, std: Tensor, observed: Tensor) -> Fused:
        """Fuse the observed views' estimates."""
        return fuse(mean, std, observed, self.correlation(), self.missing)

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the fused posterior of each sample."""
        return self.fuse(*self.encode(views, observed), observed)

    def decode(self, latent: Tensor, observed: Tensor) -> list[Tensor]:
        """Return every view (N, P_v) of latents (N, D), where observed."""
        return [self._on_rows(decoder, latent, observed[:, v]) for v, decoder in enumerate(self.decoders)]

    def objective(self, views: Sequence[Tensor], observed: Tensor, noise: Tensor) -> ObjectiveParts:
        """Return the parts of the objective per sample.

        Parameters
        ----------
        views : sequence of V tensors of shape (N, P_v)
        observed : Tensor of bool, shape (N, V)
        noise : Tensor of shape (N, 2, D)
            Standard normal: one draw to decode, one to assign.
        """
        estimates = self.encode(views, observed)
        fused = self.fuse(*estimates, observed)
        decoded = reparameterise(fused.mean, fused.variance, noise[:, 0])
        assigned = reparameterise(fused.mean, fused.variance, noise[:, 1])
        return objective_parts(
            views,
            self.decode(decoded, observed),
            observed,
            self.likelihoods,
            estimates,
            fused,
            self.prior.log_responsibilities(assigned),
            self.prior(),
        )

    def loss(self, views: Sequence[Tensor], observed: Tensor, noise: Tensor) -> dict[str, Tensor]:
        """Return the objective of a batch and its parts, averaged over the samples."""
        parts = self.objective(views, observed, noise).mean()
        return {"total": parts.total(self.alpha), **parts._asdict()}

    def warmup_loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor, *, kl_weight: float
    ) -> dict[str, Tensor]:
        """Return the objective with one standard normal in the place of the mixture, its KL weighted."""
        estimates = self.encode(views, observed)
        fused = self.fuse(*estimates, observed)
        outputs = self.decode(reparameterise(fused.mean, fused.variance, noise[:, 0]), observed)
        parts = {
            "reconstruction": total_reconstruction(views, outputs, observed, self.likelihoods).mean(),
            "kl_z": kl_diagonal(
                fused.mean, fused.variance, torch.zeros_like(fused.mean), torch.ones_like(fused.mean)
            ).mean(),
            "alignment": alignment(fused, *estimates, observed).mean(),
        }
        total = parts["reconstruction"] + kl_weight * parts["kl_z"] + self.alpha * parts["alignment"]
        return {"total": total, **parts}

    def codes(self, views: Sequence[Tensor], observed: Tensor) -> Tensor:
        """Return each view's code, the mean of its estimate, (N, V, D)."""
        return torch.stack(
            [self._on_rows(encoder.code, view, observed[:, v]) for v, (encoder, view) in self._with(views)], dim=1
        )

    def autoencoding_loss(
        self, views: Sequence[Tensor], observed: Tensor, noise: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Return the mean squared error of every view through its own code, summed over the views."""
        errors = []
        for v, (encoder, view) in self._with(views):
            seen = observed[:, v]
            output = self._on_rows(self.decoders[v], self._on_rows(encoder.code, view, seen), seen)
            cells = seen.sum().clamp(min=1) * view.shape[1]
            errors.append(reconstruction(view, output, seen, "gaussian").sum() / cells)
        total = torch.stack(errors).sum()
        return {"total": total, "reconstruction": total}

    def _on_rows(self, function: Callable[[Tensor], Tensor], rows: Tensor, seen: Tensor) -> Tensor:
        return on_rows(function, rows, seen, skip=not self.mapped)

    def _with(self, views: Sequence[Tensor]) -> Iterator[tuple[int, tuple[Encoder, Tensor]]]:
        return enumerate(zip(self.encoders, views, strict=True))  # type: ignore[arg-type]
