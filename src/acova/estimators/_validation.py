"""Settings that the data must allow: likelihoods and scalings of the views, and settings given per view."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from acova.base import DataError, OptionError
from acova.base.errors import check_choice
from acova.data import SCALINGS, StoredViews, Views
from acova.data.categories import block_sizes
from acova.data.features import Features, features_of
from acova.data.measurements import SUITED, measurement_of
from acova.data.scalers import TO_UNIT
from acova.data.scaling import suited_kinds
from acova.networks.likelihoods import LIKELIHOODS
from acova.training.extremes import column_text, overflow_allowed
from acova.training.job import Settings

ADJUSTS = ("adjust", "both")
"""The uses of covariates that take their effects off scaled features."""


def check_likelihoods(
    settings: Settings, views: Views | StoredViews, known: Sequence[str]
) -> tuple[tuple[str, ...], list[Features] | None]:
    """Return the likelihood of each view, or raise where its data do not allow it; and its features if they tell.

    `known` are the likelihoods that the method has.
    """
    who = settings.who
    likelihoods = per_view(who, "likelihood", settings.get("likelihood", "gaussian"), views.names)
    for likelihood in likelihoods:
        suits = ("suited",) if set(SUITED.values()) <= set(known) else ()
        check_choice(who, "likelihood", likelihood, (*known, "auto", *suits))
    if all(likelihood in LIKELIHOODS and LIKELIHOODS[likelihood].takes_all for likelihood in likelihoods):
        return likelihoods, None
    features = features_of(views)
    chosen = tuple(
        likelihood if likelihood in LIKELIHOODS else _chosen(likelihood, of_view, blocks_of_categories(views, v))
        for v, (likelihood, of_view) in enumerate(zip(likelihoods, features, strict=True))
    )
    scalings = per_view(who, "standardize", settings.standardize, views.names)
    asked = [
        "gaussian" if scale in TO_UNIT and name == "bernoulli" else name
        for name, scale in zip(chosen, scalings, strict=True)
    ]
    check_views(who, asked, views, features)
    return chosen, features


def _chosen(word: str, features: Features, blocks: tuple[int, ...]) -> str:
    """Return the likelihood that "auto" or "suited" chooses for a view with these features."""
    if word == "suited" and measurement_of(features, blocks):
        return SUITED[measurement_of(features, blocks)]
    within = 0 <= features.low.min() <= features.high.max() <= 1
    return "bernoulli" if within and features.share_a_scale() else "gaussian"


def check_views(who: str, likelihoods: Sequence[str], views: Views | StoredViews, features: Sequence[Features]) -> None:
    """Raise `DataError` for a view that cannot have its likelihood."""
    for v, (name, of_view) in enumerate(zip(likelihoods, features, strict=True)):
        where = partial(column_text, views, v)
        why = LIKELIHOODS[name].check(of_view, where)
        if why is None and name == "categorical" and not blocks_of_categories(views, v):
            why = (
                f"view {views.names[v]!r} has columns of numbers, but the categorical likelihood is for columns of "
                "text or categories alone; give the numbers in a view of their own, or use likelihood='gaussian'."
            )
        if why is not None:
            msg = f"{who}: {why}"
            raise DataError(msg)


def adjustable(who: str, use: str, likelihoods: Sequence[str], names: Sequence[str]) -> list[bool]:
    """Return from which views the effects of covariates are taken off.

    Not from views that are decoded as they are encoded to zeros and ones or categories; a decoder can be told instead.
    Raise `OptionError` where that is not so, or where what is decoded would keep the effects.
    """
    found = [use in ADJUSTS] * len(names)
    for v, (name, likelihood) in enumerate(zip(names, likelihoods, strict=True)):
        kind = LIKELIHOODS[likelihood]
        if use == "adjust" and (kind.of_data or kind.scaling == "none"):
            msg = (
                f"{who}: covariates are taken off scaled measurements, but view {name!r} has the likelihood "
                f"{likelihood!r}; give it likelihood='gaussian' (counts with standardize='counts'), let decoders be "
                "told with covariate_use='both', or leave the covariates out."
            )
            raise OptionError(msg)
        found[v] = found[v] and kind.scaling != "none"
    return found


def blocks_of_categories(views: Views | StoredViews, v: int) -> tuple[int, ...]:
    """Return how many columns each column of a view of categories alone became; empty for other views."""
    categories = getattr(views, "categories", None)  # views on disk hold numbers only
    return block_sizes(categories[v], views.sizes[v]) if categories else ()


def scaling_kinds(
    who: str,
    standardize: Any,
    views: Views | StoredViews,
    likelihoods: Sequence[str] | None = None,
    features: Sequence[Features] | None = None,
) -> tuple[str, ...]:
    """Return how each view is scaled: as its likelihood wants, else as asked for.

    Bernoulli views stay as they are, unless they are brought to [0, 1].
    """
    given = per_view(who, "standardize", standardize, views.names)
    kinds = [("zscore" if kind else "none") if isinstance(kind, bool | np.bool_) else kind for kind in given]
    for kind in kinds:
        check_choice(who, "standardize", kind, SCALINGS, "True or False")
    pairs = zip(kinds, likelihoods or ["gaussian"] * len(kinds), strict=True)
    own = [None if name == "bernoulli" and kind in TO_UNIT else LIKELIHOODS[name].scaling for kind, name in pairs]
    with overflow_allowed():
        chosen = [kind if scaling is None else scaling for kind, scaling in zip(kinds, own, strict=True)]
        return suited_kinds(views, chosen, features)


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
