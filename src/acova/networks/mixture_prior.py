"""The Gaussian-mixture prior whose components are the clusters."""

import torch
from torch import Tensor, nn

from acova.functional import log_responsibilities, mixture_scale, mixture_scale_parameter

_MIN_SCALE = 1e-3


class MixturePrior(nn.Module):
    """Weights, means and scales of K Gaussians in D dimensions, each valid for any parameter value.

    It starts with equal weights, zero means and unit scales.
    """

    def __init__(self, n_clusters: int, latent_dim: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_clusters))
        self.means = nn.Parameter(torch.zeros(n_clusters, latent_dim))
        self.scale = nn.Parameter(mixture_scale_parameter(torch.ones(n_clusters, latent_dim), _MIN_SCALE))

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log weights (K,), means (K, D) and variances (K, D)."""
        return self.logits.log_softmax(-1), self.means, mixture_scale(self.scale, _MIN_SCALE).square()

    @torch.no_grad()
    def place(self, means: Tensor, variances: Tensor) -> None:
        """Move the components to the given means and variances, (K, D)."""
        self.means.copy_(means)
        self.scale.copy_(mixture_scale_parameter(variances.sqrt(), _MIN_SCALE))

    def log_responsibilities(self, latent: Tensor) -> Tensor:
        """Return log q(c | z) of shape (..., K) for latents (..., D)."""
        return log_responsibilities(latent, *self())
