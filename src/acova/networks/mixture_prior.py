"""The Gaussian-mixture prior whose components are the clusters."""

import torch
from torch import Tensor, nn

from acova.functional import log_responsibilities, mixture_scale, mixture_scale_parameter

MIN_STD = 1e-3


class MixturePrior(nn.Module):
    """Weights, means and scales of K Gaussians in D dimensions, each valid for any parameter value.

    It starts with equal weights, zero means and unit scales.

    Parameters
    ----------
    n_clusters, latent_dim : int
    """

    _power, _floor = 2, MIN_STD
    """What of the variance is its free parameter, by the power that gives the variance; its least value."""

    def __init__(self, n_clusters: int, latent_dim: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_clusters, dtype=torch.float32))
        self.means = nn.Parameter(torch.zeros(n_clusters, latent_dim, dtype=torch.float32))
        self.scale = nn.Parameter(mixture_scale_parameter(torch.ones_like(self.means.detach()), self._floor))

    def forward(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log weights (K,), means (K, D) and variances (K, D)."""
        return self.logits.log_softmax(-1), self.means, mixture_scale(self.scale, self._floor) ** self._power

    @torch.no_grad()
    def place(self, means: Tensor, variances: Tensor, weights: Tensor | None = None) -> None:
        """Move the components to the given means and variances, (K, D), and give them new weights (K,), if any."""
        if weights is not None:
            self.logits.copy_(weights.log())
        self.means.copy_(means)
        self.scale.copy_(mixture_scale_parameter(variances ** (1 / self._power), self._floor))

    @torch.no_grad()
    def renumber(self, order: Tensor) -> None:
        """Give component ``order[k]`` the number k."""
        for parameter in (self.logits, self.means, self.scale):
            parameter.copy_(parameter[order])

    def log_responsibilities(self, latent: Tensor) -> Tensor:
        """Return log q(c | z) of shape (..., K) for latents (..., D)."""
        return log_responsibilities(latent, *self())
