"""What changes in a fitted model when views come or go, or when training goes on."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from acova.base import Streams, TrainingError
from acova.data import Scaling, Views
from acova.data.categories import block_sizes, given_column
from acova.data.census import Census
from acova.data.growth import check_announced, dropped, last_view, scaling_with, scaling_without, summary_without
from acova.engine.distributed import ALONE
from acova.estimators._base import canonical_order
from acova.estimators._resolution import checked_settings
from acova.estimators._validation import check_likelihoods, scaling_kinds
from acova.estimators._view_settings import settings_with_view, settings_without_view
from acova.functional import remaining_correlation
from acova.training.completions import with_completions
from acova.training.consensus import Ensemble
from acova.training.convergence import doubts_about
from acova.training.extremes import learn_scaling, overflow_allowed
from acova.training.growth import SHARE_ALONE, SHARE_TOGETHER, going_on, spreads_kept, with_last_view, without_view
from acova.training.inference import Inferred, device_of, infer, trained_objective
from acova.training.job import FitData, Job, Settings
from acova.training.progress import progress_bar
from acova.training.schedule import train_runs
from acova.training.spreads import fit_spreads

if TYPE_CHECKING:
    from acova.estimators._deep import DeepClusterer


_TINY = float(np.finfo(np.float64).tiny)


def usual_epochs(model: "DeepClusterer") -> tuple[int, int]:
    """Return for how many epochs a new view is trained alone, and all parts together."""
    epochs = int(model.settings_["epochs"])
    return max(round(SHARE_ALONE * epochs), 1), max(round(SHARE_TOGETHER * epochs), 1)


def grow(
    model: "DeepClusterer", joined: Views, likelihood: str, standardize: Any, *, alone: int, together: int
) -> None:
    """Give a model the last of these views: its own parts are trained first, then all together."""
    name, view = joined.names[-1], last_view(joined)
    Census.of(view).check(f"{type(model).__name__}.add_view", view)
    if name in model.announced_:
        check_announced(view, model.announced_[name])
    settings = _settings(model)
    likelihood, scaled_as, of_view = _learned_alone(model, settings, view, likelihood, standardize)
    told = settings_with_view(model.settings_, name, likelihood, scaled_as)
    settings, likelihoods = _told(settings, told), (*model._likelihoods, likelihood)
    scaling, order = scaling_with(model._scaling, of_view), canonical_order(joined.index)
    joined = joined.take(order)
    before = _known_before(model, joined) if not together else None
    jobs = _jobs(model, settings, joined, scaling, likelihoods, "add_view")
    correlation = settings.get("missing", "marginal") == "marginal"
    train = partial(going_on, correlation=correlation, alone=alone, together=together, places_clusters=bool(together))
    old = model._ensemble.networks
    jobs = [train(job, with_last_view(job, network)) for job, network in zip(jobs, old, strict=True)]
    ensemble = _trained(model, jobs, joined, scaling, last_alone=not together)
    _take_view(model, joined, likelihoods, scaling)
    _take_trust(model, jobs[0].data)
    model.settings_ = _of_sizes(model, told)
    model._adopt(ensemble)
    describe(model, joined, order, before)


def update(model: "DeepClusterer", views: Views, epochs: int) -> None:
    """Train a model on with these samples, and let its fitted attributes tell of them."""
    order = canonical_order(views.index)
    views = views.take(order)
    if epochs:
        settings = _settings(model).replaced(cluster_start="fused", final_clusters="mixture")
        if model.view_trust_ is not None:
            settings = settings.replaced(view_weights=model.view_trust_.tolist())
        jobs = _jobs(model, settings, views, model._scaling, model._likelihoods, "update")
        train = partial(going_on, correlation=True, alone=0, together=epochs, places_clusters=False)
        networks = model._ensemble.networks
        jobs = [train(job, deepcopy(network)) for job, network in zip(jobs, networks, strict=True)]
        model._adopt(_trained(model, jobs, views, model._scaling, last_alone=False))
    describe(model, views, order, None)


def reduce(model: "DeepClusterer", v: int) -> None:
    """Take a view from a model."""
    name, settings, networks = model.view_names_[v], _settings(model), model._ensemble.networks
    told = settings_without_view(model.settings_, v, name)
    if not isinstance(told.get("correlation", ""), str):
        kept = [place for place in range(len(model.view_names_)) if place != v]
        told["correlation"] = remaining_correlation(networks[0].correlation(), kept, settings.missing)[0].cpu().numpy()
    settings = _told(settings, told)
    scaling = scaling_without(model._scaling, v)
    likelihoods, sizes = dropped(model._likelihoods, v), dropped(model.view_sizes_, v)
    names = dropped(model.view_names_, v)
    blocks = tuple(block_sizes(model.categories_.get(view, {}), size) for view, size in zip(names, sizes, strict=True))
    count, data = int(model.summary_.counts.sum()), FitData(torch.device("cpu"))
    of_data = (sizes, count, Streams(model.seed_), data, scaling.marks, blocks, scaling.n_told)
    job = Job(model.method, settings, likelihoods, *of_data)
    fewer = [without_view(job, network, v).to(device_of(network)) for network in networks]
    if hasattr(model, "feature_names_in_"):
        ends = np.cumsum([0, *model._given_sizes])
        model.feature_names_in_ = np.delete(model.feature_names_in_, np.arange(ends[v], ends[v + 1]))
    model.categories_.pop(name, None)
    model.empty_cells_.pop(name, None)
    if not model.empty_cells_:
        scaling = replace(scaling, completions=(), joint=None, marks=())
    model.view_names_, model.view_sizes_, model._columns = list(names), sizes, dropped(model._columns, v)
    model._likelihoods, model.n_features_in_ = likelihoods, sum(model._given_sizes)
    model.summary_ = summary_without(model.summary_, v)
    model._scaling, model.settings_ = scaling.with_means(model.summary_.column_means), _of_sizes(model, told)
    for learned in ("view_trust_", "view_influence_", "view_support_", "view_shift_"):
        if getattr(model, learned) is not None:
            setattr(model, learned, np.delete(getattr(model, learned), v))
    if model.view_agreement_ is not None:
        model.view_agreement_ = np.delete(np.delete(model.view_agreement_, v, axis=0), v, axis=1)
    model.view_weights_ = np.delete(model.view_weights_, v, axis=1)
    model._adopt(Ensemble(fewer, model._ensemble.orders, model._ensemble.reference))


def describe(model: "DeepClusterer", views: Views, order: NDArray[np.intp], before: Inferred | None) -> None:
    """Let the fitted attributes of samples tell of these, which are in the order of training.

    Samples that lack the last view are as they were `before`, if that is given.
    """
    found = infer(model._ensemble, model._scaling, views)
    if before is not None:
        found = _where(views.observed[:, -1], found, before)
    model._summarise(views, found.labels)
    influence = model._influence(views, found.labels)
    model.view_influence_, model.view_support_ = influence.changed, influence.support
    model.view_shift_ = influence.shift
    place = np.argsort(order)
    found = found.take(place)
    model.labels_, model.probabilities_, model.view_weights_ = found.labels, found.probabilities, found.weights
    model._agreement, model.latent_ = found.agreement, found.latent
    model.index_, model._usual = views.index[place], None
    agreement = found.agreement if model.n_voters_ > 1 else None
    doubts = doubts_about(model.labels_, model.n_clusters_, model.history_, model.probabilities_, agreement)
    model.warnings_ = [*doubts, *influence.warnings]


# --- parts of these -----------------------------------------------------------------------------


def _settings(model: "DeepClusterer") -> Settings:
    """Return the settings that the fit had."""
    return checked_settings(type(model).from_settings(**model.settings_))


def _known_before(model: "DeepClusterer", joined: Views) -> Inferred:
    """Return what a model says of samples without the last view; of those that have no other, nothing."""
    some = joined.observed[:, :-1].any(axis=1)
    found = infer(model._ensemble, model._scaling, joined.without([joined.names[-1]]))
    rows = np.cumsum(some) - 1  # samples with the last view alone get what is overwritten later
    return found.take(np.maximum(rows, 0))


def _told(settings: Settings, told: Mapping[str, Any]) -> Settings:
    return settings.replaced(**{name: value for name, value in told.items() if name in settings.values})


def _of_sizes(model: "DeepClusterer", settings: Mapping[str, Any]) -> dict[str, Any]:
    return {**settings, "view_sizes": model._given_sizes}


def _learned_alone(
    model: "DeepClusterer", settings: Settings, view: Views, likelihood: str, standardize: Any
) -> tuple[str, str, Scaling]:
    """Return the likelihood of a view, how it is scaled, and the scaling, learned from the view alone."""
    settings = settings.replaced(likelihood=likelihood, standardize=standardize)
    with overflow_allowed():
        likelihoods, features = check_likelihoods(settings, view, model.method.requirements.likelihoods)
    kinds = scaling_kinds(settings.who, standardize, view, likelihoods, features)
    scaling = learn_scaling(view, kinds)
    if view.empty[0] is not None:
        scaling = with_completions(
            scaling, view, [True], factors=model._completes_by_factors, marks=model._marks_empty_cells
        )
    return likelihoods[0], kinds[0], scaling


def _jobs(
    model: "DeepClusterer",
    settings: Settings,
    views: Views,
    scaling: Scaling,
    likelihoods: tuple[str, ...],
    stream: str,
) -> list[Job]:
    """Return a job for each network of the model, all on these data."""
    data = model.method.prepare(settings, views, scaling, likelihoods, ALONE)
    known = [*(model.categories_.get(name, {}) for name in model.view_names_), *views.categories[-1:]]
    blocks = tuple(block_sizes(found, size) for found, size in zip(known, views.sizes, strict=False))
    streams = Streams(model.seed_).child(stream, *views.names)
    return [
        Job(
            model.method,
            settings,
            likelihoods,
            views.sizes,
            len(views),
            streams.child("run", run),
            data,
            scaling.marks,
            blocks,
            scaling.n_told,
        )
        for run in range(len(model._ensemble.networks))
    ]


def _trained(
    model: "DeepClusterer", jobs: Sequence[Job], views: Views, scaling: Scaling, *, last_alone: bool
) -> Ensemble:
    """Train the networks of the jobs on; return them with the clusters matched as before."""
    with progress_bar(type(model).__name__, sum(job.epochs for job in jobs), shown=int(model.verbose)) as report:
        runs = train_runs(jobs, report)
    networks = [run.network for run in runs]
    rows = views.observed.sum(axis=0)
    fixed = [v for v, count in enumerate(rows) if not count or (last_alone and v < len(rows) - 1)]
    with spreads_kept(networks, fixed):
        fit_spreads(networks, scaling, views, jobs[0].likelihoods)
    streams = Streams(model.seed_).child("score")
    objectives = np.array(
        [trained_objective(job, net, scaling, views, streams, ALONE) for job, net in zip(jobs, networks, strict=True)]
    )
    if not np.isfinite(objectives).all():
        msg = f"{type(model).__name__}: training diverged: the loss is not finite. The model is left as it was."
        raise TrainingError(msg)
    reference = model._ensemble.reference
    model.objectives_, model.objective_ = objectives, float(objectives[reference])
    records = pd.DataFrame(runs[reference].records)
    model.history_ = pd.concat([model.history_, records], ignore_index=True)
    model.n_iter_ += int((records["phase"] == "update").sum())
    return Ensemble(networks, model._ensemble.orders, reference)


def _take_view(model: "DeepClusterer", joined: Views, likelihoods: tuple[str, ...], scaling: Scaling) -> None:
    """Let a model know the last view, for which its networks have parts already."""
    name, categories, empty = joined.names[-1], joined.categories[-1], joined.empty[-1]
    if hasattr(model, "feature_names_in_"):
        columns = joined.columns[-1]
        if columns is None:
            del model.feature_names_in_
        else:
            given = list(dict.fromkeys(given_column(column, categories) for column in columns))
            model.feature_names_in_ = np.append(model.feature_names_in_, given)
    model.announced_.pop(name, None)
    model.view_names_, model.view_sizes_ = list(joined.names), joined.sizes
    model._columns, model._likelihoods, model._scaling = joined.columns, likelihoods, scaling
    if categories:
        model.categories_ = {**model.categories_, name: dict(categories)}
    if empty is not None and empty.any():
        model.empty_cells_ = {**model.empty_cells_, name: int(empty.sum())}
    model.n_features_in_ = sum(model._given_sizes)


def _take_trust(model: "DeepClusterer", data: FitData) -> None:
    """Add how far the last view is trusted, in the units of the others, and how far it agrees with them."""
    trust = np.ones(len(model.view_names_)) if data.trust is None else data.trust
    known = model.view_trust_
    if known is not None:
        model.view_trust_ = np.append(known, min(trust[-1] * known.max() / max(trust[:-1].max(), _TINY), 1.0))
    if model.view_agreement_ is not None:
        agreement = np.ones((len(trust), len(trust))) if data.agreement is None else data.agreement.copy()
        agreement[:-1, :-1] = model.view_agreement_
        model.view_agreement_ = agreement


def _where(changed: NDArray[np.bool_], now: Inferred, before: Inferred) -> Inferred:
    """Return what is said now of some samples, and what was said before of the others; a view has joined since."""
    padded = np.column_stack([before.weights, np.zeros(len(changed), dtype=before.weights.dtype)])
    parts = {**vars(before), "weights": padded}
    return Inferred(
        *(np.where(changed.reshape(-1, *[1] * (new.ndim - 1)), new, parts[name]) for name, new in vars(now).items())
    )
