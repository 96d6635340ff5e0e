"""Settings that the data must allow: likelihoods and scalings of the views, and settings given per view."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from acova.base import DataError, OptionError
from acova.base.errors import check_choice
from acova.data import SCALINGS, StoredViews, Views
from acova.data.scaling import TO_UNIT, Features, features_of, suited_kinds
from acova.functional import LIKELIHOODS
from acova.training.extremes import column_text, overflow_allowed
from acova.training.job import Settings


def check_likelihoods(settings: Settings, views: Views | StoredViews) -> tuple[tuple[str, ...], list[Features] | None]:
    """Return the likelihood of each view, or raise where its data do not allow it; and its features if they tell."""
    who = settings.who
    likelihoods = per_view(who, "likelihood", settings.get("likelihood", "gaussian"), views.names)
    for likelihood in likelihoods:
        check_choice(who, "likelihood", likelihood, (*LIKELIHOODS, "auto"))
    if not {"bernoulli", "auto"} & set(likelihoods):
        return likelihoods, None
    features, scalings = features_of(views), per_view(who, "standardize", settings.standardize, views.names)
    triples = enumerate(zip(likelihoods, scalings, features, strict=True))
    found = [_likelihood_of(who, views, v, kind, scale in TO_UNIT, each) for v, (kind, scale, each) in triples]
    return tuple(found), features


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


def scaling_kinds(
    who: str,
    standardize: Any,
    views: Views | StoredViews,
    likelihoods: Sequence[str] | None = None,
    features: Sequence[Features] | None = None,
) -> tuple[str, ...]:
    """Return how each view is scaled; Bernoulli views stay as they are, unless they are brought to [0, 1]."""
    given = per_view(who, "standardize", standardize, views.names)
    kinds = [("zscore" if kind else "none") if isinstance(kind, bool | np.bool_) else kind for kind in given]
    for kind in kinds:
        check_choice(who, "standardize", kind, SCALINGS, "True or False")
    pairs = zip(kinds, likelihoods or [""] * len(kinds), strict=True)
    kept = ["none" if likelihood == "bernoulli" and kind not in TO_UNIT else kind for kind, likelihood in pairs]
    with overflow_allowed():
        return suited_kinds(views, kept, features)


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
