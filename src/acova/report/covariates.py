"""By what the samples of the map can be coloured: covariates of the user, and features of the data."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from acova.base import DataError, OptionError
from acova.base.errors import near_miss
from acova.data import StoredViews, Views
from acova.report.profiles import cluster_profiles

_MOST_FEATURES = 12
_MOST_CATEGORIES = 11
"""Categories with a colour of their own; all others are one."""


def check_covariates(model: Any, covariates: Any) -> dict[str, pd.Series]:
    """Return the columns of a table or mapping, each in the order of the model's samples.

    A sample that a table does not have gets no value.
    """
    if covariates is None:
        return {}
    table = covariates if isinstance(covariates, pd.DataFrame) else _framed(model, covariates)
    if table.index.has_duplicates:
        label = table.index[table.index.duplicated()].tolist()[0]
        msg = f"report: the sample {label!r} occurs more than once in covariates; keep one row for each sample."
        raise DataError(msg)
    samples = pd.Index(model.index_)
    if not samples.isin(table.index).any():
        samples, table = samples.astype(str), table.set_axis(table.index.astype(str))
    if not samples.isin(table.index).any():
        meant = near_miss(str(samples[0]), [str(label) for label in table.index[:1000]])
        msg = (
            "report: covariates have no sample of the model; their index must hold the samples' names, such as "
            f"{str(samples[0])!r}, and begins with {str(table.index[0]) if len(table) else 'nothing'!r}.{meant}"
        )
        raise DataError(msg)
    table = table.reindex(samples)
    return {str(name): table.iloc[:, place] for place, name in enumerate(table.columns)}


def check_survival(given: Sequence[str], time: str | None, event: str | None) -> None:
    """Raise `OptionError` where `time` and `event` are not both names of given covariates."""
    for option, name in (("time", time), ("event", event)):
        if name in given or (time is None and event is None):
            continue
        if name is None:
            msg = f"report: {option} is missing; name the covariates of both, time and event, or neither."
        else:
            known = ", ".join(map(repr, given)) or "none were given"
            msg = f"report: {option} must name one of the covariates ({known}); got {name!r}.{near_miss(name, given)}"
        raise OptionError(msg)


def _framed(model: Any, covariates: Any) -> pd.DataFrame:
    """Return a mapping of arrays, one value per sample, as a table."""
    if not isinstance(covariates, Mapping):
        msg = f"report: covariates must be a DataFrame or a dict of arrays; got {type(covariates).__name__}."
        raise DataError(msg)
    for name, values in covariates.items():
        if np.shape(values) != (len(model.labels_),):
            msg = (
                f"report: covariate {name!r} must have one value for each of the {len(model.labels_):,} samples; "
                f"its shape is {np.shape(values)}."
            )
            raise DataError(msg)
    return pd.DataFrame({name: np.asarray(values) for name, values in covariates.items()}, index=model.index_)


def top_features(model: Any, views: Any, observed: Any = None) -> dict[str, pd.Series]:
    """Return the features that set the clusters apart most, as covariates by the names ``view: feature``."""
    views = model._views_to_predict(views, observed)
    if isinstance(views, StoredViews):
        msg = "report: features are read from data in memory; give those to show as covariates."
        raise DataError(msg)
    if len(views) != len(model.labels_) or not pd.Index(views.index).isin(model.index_).all():
        msg = (
            f"report: views must be the training samples ({len(model.labels_):,}); got {len(views):,} samples. "
            "Give the data that the model was fitted on."
        )
        raise DataError(msg)
    order = pd.Index(views.index).get_indexer(model.index_)
    best: dict[tuple[int, str], float] = {}
    for profiles in cluster_profiles(model, 1):
        for v, profile in enumerate(profiles):
            for feature in profile.features:
                key = (v, feature.name)
                best[key] = max(best.get(key, 0.0), abs(feature.effect))
    chosen = sorted(best, key=lambda key: -best[key])[:_MOST_FEATURES]
    return {f"{views.names[v]}: {name}": _feature(model, views, v, name)[order] for v, name in chosen}


def _feature(model: Any, views: Views, v: int, name: str) -> Any:
    names = model._columns[v]
    place = int(name.removeprefix("feature ")) if not names else [str(one) for one in names].index(name)
    return views.arrays[v][:, place]


def colour_columns(covariates: Mapping[str, Any], rows: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Return covariates as the page draws them.

    Numbers are ``name``, ``low``, ``high`` and ``values`` (thousandths of the way from low to high); categories are
    ``name``, ``categories`` and ``values`` (their positions). A value that is missing is None.
    """
    return [_colour_column(name, pd.Series(np.asarray(values))[rows]) for name, values in covariates.items()]


def _colour_column(name: str, values: pd.Series) -> dict[str, Any]:
    values = values.infer_objects()
    if is_numeric_dtype(values.dtype) and not is_bool_dtype(values.dtype):
        numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
        known = numbers[np.isfinite(numbers)]
        low, high = (float(known.min()), float(known.max())) if len(known) else (0.0, 0.0)
        with np.errstate(invalid="ignore", over="ignore"):
            places = np.rint((numbers - low) / (high - low or 1.0) * 1000)
        shown = [int(place) if np.isfinite(place) else None for place in places.tolist()]
        return {"name": name, "low": low, "high": high, "values": shown}
    texts = values.astype(object).where(values.notna(), None).map(lambda value: None if value is None else str(value))
    kinds = [str(kind) for kind in texts.value_counts(sort=False).sort_index().index]
    frequent = texts.value_counts().index[:_MOST_CATEGORIES].tolist() if len(kinds) > _MOST_CATEGORIES + 1 else kinds
    categories = [kind for kind in kinds if kind in set(frequent)]
    place = {kind: number for number, kind in enumerate(categories)}
    shown = [None if text is None else place.get(text, len(categories)) for text in texts.tolist()]
    rest = [f"{len(kinds) - len(categories)} others"] if len(kinds) > len(categories) else []
    return {"name": name, "categories": [*categories, *rest], "values": shown}
