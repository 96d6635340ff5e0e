"""How ACOVA and its relatives train: pretraining, an optional warm-up, the start of the clusters, training."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from acova.base import OptionError
from acova.clustering.spectral import SampleGraph
from acova.data import Scaling, StoredViews, Views
from acova.data.scaling import scaled_moments
from acova.engine import ParameterGroup, Phase, generator
from acova.engine.distributed import Processes
from acova.engine.parallel import threads_for
from acova.engine.runtime import resolve_device
from acova.functional import Batch, distance_to_identity
from acova.networks import MultiViewVAE
from acova.networks.likelihoods import LIKELIHOODS
from acova.training.confidence import starting_temperature
from acova.training.correlation_starts import given_correlation, starting_correlation
from acova.training.costs import blind_costs, reconstruction_weights, shares_of_cells, target_moments
from acova.training.extremes import overflow_allowed
from acova.training.inference import batch_of
from acova.training.job import FitData, Job, Settings
from acova.training.method import Group, Method, Objective, shared_data
from acova.training.neighbours import neighbour_means, neighbour_products
from acova.training.requirements import Requirements
from acova.training.sizes import BY_SIZE, auto_neighbor_weight, auto_runs, auto_widths
from acova.training.starts import place_by_graph, start_correlations, start_priors
from acova.training.view_weights import shared_graph, smoothed_views, trusted_views

LEARNED_CORRELATIONS = ("learned", "low_rank")
"""Words for a correlation that is learned."""
N_FACTORS = 5
"""Factors that the errors of all views have in common, where the correlation is of low rank."""


@dataclass(frozen=True)
class Variational(Method):
    """The training of ACOVA, and of its relatives that differ in how estimates are fused.

    Attributes
    ----------
    fusion : str
        As for `MultiViewVAE`.
    """

    fusion: str = "correlated"

    epochs = ("pretrain_epochs", "warmup_epochs", "epochs")
    requirements = Requirements(marks_empty_cells=True, likelihoods=tuple(LIKELIHOODS), follows_labels=True)

    def suited(self, settings: Settings, left_open: Collection[str], views: Views | StoredViews) -> Settings:
        """Fill in what the recipe leaves to the number of samples."""
        count, values = views.n_samples, dict(settings.values)
        if isinstance(settings.hidden, str):
            values["hidden"] = auto_widths(count)
        if isinstance(settings.neighbor_weight, str):
            values["neighbor_weight"] = 0.0 if isinstance(views, StoredViews) else auto_neighbor_weight(count)
        if isinstance(settings.n_init, str):
            values["n_init"] = auto_runs(count)
        if settings.recipe != "paper":
            values |= {name: suit(values[name], count) for name, suit in BY_SIZE.items() if name in left_open}
        return replace(settings, values=values)

    def prepare(
        self,
        settings: Settings,
        views: Views | StoredViews,
        scaling: Scaling,
        likelihoods: Sequence[str],
        processes: Processes,
    ) -> FitData:
        """Return the training data, how far the views are trusted, and what they are decoded to."""
        neighbours = settings.neighbor_weight or settings.cluster_start == "neighbors"
        agreement, trust = trusted_views(settings, views, scaling)
        weighs = settings.balance is not False or settings.reconstruction_scale is not False or trust is not None
        variances, costs, moments = None, None, []
        of_data = any(LIKELIHOODS[name].of_data for name in likelihoods)
        starts = any(LIKELIHOODS[name].starts for name in likelihoods)
        if neighbours or weighs or starts:
            with overflow_allowed():
                moments = scaled_moments(views, scaling)
            variances = np.maximum([variance.sum() for _, variance in moments], np.finfo(np.float32).tiny)
            moments = target_moments(settings.who, views, likelihoods, moments)
            costs = blind_costs(moments, likelihoods, shares_of_cells(views))
        if isinstance(views, StoredViews) and neighbours:
            raise _refusal_of_neighbours(settings)
        if of_data and settings.cluster_start == "neighbors":
            raise _refusal_of_raw_targets(settings)
        graph = None
        if "graph" in (settings.cluster_start, settings.get("final_clusters", "mixture")):
            weights = np.ones(views.n_views) if trust is None else trust
            graph = shared_graph(views, scaling, weights, settings.n_clusters)
        found: dict[str, Any] = {
            "costs": costs,
            "trust": trust,
            "agreement": agreement,
            "graph": graph,
            "moments": moments if starts else [],
        }
        if isinstance(views, StoredViews) or variances is None or not (neighbours or of_data):
            return replace(super().prepare(settings, views, scaling, likelihoods, processes), **found)
        whole = batch_of(views, scaling, resolve_device(settings.device), likelihoods)
        if not neighbours:
            return replace(shared_data(whole, processes), **found)
        nearby = None
        if trust is not None:
            links_all = graph is not None and len(graph.rows) == len(views)
            nearby = graph if links_all else shared_graph(views, scaling, trust, settings.n_clusters, len(views))
        values = whole._replace(views=[view[:, :size] for view, size in zip(whole.views, views.sizes, strict=True)])
        whole = whole._replace(targets=_targets(settings, values, variances.tolist(), nearby))
        data = replace(shared_data(whole, processes), **found)
        if settings.cluster_start == "neighbors":
            return replace(data, variances=variances)
        return data

    def build(self, job: Job) -> MultiViewVAE:
        """Return a network with fresh parameters, whose reconstructions are weighed by what they cost."""
        settings, data, n_views = job.settings, job.data, len(job.sizes)
        correlation = settings.rho if self.fusion == "constant" else settings.get("correlation", "identity")
        learned = isinstance(correlation, str) and correlation in LEARNED_CORRELATIONS
        if learned:
            matrix = _starting_matrices(job)
        elif _is_word(correlation, "identity"):
            matrix = torch.eye(n_views, dtype=torch.float64)
        else:
            option = "rho" if self.fusion == "constant" else "correlation"
            matrix = given_correlation(option, correlation, n_views, who=settings.who)
        network = self.constructor(settings)(
            job.sizes,
            settings.latent_dim,
            settings.n_clusters,
            hidden=settings.hidden,
            likelihoods=job.likelihoods,
            blocks=job.blocks,
            alpha=settings.alpha,
            correlation=matrix,
            learn_correlation=learned,
            n_factors=N_FACTORS if _is_word(correlation, "low_rank") else 0,
            missing=settings.get("missing", "marginal"),
            min_std=settings.min_std,
            assignment=settings.assignment,
            reconstruction_weights=reconstruction_weights(
                settings.balance, settings.reconstruction_scale, job.sizes, job.likelihoods, data.costs, data.trust
            ),
            fusion=self.fusion,
            elbo_weight=settings.elbo_weight,
            temperature=starting_temperature(settings),
            marks=job.marks,
            n_covariates=job.n_covariates,
            encodes_covariates=settings.get("covariate_use", "adjust") == "encode",
            generator=generator(job.streams.integer("weights")),
        )
        for density, moments in zip(network.view_likelihoods if data.moments else (), data.moments, strict=True):
            density.start(*moments)
        return network

    def constructor(self, settings: Settings) -> Callable[..., MultiViewVAE]:
        """Return what makes a network from the parameters of `MultiViewVAE`."""
        return MultiViewVAE

    def objective(self, network: MultiViewVAE, settings: Settings) -> Objective:
        """Return the network's objective with the weight of decoding what samples lack."""
        return partial(network.loss, fill_weight=_fill_weight(settings))

    def phases(self, group: Group) -> Iterable[Phase]:
        """Return pretraining, the warm-up and training."""
        return _pretraining(group), _warmup(group), _training(group)

    def finish(self, group: Group) -> None:
        """Place the clusters anew by the graph, where the recipe says so."""
        if group.settings.get("final_clusters", "mixture") == "graph":
            place_by_graph(group)


def _refusal_of_neighbours(settings: Settings) -> OptionError:
    """Return the error for views on disk whose samples would have to be compared."""
    return OptionError(
        f"{settings.who}: neighbours are searched in memory, but these views stay on disk; use neighbor_weight=0 and "
        f"cluster_start='fused' (got {settings.neighbor_weight!r} and {settings.cluster_start!r})."
    )


def _refusal_of_raw_targets(settings: Settings) -> OptionError:
    """Return the error for clusters that would start from data that are not scaled."""
    return OptionError(
        f"{settings.who}: cluster_start='neighbors' compares what samples are decoded to, which likelihoods of "
        "counts and shares leave unscaled; use cluster_start='graph' or 'fused'."
    )


def _targets(settings: Settings, whole: Batch, variances: list[float], graph: SampleGraph | None) -> list[Tensor]:
    """Return what latent vectors are decoded to: views drawn towards the mean of their neighbours, hidden ones too."""
    views, observed = list(whole.decoded), whole.observed
    with threads_for(neighbour_products(len(observed), sum(view.shape[1] for view in views))):
        if graph is None:
            means = neighbour_means(whole.views, observed, variances, settings.n_neighbors, whole.targets)
        else:
            means = smoothed_views(views, observed, graph)
    return [
        torch.where(seen.unsqueeze(-1), torch.lerp(view, mean, settings.neighbor_weight), mean)
        for view, mean, seen in zip(views, means, observed.unbind(1), strict=True)
    ]


def _starting_matrices(job: Job) -> Tensor:
    """Return the matrix that learning starts from, or one for each stretch of the latent dimensions."""
    settings, n_views = job.settings, len(job.sizes)
    numbers = job.streams.numpy("correlation")
    starts = [
        starting_correlation(
            settings.correlation_start, n_views, numbers.standard_normal(n_views * (n_views + 1) // 2), settings.who
        )
        for _ in range(settings.n_correlations)
    ]
    return starts[0] if len(starts) == 1 else torch.stack(starts)


def _pretraining(group: Group) -> Phase:
    settings = group.settings
    return Phase(
        "pretrain",
        settings.pretrain_epochs,
        settings.batch_size,
        MultiViewVAE.autoencoding_loss,
        [ParameterGroup(_autoencoders(group), group.rates("pretrain_learning_rate"))],
        patience=settings.patience,
        tol=settings.tol,
    )


def _warmup(group: Group) -> Phase:
    settings = group.settings
    loss = partial(MultiViewVAE.warmup_loss, kl_weight=settings.warmup_kl, fill_weight=_fill_weight(settings))
    phase = _joint_phase(group, "warmup", settings.warmup_epochs, loss)
    return replace(phase, prepare=lambda: start_correlations(group))


def _training(group: Group) -> Phase:
    settings = group.settings
    prior = [
        ParameterGroup(["prior.means", "prior.scale"], group.rates("prior_learning_rate")),
        ParameterGroup(["prior.logits"], group.rates("weight_learning_rate")),
    ]
    loss = partial(MultiViewVAE.loss, fill_weight=_fill_weight(settings))
    phase = _joint_phase(group, "train", settings.epochs, loss, prior)
    return replace(phase, decay=settings.learning_rate_decay, prepare=lambda: start_priors(group))


def _fill_weight(settings: Settings) -> float:
    """Return the weight of decoding views that a sample lacks, which its neighbours have."""
    return float(settings.neighbor_weight**2)


def _joint_phase(group: Group, name: str, epochs: int, loss: Any, more_groups: Sequence[ParameterGroup] = ()) -> Phase:
    """Return a phase that trains all views together, and the correlation with them."""
    groups = [ParameterGroup(_autoencoders(group), group.rates("learning_rate")), *more_groups]
    if "correlation_parameter" in group.runs.parameters:
        groups.append(ParameterGroup(["correlation_parameter"], group.rates("correlation_learning_rate")))
    if "fusion_logits" in group.runs.parameters:
        groups.append(ParameterGroup(["fusion_logits"], group.rates("prior_learning_rate")))
    settings = group.settings
    return Phase(
        name,
        epochs,
        settings.batch_size,
        loss,
        groups,
        noise_shape=(2, settings.latent_dim),
        decay_every=settings.get("decay_every", 1),
        clip_norm=settings.clip_norm,
        measure=_correlation_distance if group.networks[0].correlates else None,
        patience=settings.patience,
        tol=settings.tol,
    )


def _correlation_distance(network: MultiViewVAE) -> dict[str, Tensor]:
    return {"correlation_distance": distance_to_identity(network.correlation()).mean()}


def _autoencoders(group: Group) -> list[str]:
    return group.parameters("encoders.", "decoders.")


def _is_word(value: Any, word: str) -> bool:
    return isinstance(value, str) and value == word
