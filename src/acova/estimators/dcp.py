"""DCP: codes on the simplex that agree across views, and predictors of the codes that are missing."""

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar, Self, cast

from acova.base import OptionError, Streams
from acova.data import StoredViews, Views
from acova.engine import ParameterGroup, Phase, RunData, Trainer, generator
from acova.estimators._validation import NOT_NEGATIVE
from acova.estimators.coded import DEFAULTS, NOT_THEIRS, CodeClusterer, complete_rows, posterior_points
from acova.estimators.method_presets import DCP_PRESETS
from acova.estimators.variants import variant
from acova.networks import DualPrediction
from acova.networks.dual_prediction import GRAPHS, OUTPUT_ENDS
from acova.training.phases import Job, rates
from acova.training.starts import place_by_k_means

_SETTLING_ROWS = 20_000
"""Complete samples, evenly spread where there are more, whose statistics normalise predictions."""


@variant(
    fixed={**NOT_THEIRS, "pretrain_epochs": 0, "pretrain_learning_rate": 1.0},
    own={
        **DEFAULTS,
        "latent_dim": 128,
        "hidden": (1024, 1024, 1024),
        "warmup_epochs": 100,
        "epochs": 400,
        "learning_rate": 1e-4,
        "graph": "core",
        "core_view": 0,
        "output": "relu",
        "entropy_weight": 10.0,
        "reconstruction_weight": 0.1,
        "prediction_weight": 0.1,
        "drop_last": False,
    },
)
class DCP(CodeClusterer):
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
    warmup_epochs : int
        First epochs, without training the predictors.
    epochs : int
        Epochs of the whole objective after them.
    learning_rate : float
        Adam's learning rate.
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
    drop_last : bool
        Leave out the last batch of every epoch, even a full one, as the authors' program does: with no more complete
        samples than `batch_size`, nothing is trained. By default all complete samples are used.
    standardize : bool or {"zscore", "range", "cosine", "unit", "unit_view"}
        Scale features by statistics of observed rows; ``"unit"`` brings every feature to [0, 1], ``"unit_view"`` the
        view as a whole.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
    probabilities_ : array of shape (n_samples, n_clusters)
        As if every cluster were a round Gaussian around its centre with the clusters' pooled variance.
    means_ : array of shape (n_clusters, V * latent_dim)
        Centres of k-means.
    view_weights_ : array of shape (n_samples, V)
        The views that a sample has, each with the same weight.
    agreement_, history_, objective_, objectives_, n_iter_, network_
        As for `ACOVA`.
    """

    presets = DCP_PRESETS
    _of_complete = True
    _words: ClassVar[Any] = {"graph": GRAPHS, "output": OUTPUT_ENDS}
    _numbers: ClassVar[Any] = {
        "core_view": {"minimum": 0, "integer": True},
        "entropy_weight": NOT_NEGATIVE,
        "prediction_weight": NOT_NEGATIVE,
    }
    graph: str
    core_view: int
    output: str
    entropy_weight: float
    reconstruction_weight: float
    prediction_weight: float

    def _suit(self, settings: Self, views: Views | StoredViews) -> None:
        super()._suit(settings, views)
        if self.core_view >= views.n_views:
            msg = (
                f"DCP: core_view must be the number of one of the {views.n_views} views, from 0; got {self.core_view}."
            )
            raise OptionError(msg)

    def _new_network(  # type: ignore[override]
        self,
        view_sizes: Sequence[int],
        likelihoods: Sequence[str],
        streams: Streams,
        weights: Sequence[float] | None = None,
    ) -> DualPrediction:
        return DualPrediction(
            view_sizes,
            self.latent_dim,
            self.n_clusters,
            hidden=self.hidden,
            graph=self.graph,
            core_view=self.core_view,
            output=self.output,
            entropy=self.entropy_weight,
            reconstruction_weight=self.reconstruction_weight,
            prediction_weight=self.prediction_weight,
            generator=generator(streams.integer("weights")),
        )

    @staticmethod
    def _train(trainer: Trainer, jobs: Sequence[Job], networks: Sequence[Any]) -> None:
        everything = cast(RunData, trainer.data)  # `_suit` refuses views on disk
        rows = complete_rows(everything, len(jobs))
        trainer.data = RunData(everything.views, everything.observed, held=everything.held, rows=rows)
        settings: Any = jobs[0].settings
        trainer.train(_phase(trainer, jobs, "warmup", settings.warmup_epochs, predicts=False))
        trainer.train(_phase(trainer, jobs, "train", settings.epochs, predicts=True))
        trainer.data = everything
        for run, network in enumerate(networks):
            chosen = rows[run, :: -(-rows.shape[1] // _SETTLING_ROWS)]
            network.settle([view[chosen] for view in everything.of_run(run)[0]])
        place_by_k_means(jobs, networks, posterior_points(trainer, networks))


def _phase(trainer: Trainer, jobs: Sequence[Job], name: str, epochs: int, *, predicts: bool) -> Phase:
    settings: Any = jobs[0].settings
    kinds = ("encoders.", "decoders.", *(("predictors.",) if predicts else ()))
    return Phase(
        name,
        epochs,
        settings.batch_size,
        partial(DualPrediction.loss, predicts=predicts),
        [ParameterGroup([n for n in trainer.runs.parameters if n.startswith(kinds)], rates(jobs, "learning_rate"))],
        patience=settings.patience,
        tol=settings.tol,
        drop_last="always" if settings.drop_last else "joined",
    )
