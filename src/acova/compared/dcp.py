"""DCP: codes on the simplex that agree across views, and predictors of the codes that are missing."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from acova.base import OptionError
from acova.compared.dcp_network import GRAPHS, OUTPUTS, DualPrediction
from acova.data import StoredViews, Views
from acova.engine import ParameterGroup, Phase, RunData, generator
from acova.estimators._deep import DeepClusterer
from acova.estimators.rules import NOT_NEGATIVE, Rule, number, word
from acova.training.job import Job, Settings
from acova.training.method import Group, Method, complete_rows
from acova.training.requirements import Requirements
from acova.training.starts import place_by_k_means

_SETTLING_ROWS = 20_000
"""Complete samples, evenly spread where there are more, whose statistics normalise predictions."""

# Of DCP's authors: Scene15's and Caltech's forms for more than two views (Caltech101-20), and NoisyMNIST.
_THREE_VIEWS: dict[str, Any] = {"warmup_epochs": 100, "epochs": 200}
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "handwritten": {"n_clusters": 10, **_THREE_VIEWS},  # ours: the authors do not configure it
    "caltech5v": {"n_clusters": 7, "learning_rate": 3e-4, "warmup_epochs": 50, "epochs": 100},
    "scene15": {"n_clusters": 15, **_THREE_VIEWS},
    "fashion": {"n_clusters": 10, "latent_dim": 40},  # ours
    "noisymnist": {"n_clusters": 10, "latent_dim": 40},
    "cub": {"n_clusters": 10},  # ours
}


@dataclass(frozen=True)
class ContrastivePrediction(Method):
    """The training of DCP on complete samples: without the predictors, with them, and k-means on all codes."""

    epochs = ("warmup_epochs", "epochs")
    requirements = Requirements("it compares samples with each other", one_process=True, complete_only=True)

    def suited(self, settings: Settings, left_open: Collection[str], views: Views | StoredViews) -> Settings:
        """Return the settings, or raise where the core view is none of the views."""
        if settings.core_view >= views.n_views:
            msg = (
                f"{settings.who}: core_view must be the number of one of the {views.n_views} views, from 0; got "
                f"{settings.core_view}."
            )
            raise OptionError(msg)
        return settings

    def build(self, job: Job) -> DualPrediction:
        """Return a network with fresh weights."""
        settings = job.settings
        return DualPrediction(
            job.sizes,
            settings.latent_dim,
            settings.n_clusters,
            hidden=settings.hidden,
            graph=settings.graph,
            core_view=settings.core_view,
            output=settings.output,
            entropy=settings.entropy_weight,
            reconstruction_weight=settings.reconstruction_weight,
            prediction_weight=settings.prediction_weight,
            generator=generator(job.streams.integer("weights")),
        )

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return the warm-up and training, on the complete samples."""
        settings, everything = group.settings, _in_memory(group)
        rows = complete_rows(everything, len(group.jobs))
        complete = RunData(everything.views, everything.observed, data_set=everything.data_set, rows=rows)
        return (
            _phase(group, complete, "warmup", settings.warmup_epochs, predicts=False),
            _phase(group, complete, "train", settings.epochs, predicts=True),
        )

    def finish(self, group: Group) -> None:
        """Keep the statistics of complete samples, and put the clusters where k-means finds them in the codes."""
        data = _in_memory(group)
        rows = complete_rows(data, len(group.jobs))
        for run, network in enumerate(group.networks):
            chosen = rows[run, :: -(-rows.shape[1] // _SETTLING_ROWS)]
            network.settle([view[chosen] for view in data.of_run(run).views])
        place_by_k_means(group, [group.latent(run) for run in range(len(group.networks))])


def _in_memory(group: Group) -> RunData:
    return cast(RunData, group.data)  # views on disk are refused beforehand


def _phase(group: Group, data: RunData, name: str, epochs: int, *, predicts: bool) -> Phase:
    settings = group.settings
    kinds = ("encoders.", "decoders.", *(("predictors.",) if predicts else ()))
    return Phase(
        name,
        epochs,
        settings.batch_size,
        partial(DualPrediction.loss, predicts=predicts),
        [ParameterGroup(group.parameters(*kinds), group.rates("learning_rate"))],
        patience=settings.patience,
        tol=settings.tol,
        drop_last="always" if settings.drop_last else "joined",
        data=data,
    )


class DCP(DeepClusterer):
    """Dual contrastive prediction (Lin et al., TPAMI 2022), with its forms for more than two views.

    Every view is encoded as a point of the simplex. Samples that have all views teach the codes of linked views to have
    much information in common, and predictors to turn one view's code into another's; the codes of missing views are
    predicted, and k-means clusters the codes of all views side by side. A new sample is encoded, completed and given
    the nearest centre in the same way.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of each view's code.
    hidden : tuple of int
        Widths of the encoders' hidden layers; the decoders mirror them. All are batch-normalised.
    graph : {"core", "complete"}
        Which views are linked: every view with the core view, or all with each other. For two views the same.
    core_view : int
        Number of the core view.
    output : {"relu", "linear"}
        What decoders end in: batch normalisation and ReLU, as published, which cannot give negative values; or nothing.
    entropy_weight : float
        How much the entropies of the codes count in the contrast, of which 1 makes it the mutual information.
    reconstruction_weight : float
        Weight of the reconstruction.
    prediction_weight : float
        Weight of the predictors' errors.
    n_init : int
        Number of independent runs; the one with the lowest trained objective is kept, or all with `consensus`.
    consensus : bool
        Match the clusters of all runs and average their assignments, in `predict` too.
    warmup_epochs : int
        First epochs, without training the predictors.
    epochs : int
        Epochs of the whole objective after them.
    batch_size : int
        Samples per step of the optimiser.
    drop_last : bool
        Leave out the last batch of every epoch, even a full one, as the authors' program does: with no more complete
        samples than `batch_size`, nothing is trained. By default all complete samples are used.
    learning_rate : float
        Adam's learning rate.
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs;
        None trains all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    standardize : bool or {"auto", "zscore", "range", "cosine", "unit", "unit_view"}, or one per view (sequence or dict)
        Scale features by statistics of observed rows; ``"unit"`` brings every feature to [0, 1], ``"unit_view"`` the
        view as a whole.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training.
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
    means_ : array of shape (n_clusters, V * latent_dim)
        Centres of k-means.
    view_weights_ : array of shape (n_samples, V)
        The views that a sample has, each with the same weight.
    agreement_, history_, objective_, objectives_, n_iter_, network_, settings_
        As for `ACOVA`.

    Notes
    -----
    `score` is minus the mean objective per sample (see `objective_`): there is no generative model whose evidence it
    could bound.

    See Also
    --------
    ACOVA : Learns one latent space from the views that samples have.
    """

    method = ContrastivePrediction()
    presets = PRESETS
    _rules: ClassVar[Mapping[str, Rule]] = {
        "graph": word(*GRAPHS),
        "output": word(*OUTPUTS),
        "core_view": number(minimum=0, integer=True),
        **dict.fromkeys(("entropy_weight", "reconstruction_weight", "prediction_weight"), NOT_NEGATIVE),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 128,
        hidden: Sequence[int] = (1024, 1024, 1024),
        graph: str = "core",
        core_view: int = 0,
        output: str = "relu",
        entropy_weight: float = 10.0,
        reconstruction_weight: float = 0.1,
        prediction_weight: float = 0.1,
        n_init: int = 1,
        consensus: bool = False,
        warmup_epochs: int = 100,
        epochs: int = 400,
        batch_size: int = 256,
        drop_last: bool = False,
        learning_rate: float = 1e-4,
        patience: int | None = None,
        tol: float = 1e-3,
        view_sizes: Sequence[int] | None = None,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = "unit",
        device: str = "auto",
        precision: str = "tf32",
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.graph = graph
        self.core_view = core_view
        self.output = output
        self.entropy_weight = entropy_weight
        self.reconstruction_weight = reconstruction_weight
        self.prediction_weight = prediction_weight
        self.n_init = n_init
        self.consensus = consensus
        self.warmup_epochs = warmup_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.learning_rate = learning_rate
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
