"""What training and inference ask of a network."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acova.functional import Batch, Fused, distant_log_responsibilities
from acova.networks.mixture_prior import MixturePrior

_FAR = 1e4
"""Latent coordinates from which densities in 32-bit numbers may round away what tells clusters apart."""


class ClusteringNetwork(nn.Module):
    """A network that gives samples a latent vector, and latent vectors cluster probabilities.

    Attributes
    ----------
    prior : Module
        What assigns latent vectors to clusters, usually a `MixturePrior`.
    mapped : bool
        Whether several runs are computed at once, so that shapes must not depend on data.
    temperature : float
        By how much the log probabilities of `assign` are divided.
    """

    prior: Any
    mapped = False
    temperature = 1.0

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """Standard normal numbers that the loss needs of each sample."""
        return (0,)

    @property
    def correlates(self) -> bool:
        """Whether the fusion knows a correlation of the views' errors, given by ``correlation()``."""
        return False

    def correlation(self) -> Tensor:
        """Return the correlation of the views' errors (V, V), or several (G, V, V), where `correlates` is true."""
        raise NotImplementedError

    @property
    def n_clusters(self) -> int:
        """Number of clusters."""
        return len(self.prior.logits)

    @property
    def latent_dim(self) -> int:
        """Number of coordinates of the fused latent vector."""
        return int(self.prior.means.shape[1])

    def loss(self, batch: Batch, noise: Tensor) -> dict[str, Tensor]:
        """Return the objective of the last phase of training, ``"total"``, and its parts, each (N,)."""
        raise NotImplementedError

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> Fused:
        """Return the fused posterior of each sample."""
        raise NotImplementedError

    def score(self, batch: Batch, noise: Tensor) -> dict[str, Tensor]:
        """Return ``"score"`` (N,), larger for a better model: minus the objective where there is no bound."""
        return {"score": -self.loss(batch, noise)["total"]}

    def assign(self, latent: Tensor) -> Tensor:
        """Return the cluster probabilities (N, K) of latent vectors (N, D); far from all clusters in float64.

        They are the prior's to the power of one over the temperature, which leaves the order of a sample's clusters.
        """
        shares = self._tempered(self.prior.log_responsibilities(latent))
        far = latent.abs().amax(-1) > _FAR
        if isinstance(self.prior, MixturePrior) and latent.device.type != "mps" and bool(far.any()):
            shares[far] = self._tempered(distant_log_responsibilities(latent[far], *self.prior())).to(shares.dtype)
        return shares

    def log_shares(self, latent: Tensor) -> Tensor:
        """Return the prior's log cluster probabilities (N, K) of latent vectors (N, D), at temperature 1."""
        logs: Tensor = self.prior.log_responsibilities(latent)
        return logs

    def _tempered(self, log_shares: Tensor) -> Tensor:
        if self.temperature == 1.0:
            return log_shares.exp()
        return (log_shares / self.temperature).softmax(-1)

    def renumber(self, order: Tensor) -> None:
        """Give cluster ``order[k]`` the number k."""
        self.prior.renumber(order)

    def compute_in(self, dtype: torch.dtype) -> None:
        """Round products to this type in training."""
        raise NotImplementedError

    def learned(self) -> dict[str, NDArray[Any]]:
        """Return what an estimator offers as attributes, by name: the mixture's weights, means and variances."""
        log_weights, means, variances = (part.cpu().numpy() for part in self.prior())
        return {"weights": np.exp(log_weights), "means": means, "variances": variances}
