"""DVIMC: ACOVA's family with independent errors, trained as DVIMC's authors train it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor
from torch.nn.functional import softplus

from acova.estimators._deep import DeepClusterer
from acova.estimators.rules import BY_SIZE, NOT_NEGATIVE, Rule
from acova.functional import log_responsibilities
from acova.networks.mixture_prior import MIN_STD, MixturePrior
from acova.networks.multiview_vae import MultiViewVAE
from acova.training.job import Settings
from acova.training.phases import Variational

# "ours" is our choice where the authors configure nothing; all else is what they configure.
_OURS = {"alpha": 15.0, "learning_rate": 3e-4, "prior_learning_rate": 1e-2}  # ACOVA's row of the paper's table
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "handwritten": {"n_clusters": 10, **_OURS},  # ours: the authors do not configure it
    "caltech5v": {"n_clusters": 7, "alpha": 5.0, "standardize": "range"},
    "scene15": {"n_clusters": 15, "alpha": 20.0},
    "fashion": {"n_clusters": 10, "likelihood": "bernoulli", "standardize": "unit_view"},
    "noisymnist": {"n_clusters": 10, "likelihood": "bernoulli", "standardize": False, "batch_size": 512},
    "cub": {"n_clusters": 10, "alpha": 60.0, "standardize": False},  # ours
}


# --- the network and its training ---------------------------------------------------------------


class VariancePrior(MixturePrior):
    """A mixture prior whose free parameters stand for variances; parameters are those of `MixturePrior`."""

    _power, _floor = 1, MIN_STD**2


class VarianceVAE(MultiViewVAE):
    """The network of DVIMC: encoders and prior speak of variances.

    Parameters
    ----------
    density_floor : float
        Added to the joint densities of training's responsibilities.
    view_sizes, latent_dim, n_clusters, settings
        As for `MultiViewVAE`.
    """

    def __init__(
        self, view_sizes: Sequence[int], latent_dim: int, n_clusters: int, *, density_floor: float, **settings: Any
    ) -> None:
        super().__init__(view_sizes, latent_dim, n_clusters, **settings)
        self.density_floor = density_floor

    def encode(self, views: Sequence[Tensor], observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the views' means and standard deviations, each (N, V, D); hidden entries mean nothing."""
        mean, variance = self._estimates(views, observed).chunk(2, dim=-1)
        return mean, (self.min_std**2 + softplus(variance)).sqrt()

    def _new_prior(self, n_clusters: int, latent_dim: int) -> MixturePrior:
        return VariancePrior(n_clusters, latent_dim)

    def _log_responsibilities(self, latent: Tensor) -> Tensor:
        log_weights, means, variances = self.prior()
        return log_responsibilities(latent, log_weights, means, variances, self.density_floor)


@dataclass(frozen=True)
class ProductOfExperts(Variational):
    """The training of DVIMC."""

    fusion: str = "product"

    def constructor(self, settings: Settings) -> Callable[..., VarianceVAE]:
        """Return what makes a network from the parameters of `MultiViewVAE`."""
        return partial(VarianceVAE, density_floor=settings.density_floor)


# --- the estimator ------------------------------------------------------------------------------


class DVIMC(DeepClusterer):
    """Deep variational incomplete multi-view clustering: a product of experts (Xu et al., AAAI 2024).

    The same family with independent errors, trained as its authors train it: encoders and prior speak of variances,
    learning rates fall in steps, gradients are clipped at 10, clusters start from the averaged codes of complete
    samples.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of the latent vector.
    hidden : tuple of int or "auto"
        Widths of the encoders' hidden layers; the decoders mirror them. ``"auto"`` chooses by the number of samples:
        (64, 64, 256) up to 3,000, else (256, 256, 1024).
    alpha : float
        Weight of the alignment between the fused posterior and each view's own.
    likelihood : str, or one per view (sequence, or dict by view name)
        What a view's values are like, as in `ACOVA`.
    density_floor : float
        Added to the joint densities in training's responsibilities, which become equal far from all clusters; 0
        leaves them exact. Predictions always are.
    n_init : int or "auto"
        Number of independent runs; the one with the lowest trained objective is kept, or all with `consensus`.
        ``"auto"`` is 5 up to 5,000 samples, 3 up to 20,000, else 1.
    consensus : bool
        Match the clusters of all runs and average their assignments, in `predict` too.
    pretrain_epochs : int
        Epochs of the separate auto-encoders.
    epochs : int
        Epochs of the whole model.
    batch_size : int
        Samples per step of the optimiser.
    learning_rate : float
        Adam's learning rate for the encoders and decoders.
    prior_learning_rate : float
        Learning rate of the mixture's means and scales.
    weight_learning_rate : float
        Learning rate of the mixture weights' logits; 0 keeps the weights.
    pretrain_learning_rate : float
        Learning rate of the separate auto-encoders.
    learning_rate_decay : float
        Factor on the learning rates (but pretraining's) after every `decay_every` epochs of the whole model.
    decay_every : int
        Epochs between two such steps.
    clip_norm : float or None
        Longest gradient; longer ones are shortened to it.
    min_std : float
        Floor of the encoders' standard deviations.
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs;
        None trains all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    standardize : bool or {"auto", "zscore", "range", "cosine", "counts", "unit", "unit_view"}, or one per view
        Scale features by statistics of observed rows, as in `ACOVA`.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks in training, as in `ACOVA`.
    checkpoint : str, Path or None
        Folder in which the fit keeps its state, as in `ACOVA`.
    checkpoint_every : int
        Epochs between checkpoints.
    random_state : int, RandomState or None
        The same integer gives the same result on the same machine.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_, probabilities_, agreement_, view_weights_, weights_, means_, variances_, history_, objective_, network_
        As for `ACOVA`.

    See Also
    --------
    ACOVA : The same with learned correlations of the views' errors.
    CoDE : A fusion by conflict of the views.
    """

    method = ProductOfExperts()
    presets = PRESETS
    _fixed: ClassVar[Mapping[str, Any]] = {
        "recipe": "paper",
        "warmup_epochs": 0,
        "warmup_kl": 0.0,
        "cluster_start": "codes",
        "balance": False,
        "reconstruction_scale": False,
        "view_weights": "equal",
        "neighbor_weight": 0.0,
        "assignment": "draw",
        "elbo_weight": 1.0,
    }
    _rules: ClassVar[Mapping[str, Rule]] = {**BY_SIZE, "density_floor": NOT_NEGATIVE}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 10,
        hidden: Sequence[int] | str = (500, 500, 2000),
        alpha: float = 10.0,
        likelihood: str | Sequence[str] | Mapping[str, str] = "gaussian",
        density_floor: float = 1e-10,
        n_init: int | str = 1,
        consensus: bool = False,
        pretrain_epochs: int = 200,
        epochs: int = 300,
        batch_size: int = 256,
        learning_rate: float = 5e-4,
        prior_learning_rate: float = 5e-2,
        weight_learning_rate: float = 1e-4,
        pretrain_learning_rate: float = 1e-3,
        learning_rate_decay: float = 0.9,
        decay_every: int = 10,
        clip_norm: float | None = 10.0,
        min_std: float = 1e-4,
        patience: int | None = None,
        tol: float = 1e-3,
        view_sizes: Sequence[int] | None = None,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = True,
        device: str = "auto",
        precision: str = "auto",
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.alpha = alpha
        self.likelihood = likelihood
        self.density_floor = density_floor
        self.n_init = n_init
        self.consensus = consensus
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.prior_learning_rate = prior_learning_rate
        self.weight_learning_rate = weight_learning_rate
        self.pretrain_learning_rate = pretrain_learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.decay_every = decay_every
        self.clip_norm = clip_norm
        self.min_std = min_std
        self.patience = patience
        self.tol = tol
        self.view_sizes = view_sizes
        self.standardize = standardize
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.verbose = verbose
