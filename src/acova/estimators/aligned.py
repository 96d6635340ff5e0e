"""What CPSPAN and PMIMC share: auto-encoders with aligned codes, and missing codes lent by similar samples."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from acova.base import DataError, Streams
from acova.data import Views
from acova.engine import ALONE, ParameterGroup, Phase, Processes, Trainer, generator
from acova.estimators._validation import NOT_NEGATIVE
from acova.estimators.coded import DEFAULTS, CodeClusterer
from acova.estimators.variational import Prepared
from acova.networks import AlignedAutoencoders
from acova.networks.aligned import IMPUTATIONS
from acova.networks.donors import side_by_side
from acova.training.consensus import Ensemble
from acova.training.inference import Inferred
from acova.training.phases import Job, rates
from acova.training.starts import in_chunks, place_by_k_means


class AlignedClusterer(CodeClusterer):
    """What CPSPAN and PMIMC share."""

    impute: str
    instance_weight: float
    prototype_weight: float
    prototypes: str
    oracle_leak: bool
    _numbers: ClassVar[Any] = dict.fromkeys(("instance_weight", "prototype_weight"), NOT_NEGATIVE)
    _words: ClassVar[Any] = {"impute": IMPUTATIONS}
    _network_class: ClassVar[type[AlignedAutoencoders]]

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE) -> Prepared:
        prepared = super()._prepare(X, observed, processes)
        if not self.oracle_leak:
            return prepared
        hidden = self._hidden(X, prepared)
        warnings.warn(
            f"{type(self).__name__}: oracle_leak=True finds the donors of missing codes with the cells that `observed` "
            "hides. Its labels_ show what the authors' program does; they are no result of clustering incomplete data.",
            UserWarning,
            stacklevel=3,
        )
        return replace(prepared, jobs=[replace(job, hidden=hidden) for job in prepared.jobs])

    def _hidden(self, X: Any, prepared: Prepared) -> list[Tensor]:
        """Return the scaled views with what is hidden of them, NaN where even X does not have it."""
        given = cast(Views, self._views_of(X, None, reset=False))  # `_suit` refuses views on disk
        whole = given.matched_to(self.view_names_, self.view_sizes_, self._columns)
        if not (whole.observed & ~self._mask_of(prepared)).any() and not self._mask_of(prepared).all():
            msg = (
                f"{type(self).__name__}: oracle_leak=True reads hidden cells, but X does not hold any; give complete "
                "views and hide them with observed=…."
            )
            raise DataError(msg)
        whole = whole if prepared.order is None else whole.take(prepared.order)
        scaled = self._scaling.transform(whole)
        arrays = [
            np.where(seen[:, None], view, np.float32(np.nan))
            for view, seen in zip(scaled, whole.observed.T, strict=True)
        ]
        return [torch.from_numpy(array).to(prepared.jobs[0].device) for array in arrays]

    @staticmethod
    def _mask_of(prepared: Prepared) -> Any:
        """Return which views the samples have, in the order of the input."""
        observed = cast(Views, prepared.views).observed
        return observed if prepared.order is None else observed[np.argsort(prepared.order)]

    def _new_network(  # type: ignore[override]
        self,
        view_sizes: Sequence[int],
        likelihoods: Sequence[str],
        streams: Streams,
        weights: Sequence[float] | None = None,
    ) -> AlignedAutoencoders:
        return self._network_class(
            view_sizes,
            self.latent_dim,
            self.n_clusters,
            hidden=self.hidden,
            impute=self.impute,
            instance_weight=self.instance_weight,
            prototype_weight=self.prototype_weight,
            prototypes=self.prototypes,
            generator=generator(streams.integer("weights")),
            **self._network_settings(),
        )

    def _network_settings(self) -> dict[str, Any]:
        return {}

    @classmethod
    def _train(cls, trainer: Trainer, jobs: Sequence[Job], networks: Sequence[Any]) -> None:
        loss = AlignedAutoencoders.autoencoding_loss
        pretraining = _phase(trainer, jobs, "pretrain", "pretrain_epochs", "pretrain_learning_rate", loss)
        trainer.train(pretraining)
        training = _phase(trainer, jobs, "train", "epochs", "learning_rate", AlignedAutoencoders.loss)
        training = replace(training, before_epoch=cls._before_epoch(trainer, jobs, networks))
        trainer.train(training)
        points = []
        for run, (job, network) in enumerate(zip(jobs, networks, strict=True)):
            views, observed = trainer.data.of_run(run)
            cls._set_donors(job, network, codes_of(network, views, observed), observed)
            points.append(_points(network, views, observed, job.hidden))
        place_by_k_means(jobs, networks, points)

    @classmethod
    def _before_epoch(
        cls, trainer: Trainer, jobs: Sequence[Job], networks: Sequence[Any]
    ) -> Callable[[int], None] | None:
        return None

    @classmethod
    def _set_donors(cls, job: Job, network: AlignedAutoencoders, codes: Tensor, observed: Tensor) -> None:
        network.donors.set(codes, observed)

    @torch.no_grad()
    def _infer_training(self, ensemble: Ensemble, prepared: Prepared) -> Inferred:
        """Return what networks say of the training data; an oracle finds donors by what is hidden."""
        found, job = super()._infer_training(ensemble, prepared), prepared.jobs[0]
        if job.hidden is None or job.views is None or job.observed is None:
            return found
        shares = []
        for network, names in zip(ensemble.networks, ensemble.orders, strict=True):
            points = _points(network, job.views, job.observed, job.hidden)
            shares.append(network.prior.log_responsibilities(points).exp()[:, names])
        each = torch.stack(shares)
        mean = each.mean(0)
        labels = mean.argmax(1)
        agreement = (each.argmax(-1) == labels).float().mean(0)
        told = {"labels": labels, "probabilities": mean, "agreement": agreement}
        return replace(found, **{name: part.cpu().numpy() for name, part in told.items()})


def _phase(trainer: Trainer, jobs: Sequence[Job], name: str, epochs: str, rate: str, loss: Any) -> Phase:
    settings: Any = jobs[0].settings
    names = [n for n in trainer.runs.parameters if n.startswith(("encoders.", "decoders."))]
    return Phase(
        name,
        getattr(settings, epochs),
        settings.batch_size,
        loss,
        [ParameterGroup(names, rates(jobs, rate))],
        patience=settings.patience,
        tol=settings.tol,
        drop_last="partial" if settings.drop_last and name == "train" else "joined",
    )


@torch.no_grad()
def codes_of(network: AlignedAutoencoders, views: list[Tensor], observed: Tensor) -> Tensor:
    """Return all codes (N, V, D); those of hidden views mean nothing."""
    return torch.cat([network.codes(*batch) for batch in in_chunks(views, observed)])


@torch.no_grad()
def _points(network: Any, views: list[Tensor], observed: Tensor, hidden: list[Tensor] | None) -> Tensor:
    """Return the completed codes side by side, (N, V·D)."""
    chunks = in_chunks(views, observed)
    shown: list[Any] = [None] * len(chunks) if hidden is None else [part for part, _ in in_chunks(hidden, observed)]
    return torch.cat(
        [
            side_by_side(network.completed(*batch, told), batch[1]).mean
            for batch, told in zip(chunks, shown, strict=True)
        ]
    )


OWN: dict[str, Any] = {
    **DEFAULTS,
    "pretrain_epochs": 200,
    "pretrain_learning_rate": 5e-4,
    "learning_rate": 1e-4,
    "impute": "cross_view",
    "drop_last": False,
    "oracle_leak": False,
}
