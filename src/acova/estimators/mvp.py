"""MVP: views that speak of each other, and what they say exchanged along cycles."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

from acova.base import Streams
from acova.engine import ParameterGroup, Phase, Trainer, generator
from acova.estimators._validation import plain_copy
from acova.estimators.method_presets import MVP_PRESETS
from acova.estimators.variational import VariationalClusterer
from acova.networks import CyclicVAE
from acova.networks.cyclic_vae import OUTPUTS
from acova.training.phases import Job
from acova.training.starts import in_chunks, place_by_k_means


class MVP(VariationalClusterer):
    """Multi-view permutation of variational auto-encoders (Gao & Pu, ICLR 2025).

    Correspondence networks turn a view's latent estimate into those of all other views, so every view a sample has
    gives an estimate of all of them. Exchanging what views say of a target along random cycles must change nothing.
    The common variables of the views that a sample has are fused as a product of experts, and k-means clusters them.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of the latent vectors.
    hidden : tuple of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    likelihood : {"gaussian", "laplace", "bernoulli"}, or one per view (sequence, or dict by view name)
        ``"bernoulli"`` is for values in [0, 1], which are then not standardised (others: `standardize="unit_view"`).
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
    standardize : bool or {"zscore", "range", "cosine", "unit", "unit_view"}
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
    agreement_, view_weights_, history_, objective_, objectives_, n_iter_, network_
        As for `ACOVA`.
    """

    presets = MVP_PRESETS
    pretrain_epochs = 0
    balance = False
    reconstruction_scale = False
    neighbor_weight = 0.0
    view_weights = "equal"
    cluster_start = "fused"
    _words: ClassVar[Any] = {"output": tuple(OUTPUTS)}

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
        standardize: bool | str = True,
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

    def _resolved(self) -> Self:
        return plain_copy(self)

    def _new_network(  # type: ignore[override]
        self,
        view_sizes: Sequence[int],
        likelihoods: Sequence[str],
        streams: Streams,
        weights: Sequence[float] | None = None,
    ) -> CyclicVAE:
        return CyclicVAE(
            view_sizes,
            self.latent_dim,
            self.n_clusters,
            hidden=self.hidden,
            likelihoods=likelihoods,
            output=self.output,
            reconstruction_weight=self.reconstruction_weight,
            permutation_weight=self.permutation_weight,
            generator=generator(streams.integer("weights")),
        )

    def score(self, X: Any, y: Any = None, *, observed: Any = None) -> float:
        """Return minus the mean objective per sample (see `objective_`).

        The divergences between exchanged estimates are not those of a bound on the evidence.
        """
        return -self._mean_of("total", X, observed)

    @staticmethod
    def _train(trainer: Trainer, jobs: Sequence[Job], networks: Sequence[CyclicVAE]) -> None:
        settings: MVP = jobs[0].settings
        trainer.train(_phase(trainer, jobs, "warmup", settings.warmup_epochs, mutual=False))
        trainer.train(_phase(trainer, jobs, "train", settings.epochs, mutual=True))
        _place_clusters(trainer, jobs, networks)


def _phase(trainer: Trainer, jobs: Sequence[Job], name: str, epochs: int, *, mutual: bool) -> Phase:
    settings, network = jobs[0].settings, trainer.runs.networks[0]
    trained = [name for name in trainer.runs.parameters if not name.startswith("prior.")]
    return Phase(
        name,
        epochs,
        settings.batch_size,
        partial(CyclicVAE.loss, mutual=mutual),
        [ParameterGroup(trained, [float(job.settings.learning_rate) for job in jobs])],
        noise_shape=network.noise_shape,  # type: ignore[arg-type]
        decay=settings.learning_rate_decay if mutual else 1.0,
        decay_every=settings.decay_every,
        clip_norm=settings.clip_norm,
        patience=settings.patience,
        tol=settings.tol,
    )


@torch.no_grad()
def _place_clusters(trainer: Trainer, jobs: Sequence[Job], networks: Sequence[CyclicVAE]) -> None:
    """Put the clusters where k-means finds them in one pass over the samples; the nearest centre is most probable."""
    points = []
    for run, network in enumerate(networks):
        chunks = [network.posterior(*batch).mean for batch in in_chunks(*trainer.data.of_run(run))]
        points.append(trainer.data.processes.gather(torch.cat(chunks)))
    place_by_k_means(jobs, networks, points)
