"""Checks of ACOVA's settings: each says the option, the rule, what it got and the way out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from acova.base import DataError, OptionError, check_choice, check_number
from acova.data import SCALINGS, Views
from acova.engine.runtime import PRECISIONS
from acova.estimators.start import CORRELATION_STARTS
from acova.functional import LIKELIHOODS

if TYPE_CHECKING:
    from acova.estimators.acova import ACOVA

_COUNTS = ("n_clusters", "latent_dim", "n_init", "batch_size")
_EPOCHS = ("pretrain_epochs", "warmup_epochs", "epochs")
_POSITIVE = (
    "learning_rate",
    "prior_learning_rate",
    "correlation_learning_rate",
    "pretrain_learning_rate",
    "learning_rate_decay",
    "min_std",
)
_NOT_NEGATIVE = ("alpha", "warmup_kl", "weight_learning_rate")


def check_options(settings: "ACOVA") -> None:
    """Raise `OptionError` for the first setting that has a value it cannot have."""
    for option in _COUNTS:
        check_number("ACOVA", option, getattr(settings, option), minimum=1, integer=True)
    for option in _EPOCHS:
        check_number("ACOVA", option, getattr(settings, option), minimum=0, integer=True)
    for option in _POSITIVE:
        check_number("ACOVA", option, getattr(settings, option), minimum=0, strict=True)
    for option in _NOT_NEGATIVE:
        check_number("ACOVA", option, getattr(settings, option), minimum=0)
    if settings.clip_norm is not None:
        check_number("ACOVA", "clip_norm", settings.clip_norm, minimum=0, strict=True)
    if isinstance(settings.hidden, str) or not isinstance(settings.hidden, Sequence):
        msg = f"ACOVA: hidden must be widths of layers, such as (500, 500, 2000); got {settings.hidden!r}."
        raise OptionError(msg)
    for width in settings.hidden:
        check_number("ACOVA", "hidden", width, minimum=1, integer=True)
    check_choice("ACOVA", "missing", settings.missing, ("precision", "marginal"))
    check_choice("ACOVA", "precision", settings.precision, PRECISIONS)
    matrix = "a number or a matrix"
    if isinstance(settings.correlation, str):
        check_choice("ACOVA", "correlation", settings.correlation, ("learned", "identity"), matrix)
    if isinstance(settings.correlation_start, str):
        check_choice("ACOVA", "correlation_start", settings.correlation_start, CORRELATION_STARTS, matrix)


def check_likelihoods(settings: "ACOVA", views: Views) -> tuple[str, ...]:
    """Return the likelihood of each view, or raise where its data do not allow it."""
    likelihoods = _per_view("likelihood", settings.likelihood, views.names)
    for v, (name, likelihood) in enumerate(zip(views.names, likelihoods, strict=True)):
        check_choice("ACOVA", "likelihood", likelihood, LIKELIHOODS)
        rows = views.rows(v)
        if likelihood == "bernoulli" and (rows.min() < 0 or rows.max() > 1):
            msg = (
                f"ACOVA: view {name!r} has values from {rows.min():g} to {rows.max():g}, but the Bernoulli "
                "likelihood needs values in [0, 1]; rescale the view or use likelihood='gaussian' for it."
            )
            raise DataError(msg)
    return likelihoods


def scaling_kinds(settings: "ACOVA", likelihoods: Sequence[str]) -> tuple[str, ...]:
    """Return how each view is scaled; Bernoulli views stay as they are."""
    words = {True: "zscore", False: "none"}
    kind = words[settings.standardize] if isinstance(settings.standardize, bool) else settings.standardize
    check_choice("ACOVA", "standardize", kind, SCALINGS, "True or False")
    return tuple("none" if likelihood == "bernoulli" else kind for likelihood in likelihoods)


def _per_view(option: str, value: Any, names: Sequence[str]) -> tuple[Any, ...]:
    """Spread a setting over the views: one value for all, a sequence, or a dict by view name."""
    if isinstance(value, dict):
        if set(value) != set(names):
            msg = f"ACOVA: {option} must name every view once ({', '.join(map(repr, names))}); got {sorted(value)}."
            raise OptionError(msg)
        return tuple(value[name] for name in names)
    if isinstance(value, list | tuple):
        if len(value) != len(names):
            msg = f"ACOVA: {option} must have one entry per view ({len(names)}); got {len(value)}."
            raise OptionError(msg)
        return tuple(value)
    return (value,) * len(names)
