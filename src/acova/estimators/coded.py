"""What DCP, DSIMVC, CPSPAN and PMIMC share: codes of all views, no generative model, and data in memory."""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from acova.base import DataError, OptionError
from acova.data import StoredViews, Views
from acova.engine import ALONE, Processes, RunData, Trainer
from acova.estimators._validation import plain_copy
from acova.estimators.variational import Prepared, VariationalClusterer
from acova.training.consensus import Ensemble
from acova.training.phases import Job
from acova.training.starts import in_chunks

NOT_THEIRS: dict[str, Any] = {
    "recipe": "paper",
    "alpha": 1.0,
    "likelihood": "gaussian",
    "correlation": "identity",
    "missing": "marginal",
    "correlation_start": "identity",
    "warmup_epochs": 0,
    "prior_learning_rate": 1.0,
    "weight_learning_rate": 0.0,
    "correlation_learning_rate": 1.0,
    "learning_rate_decay": 1.0,
    "warmup_kl": 0.0,
    "cluster_start": "fused",
    "balance": False,
    "reconstruction_scale": False,
    "neighbor_weight": 0.0,
    "view_weights": "equal",
    "n_neighbors": 1,
    "assignment": "exact",
    "clip_norm": None,
    "min_std": 1e-4,
}
"""ACOVA's keywords that say nothing here."""
DEFAULTS: dict[str, Any] = {"n_init": 1, "consensus": False, "standardize": "unit", "precision": "tf32"}


class CodeClusterer(VariationalClusterer):
    """A method that learns a code per view; a contrast, an alignment or a prediction links the codes of the views."""

    drop_last: bool = False
    _least_views: ClassVar[int] = 1
    _of_complete: ClassVar[bool] = False
    """Whether only samples that have all views are trained on."""

    def _resolved(self) -> Self:
        return plain_copy(self)

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE) -> Prepared:
        if processes.size > 1:
            msg = (
                f"{type(self).__name__}: its batches are compared as a whole, so one process trains it; got a job of "
                f"{processes.size} processes. Start it without torchrun."
            )
            raise OptionError(msg)
        return super()._prepare(X, observed, processes)

    def _suit(self, settings: Self, views: Views | StoredViews) -> None:
        """Refuse data that this method cannot learn from."""
        who = type(self).__name__
        views = self._held_in_memory(views, "it compares samples with each other")
        if views.n_views < self._least_views:
            msg = f"{who}: it compares views with each other and needs at least two; got one. Use ACOVA, or k-means."
            raise DataError(msg)
        complete = int(views.observed.all(axis=1).sum())
        if self._of_complete and complete < 2:
            msg = (
                f"{who}: it learns from samples that have every view, and needs at least 2; got {complete} of "
                f"n_samples={len(views)}. Leave out views that are rarely observed, or use a method that learns from "
                "all samples, such as ACOVA, CPSPAN or PMIMC."
            )
            raise DataError(msg)

    def _together(self, job: Job) -> Hashable:
        # Runs that train together take steps of the same size.
        if not self._of_complete or job.observed is None:
            return None
        return int(job.observed.all(1).sum())

    def _adopt(self, ensemble: Ensemble) -> None:
        for network in ensemble.networks:
            network.requires_grad_(False)
        self._ensemble, self.network_ = ensemble, ensemble.network
        self._n_features_out = self._count_features()

    def score(self, X: Any, y: Any = None, *, observed: Any = None) -> float:
        """Return minus the mean objective per sample (see `objective_`).

        There is no generative model whose evidence it could bound.
        """
        return -self._mean_of("total", X, observed)

    def _count_features(self) -> int:
        self.means_ = self.network_.prior.means.cpu().numpy()
        return int(self.means_.shape[1])


def complete_rows(data: RunData, runs: int) -> Tensor:
    """Return every run's samples that have all views, (R, n); all runs have as many."""
    return torch.stack([data.of_run(run)[1].all(1).nonzero().squeeze(-1) for run in range(runs)])


@torch.no_grad()
def posterior_points(trainer: Trainer, networks: Sequence[Any]) -> list[Tensor]:
    """Return every run's points (N, D), in which its clusters are looked for."""
    return [
        torch.cat([network.posterior(*batch).mean for batch in in_chunks(*trainer.data.of_run(run))])
        for run, network in enumerate(networks)
    ]
