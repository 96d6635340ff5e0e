"""MVP: views that estimate each other, and estimates that are exchanged along cycles."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from acova.compared.mvp_network import OUTPUTS, CyclicVAE
from acova.engine import ParameterGroup, Phase, generator
from acova.estimators._deep import DeepClusterer
from acova.estimators.rules import NOT_NEGATIVE, Rule, word
from acova.training.job import Job
from acova.training.method import Group, Method
from acova.training.starts import place_by_k_means

# "ours" is our choice where the authors configure nothing; all else is what they configure.
_OURS: dict[str, Any] = {"hidden": (512, 512, 2048), "warmup_epochs": 30, "epochs": 30, "output": "sigmoid"}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # The authors widen the layers of two views and narrow those of one; ours are the same for all views.
    "handwritten": {
        "n_clusters": 10,
        "epochs": 50,
        "likelihood": "laplace",
        "reconstruction_weight": 2.5,
        "permutation_weight": 2.0,
    },
    "caltech5v": {"n_clusters": 7, "hidden": (512, 512, 2048), "reconstruction_weight": 5.0},  # ours
    "scene15": {"n_clusters": 15, "hidden": (512, 512, 2048), "reconstruction_weight": 10.0},
    "fashion": {"n_clusters": 10, "standardize": "unit_view", **_OURS},  # ours
    "noisymnist": {"n_clusters": 10, "standardize": False, **_OURS},  # ours
    "cub": {"n_clusters": 10, "epochs": 50},
}


@dataclass(frozen=True)
class ViewPermutation(Method):
    """The training of MVP: a warm-up, the whole objective, and k-means on the fused latent means."""

    epochs = ("warmup_epochs", "epochs")

    def build(self, job: Job) -> CyclicVAE:
        """Return a network with fresh weights."""
        settings = job.settings
        return CyclicVAE(
            job.sizes,
            settings.latent_dim,
            settings.n_clusters,
            hidden=settings.hidden,
            likelihoods=job.likelihoods,
            output=settings.output,
            reconstruction_weight=settings.reconstruction_weight,
            permutation_weight=settings.permutation_weight,
            generator=generator(job.streams.integer("weights")),
        )

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return the warm-up and training."""
        settings = group.settings
        return (
            _phase(group, "warmup", settings.warmup_epochs, mutual=False),
            _phase(group, "train", settings.epochs, mutual=True, decay=settings.learning_rate_decay),
        )

    def finish(self, group: Group) -> None:
        """Put the clusters where k-means finds them in one pass over the samples."""
        place_by_k_means(group, [group.latent(run) for run in range(len(group.networks))])


def _phase(group: Group, name: str, epochs: int, *, mutual: bool, decay: float = 1.0) -> Phase:
    settings = group.settings
    trained = [name for name in group.runs.parameters if not name.startswith("prior.")]
    return Phase(
        name,
        epochs,
        settings.batch_size,
        partial(CyclicVAE.loss, mutual=mutual),
        [ParameterGroup(trained, group.rates("learning_rate"))],
        noise_shape=group.networks[0].noise_shape,
        decay=decay,
        decay_every=settings.decay_every,
        clip_norm=settings.clip_norm,
        patience=settings.patience,
        tol=settings.tol,
    )


class MVP(DeepClusterer):
    """Multi-view permutation of variational auto-encoders (Gao & Pu, ICLR 2025).

    Correspondence networks turn a view's latent estimate into those of all other views, so every view a sample has
    gives an estimate of all of them. Exchanging the estimates of a view along random cycles must change nothing.
    The common variables of the views that a sample has are fused as a product of experts, and k-means clusters them.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of the latent vectors.
    hidden : tuple of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    likelihood : {"auto", "gaussian", "laplace", "bernoulli"}, or one per view (sequence, or dict by view name)
        ``"bernoulli"`` is for values in [0, 1], which are then not standardised (others: `standardize="unit_view"`);
        ``"auto"`` takes it for features of one kind in [0, 1], else ``"gaussian"``.
    output : {"tanh", "linear", "sigmoid"}
        What decoders end in; the authors' tanh cannot reach values beyond ±1.
    reconstruction_weight : float
        Weight of the reconstruction.
    permutation_weight : float
        Weight of the divergences between estimates and exchanged estimates.
    n_init : int
        Number of independent runs; the one with the lowest trained objective is kept, or all with `consensus`.
    consensus : bool
        Match the clusters of all runs and average their assignments, in `predict` too.
    warmup_epochs : int
        First epochs, with divergences in one direction and without decoding exchanged estimates.
    epochs : int
        Epochs of the whole objective after them.
    batch_size : int
        Samples per step of the optimiser.
    learning_rate : float
        Adam's learning rate.
    learning_rate_decay : float
        Factor on the learning rate after every `decay_every` of `epochs`.
    decay_every : int
        Epochs between two such steps.
    clip_norm : float or None
        Longest gradient; longer ones are shortened to it.
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs;
        None trains all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    standardize : bool or {"auto", "zscore", "range", "cosine", "unit", "unit_view"}, or one per view (sequence or dict)
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
    labels_ : array of shape (n_samples,)
    probabilities_ : array of shape (n_samples, n_clusters)
        As if every cluster were a round Gaussian around its centre with the clusters' pooled variance.
    means_ : array of shape (n_clusters, latent_dim)
        Centres of k-means.
    agreement_, view_weights_, history_, objective_, objectives_, n_iter_, network_, settings_
        As for `ACOVA`.

    Notes
    -----
    `score` is minus the mean objective per sample (see `objective_`): the divergences between exchanged estimates are
    not those of a bound on the evidence.

    See Also
    --------
    ACOVA : Learns one latent space from the views that samples have.
    """

    method = ViewPermutation()
    presets = PRESETS
    _rules: ClassVar[Mapping[str, Rule]] = {
        "output": word(*OUTPUTS),
        "reconstruction_weight": NOT_NEGATIVE,
        "permutation_weight": NOT_NEGATIVE,
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 16,
        hidden: Sequence[int] = (256, 256, 1024),
        likelihood: str | Sequence[str] | Mapping[str, str] = "gaussian",
        output: str = "tanh",
        reconstruction_weight: float = 1.0,
        permutation_weight: float = 1.0,
        n_init: int = 1,
        consensus: bool = False,
        warmup_epochs: int = 100,
        epochs: int = 150,
        batch_size: int = 512,
        learning_rate: float = 1e-3,
        learning_rate_decay: float = 0.5,
        decay_every: int = 100,
        clip_norm: float | None = 12.0,
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
        self.likelihood = likelihood
        self.output = output
        self.reconstruction_weight = reconstruction_weight
        self.permutation_weight = permutation_weight
        self.n_init = n_init
        self.consensus = consensus
        self.warmup_epochs = warmup_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.decay_every = decay_every
        self.clip_norm = clip_norm
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
