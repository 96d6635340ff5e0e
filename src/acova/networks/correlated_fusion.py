"""The correlated fusion as a module for other people's networks."""

import torch
from torch import Tensor, nn

from acova.functional import Fused, correlation_matrix, correlation_parameter, fuse
from acova.functional.fusion import Missing


class CorrelatedFusion(nn.Module):
    """Fuse Gaussian estimates of one vector by several modalities, any of which may be missing.

    Each modality's network says a mean and a standard deviation. Their errors are correlated; the matrix that says how
    much is learned with everything else, and is a correlation matrix whatever its parameter is. With the identity
    matrix it is the product of experts, which becomes surer with every modality, also with one that repeats another.

    The matrix is identified if the loss measures the error of the fused estimate, as a likelihood of known targets
    does. It is computed in float64, also under autocast.

    Parameters
    ----------
    n_views : int
        Number of modalities.
    correlation : Tensor of shape (V, V), optional
        The start of the learned matrix, or the matrix itself; the identity by default.
    learn : bool
        Whether the matrix has a parameter.
    missing : {"marginal", "precision"}
        How an absent modality leaves the fusion: the exact marginal, or the masked precision of the paper.

    Examples
    --------
    >>> import torch
    >>> from acova.networks import CorrelatedFusion
    >>> fusion = CorrelatedFusion(3)
    >>> mean, std = torch.zeros(5, 3, 2), torch.ones(5, 3, 2)
    >>> fused = fusion(mean, std, torch.tensor([[True, True, False]]).expand(5, 3))
    >>> fused.mean.shape, fused.variance[0]
    (torch.Size([5, 2]), tensor([0.5000, 0.5000], grad_fn=<SelectBackward0>))
    """

    def __init__(
        self,
        n_views: int,
        *,
        correlation: Tensor | None = None,
        learn: bool = True,
        missing: Missing = "marginal",
    ) -> None:
        super().__init__()
        start = torch.eye(n_views, dtype=torch.float64) if correlation is None else correlation.to(torch.float64)
        if start.shape != (n_views, n_views):
            msg = f"CorrelatedFusion: correlation must have the shape {(n_views, n_views)}; got {tuple(start.shape)}."
            raise ValueError(msg)
        if missing not in ("marginal", "precision"):
            msg = f"CorrelatedFusion: missing must be 'marginal' or 'precision'; got {missing!r}."
            raise ValueError(msg)
        self.missing: Missing = missing
        parameter = correlation_parameter(start)
        if learn:
            self.parameter = nn.Parameter(parameter)
        else:
            self.register_buffer("parameter", parameter)

    def correlation(self) -> Tensor:
        """Return the correlation of the modalities' errors, (V, V)."""
        return correlation_matrix(self.parameter)

    def forward(self, mean: Tensor, std: Tensor, observed: Tensor | None = None) -> Fused:
        """Return the fused means and variances (..., D), and how much each modality counted (..., V, D).

        Parameters
        ----------
        mean, std : Tensor of shape (..., V, D)
            Whatever stands in the rows of an absent modality, NaN included, touches neither a value nor a gradient.
        observed : Tensor of bool, shape (..., V), optional
            True where the modality is present; everywhere by default. A row without any has infinite variance.
        """
        if observed is None:
            observed = torch.ones(mean.shape[:-1], dtype=torch.bool, device=mean.device)
        return fuse(mean, std, observed, self.correlation(), self.missing)
