"""Checks of settings: each says the estimator, the option, the rule, what it got and the way out."""

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone

from acova.base import DataError, OptionError, check_choice, check_number, check_seed
from acova.data import SCALINGS, TO_UNIT, Features, StoredViews, Views, features_of
from acova.engine.runtime import PRECISIONS
from acova.functional import LIKELIHOODS
from acova.training.correlations import CORRELATION_STARTS
from acova.training.extremes import column_text
from acova.training.starts import STARTS

if TYPE_CHECKING:
    from acova.estimators._base import MultiViewClusterer
    from acova.estimators.acova import ACOVA

COUNT = {"minimum": 1, "integer": True}
EPOCHS = {"minimum": 0, "integer": True}
POSITIVE = {"minimum": 0, "strict": True}
NOT_NEGATIVE = {"minimum": 0}
_Estimator = TypeVar("_Estimator", bound="MultiViewClusterer")
_FLAGS = ("consensus", "drop_last", "oracle_leak", "verbose")
_OR_NONE = ("clip_norm", "patience")
_NUMBERS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("n_clusters", "latent_dim", "batch_size", "checkpoint_every", "patience"), COUNT),
    **dict.fromkeys(("n_neighbors", "decay_every", "n_correlations"), COUNT),
    "rho": {"minimum": -1, "strict": True},
    **dict.fromkeys(("pretrain_epochs", "warmup_epochs", "epochs"), EPOCHS),
    **dict.fromkeys(("learning_rate", "prior_learning_rate", "correlation_learning_rate"), POSITIVE),
    **dict.fromkeys(("pretrain_learning_rate", "learning_rate_decay", "min_std", "clip_norm"), POSITIVE),
    **dict.fromkeys(("alpha", "elbo_weight", "warmup_kl", "weight_learning_rate", "tol"), NOT_NEGATIVE),
    **dict.fromkeys(("density_floor", "reconstruction_weight", "permutation_weight"), NOT_NEGATIVE),
}

_WORDS = {
    "missing": ("precision", "marginal"),
    "precision": PRECISIONS,
    "cluster_start": STARTS,
    "assignment": ("draw", "exact"),
}


def check_options(settings: "ACOVA") -> None:
    """Raise `OptionError` for the first setting that has a value it cannot have; no method has all of them."""
    who = type(settings).__name__
    for option, rule in {**_NUMBERS, **settings._numbers}.items():
        if hasattr(settings, option) and (getattr(settings, option) is not None or option not in _OR_NONE):
            check_number(who, option, getattr(settings, option), **rule)
    for option in _FLAGS:
        if hasattr(settings, option):
            check_flag(who, option, getattr(settings, option))
    check_seed(who, settings.random_state)
    _check_widths(who, settings.hidden)
    _check_numbers_or_words(who, settings)
    for option, words in {**_WORDS, **settings._words}.items():
        if hasattr(settings, option):
            check_choice(who, option, getattr(settings, option), words)
    _check_correlations(who, settings)


def _check_numbers_or_words(who: str, settings: "ACOVA") -> None:
    if isinstance(settings.n_init, str):
        check_choice(who, "n_init", settings.n_init, ("auto",), "a number of runs")
    else:
        check_number(who, "n_init", settings.n_init, minimum=1, integer=True)
    if isinstance(settings.neighbor_weight, str):
        check_choice(who, "neighbor_weight", settings.neighbor_weight, ("auto",), "a number from 0 to 1")
    else:
        check_number(who, "neighbor_weight", settings.neighbor_weight, minimum=0, maximum=1)
    if settings.balance is not False:
        check_number(who, "balance", settings.balance, minimum=0, maximum=1)
    if settings.reconstruction_scale is not False:
        check_number(who, "reconstruction_scale", settings.reconstruction_scale, minimum=0, strict=True)
    matrix = "a number or a matrix"
    if isinstance(getattr(settings, "correlation", None), str):
        check_choice(who, "correlation", settings.correlation, ("learned", "identity"), matrix)
    if isinstance(getattr(settings, "correlation_start", None), str):
        check_choice(who, "correlation_start", settings.correlation_start, CORRELATION_STARTS, matrix)


def plain_copy(estimator: _Estimator) -> _Estimator:
    """Return an unfitted copy whose settings hold Python's own numbers and booleans in the place of numpy's."""
    copy: _Estimator = clone(estimator)
    copy.set_params(**{name: _plain(value) for name, value in copy.get_params(deep=False).items()})
    return copy


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value


def check_flag(who: str, option: str, value: Any) -> None:
    """Raise `OptionError` unless `value` is True or False; `verbose` may be a number, as elsewhere in scikit-learn."""
    if isinstance(value, bool | np.bool_) or (option == "verbose" and isinstance(value, Integral)):
        return
    msg = f"{who}: {option} must be True or False; got {value!r}."
    raise OptionError(msg)


def _check_correlations(who: str, settings: "ACOVA") -> None:
    if settings.n_correlations > settings.latent_dim:
        msg = (
            f"{who}: n_correlations must be at most latent_dim={settings.latent_dim}, one matrix for each dimension; "
            f"got {settings.n_correlations}."
        )
        raise OptionError(msg)
    if settings.n_correlations > 1 and not (
        isinstance(settings.correlation, str) and settings.correlation == "learned"
    ):
        msg = (
            f"{who}: n_correlations={settings.n_correlations} counts learned matrices, but "
            f"correlation={settings.correlation!r} is not learned; leave one of them out."
        )
        raise OptionError(msg)


def _check_widths(who: str, hidden: Any) -> None:
    if isinstance(hidden, str):
        check_choice(who, "hidden", hidden, ("auto",), "widths of layers, such as (500, 500, 2000)")
    elif not isinstance(hidden, Sequence):
        msg = f"{who}: hidden must be 'auto' or widths of layers, such as (500, 500, 2000); got {hidden!r}."
        raise OptionError(msg)
    else:
        for width in hidden:
            check_number(who, "hidden", width, minimum=1, integer=True)


def check_in_memory(settings: "ACOVA") -> None:
    """Raise `OptionError` when views on disk would have to be compared sample by sample."""
    if settings.neighbor_weight or settings.cluster_start == "neighbors":
        who = type(settings).__name__
        msg = (
            f"{who}: neighbours are searched in memory, but these views stay on disk; use neighbor_weight=0 and "
            f"cluster_start='fused' (got {settings.neighbor_weight!r} and {settings.cluster_start!r})."
        )
        raise OptionError(msg)


def check_likelihoods(settings: "ACOVA", views: Views | StoredViews) -> tuple[str, ...]:
    """Return the likelihood of each view, or raise where its data do not allow it."""
    who = type(settings).__name__
    likelihoods = per_view(who, "likelihood", settings.likelihood, views.names)
    for likelihood in likelihoods:
        check_choice(who, "likelihood", likelihood, (*LIKELIHOODS, "auto"))
    if not {"bernoulli", "auto"} & set(likelihoods):
        return likelihoods
    to_unit = settings.standardize in TO_UNIT
    return tuple(
        _likelihood_of(who, views, v, likelihood, to_unit, features)
        for v, (likelihood, features) in enumerate(zip(likelihoods, features_of(views), strict=True))
    )


def _likelihood_of(
    who: str, views: Views | StoredViews, v: int, likelihood: str, to_unit: bool, features: Features
) -> str:
    """Return the likelihood of a view with these features, which are or are not scaled to [0, 1]."""
    least, most = features.low.min(), features.high.max()
    if likelihood == "auto":
        return "bernoulli" if 0 <= least <= most <= 1 and features.share_a_scale() else "gaussian"
    if likelihood == "bernoulli" and not to_unit and (least < 0 or most > 1):
        column = int(np.maximum(features.high - 1, -features.low).argmax())
        msg = (
            f"{who}: {column_text(views, v, column)} has values from {features.low[column]:g} to "
            f"{features.high[column]:g}, but the Bernoulli likelihood needs values in [0, 1]; use "
            "standardize='unit_view' (or 'unit', feature by feature), or likelihood='gaussian' for it."
        )
        raise DataError(msg)
    return likelihood


def scaling_kinds(settings: Any, likelihoods: Sequence[str]) -> tuple[str, ...]:
    """Return how each view is scaled; Bernoulli views stay as they are, unless all are brought to [0, 1]."""
    kind = settings.standardize
    if isinstance(kind, bool | np.bool_):
        kind = "zscore" if kind else "none"
    check_choice(type(settings).__name__, "standardize", kind, SCALINGS, "True or False")
    return tuple("none" if likelihood == "bernoulli" and kind not in TO_UNIT else kind for likelihood in likelihoods)


def per_view(who: str, option: str, value: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """Spread a setting over the views: one value for all, a sequence, or a dict by view name."""
    if isinstance(value, dict):
        if set(value) != set(names):
            msg = f"{who}: {option} must name every view once ({', '.join(map(repr, names))}); got {sorted(value)}."
            raise OptionError(msg)
        return tuple(value[name] for name in names)
    if isinstance(value, list | tuple):
        if len(value) != len(names):
            msg = f"{who}: {option} must have one entry per view ({len(names)}); got {len(value)}."
            raise OptionError(msg)
        return tuple(value)
    return (value,) * len(names)
