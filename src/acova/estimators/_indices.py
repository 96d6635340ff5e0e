"""Names of samples, any pandas index, to and from JSON."""

import warnings
from collections.abc import Hashable
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from acova.base import DataWarning

Name = Any
"""Of a level: text, a number, None, or a list of these for a tuple."""


class Range(msgspec.Struct, tag="range"):
    """Numbers with equal steps."""

    start: int
    stop: int
    step: int
    name: Name = None


class Values(msgspec.Struct, tag="values"):
    """Text, numbers, or both: ``dtype`` is that of pandas."""

    dtype: str
    values: list[str | int | float | bool | None]
    name: Name = None


class Times(msgspec.Struct, tag="times"):
    """Dates, time differences or periods as integers; ``dtype`` has their unit and time zone."""

    dtype: str
    values: list[int]
    freq: str | None = None
    name: Name = None


class Categories(msgspec.Struct, tag="categories"):
    """Categories and the place of each sample's among them."""

    codes: list[int]
    categories: "Stored"
    ordered: bool
    name: Name = None


class Intervals(msgspec.Struct, tag="intervals"):
    """Ends of intervals."""

    left: "Stored"
    right: "Stored"
    closed: str
    name: Name = None


class Levels(msgspec.Struct, tag="levels"):
    """Several levels, and the place of each sample's label in each."""

    codes: list[list[int]]
    levels: list["Stored"]
    names: list[Name]


Stored = Range | Values | Times | Categories | Intervals | Levels


pandas: Any = pd  # whose type hints lack much of what is used here


def index_to_json(index: pd.Index) -> Any:
    """Return an index as plain JSON values, from which `index_from_json` makes the same index.

    Labels that are neither text, numbers, dates nor categories become text, with a warning.
    """
    try:
        plain = msgspec.to_builtins(_stored(index))
        if _same(index_from_json(plain), index):
            return plain
    except (TypeError, ValueError, AttributeError, OverflowError, NotImplementedError):
        pass
    msg = (
        f"The index of the samples holds {index.dtype} labels that cannot be saved as they are, such as "
        f"{index.tolist()[0]!r}; the saved model has them as text. Give text, numbers or dates to keep them."
    )
    warnings.warn(msg, DataWarning, stacklevel=2)
    return msgspec.to_builtins(Values("object", [str(label) for label in index], None))


def index_from_json(plain: Any) -> pd.Index:
    """Return the index that `index_to_json` wrote; raise `ValueError` where it is none."""
    index: pd.Index = _index(msgspec.convert(plain, Stored))
    return index


def _stored(index: pd.Index) -> Stored:
    name = None if isinstance(index, pd.MultiIndex) else _plain_name(index.name)
    match index:
        case pd.MultiIndex():
            codes = [np.asarray(level).tolist() for level in index.codes]
            return Levels(codes, [_stored(level) for level in index.levels], [_plain_name(n) for n in index.names])
        case pd.RangeIndex():
            return Range(index.start, index.stop, index.step, name)
        case pd.DatetimeIndex() | pd.TimedeltaIndex() | pd.PeriodIndex():
            freq = None if isinstance(index, pd.PeriodIndex) else index.freqstr
            return Times(str(index.dtype), index.asi8.tolist(), freq, name)
        case pd.CategoricalIndex():
            return Categories(index.codes.tolist(), _stored(index.categories), bool(index.ordered), name)
        case pd.IntervalIndex():
            return Intervals(_stored(index.left), _stored(index.right), index.closed, name)
    values = [None if label is pd.NA else label for label in index.tolist()]
    return Values(str(index.dtype), values, name)


def _index(stored: Stored) -> Any:
    match stored:
        case Range(start, stop, step, name):
            return pandas.RangeIndex(start, stop, step, name=_name(name))
        case Values(dtype, values, name):
            return pandas.Index(values, dtype=dtype, name=_name(name))
        case Times(dtype, values, freq, name):
            return _times(dtype, values, freq, _name(name))
        case Categories(codes, categories, ordered, name):
            found = pandas.Categorical.from_codes(codes, _index(categories), ordered=ordered)
            return pandas.CategoricalIndex(found, name=_name(name))
        case Intervals(left, right, closed, name):
            return pandas.IntervalIndex.from_arrays(_index(left), _index(right), closed=closed, name=_name(name))
        case Levels(codes, levels, names):
            return pandas.MultiIndex([_index(level) for level in levels], codes, names=[_name(n) for n in names])


def _times(dtype: str, values: list[int], freq: str | None, name: Hashable) -> Any:
    numbers = np.array(values, dtype=np.int64)
    kind = pandas.api.types.pandas_dtype(dtype)
    if isinstance(kind, pd.PeriodDtype):
        return pandas.PeriodIndex.from_ordinals(numbers, freq=kind.freq, name=name)
    if isinstance(kind, pd.DatetimeTZDtype):
        plain = pandas.DatetimeIndex(numbers.view(f"M8[{kind.unit}]")).tz_localize("UTC").tz_convert(kind.tz)
        return pandas.DatetimeIndex(plain, freq=freq, name=name)
    if kind.kind == "M":
        return pandas.DatetimeIndex(numbers.view(kind), freq=freq, name=name)
    return pandas.TimedeltaIndex(numbers.view(kind), freq=freq, name=name)


def _same(first: pd.Index, second: pd.Index) -> bool:
    alike = type(first) is type(second) and first.equals(second) and list(first.names) == list(second.names)
    if isinstance(first, pd.MultiIndex) and isinstance(second, pd.MultiIndex):
        return alike and all(map(_same, first.levels, second.levels))
    if second.dtype == object:
        alike = alike and [type(label) for label in first] == [type(label) for label in second]
    return alike and bool(first.dtype == second.dtype) and getattr(first, "freq", None) == getattr(second, "freq", None)


def _plain_name(name: Any) -> Name:
    if isinstance(name, tuple):
        return [_plain_name(part) for part in name]
    return name.item() if isinstance(name, np.generic) else name


def _name(name: Name) -> Hashable:
    return tuple(_name(part) for part in name) if isinstance(name, list) else name
