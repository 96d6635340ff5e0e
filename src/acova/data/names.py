"""Names of samples and of columns: which of them belong together, and which only look as if they did."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.base import DataError

_KINDS = {
    "string": "text",
    "integer": "numbers",
    "floating": "numbers",
    "mixed-integer-float": "numbers",
    "decimal": "numbers",
    "boolean": "numbers",
    "date": "dates",
    "period": "periods",
    "timedelta": "durations",
    "timedelta64": "durations",
}
_SIMILAR = 0.5
"""Share of a table's columns that are samples of another table, from which on it looks transposed."""


@dataclass(frozen=True)
class Lookalike:
    """Names of one view that other views may mean by another spelling."""

    view: str
    count: int
    label: Any
    """The first such name."""
    other_view: str
    other_label: Any


def check_columns(who: str, columns: Iterable[Any]) -> None:
    """Refuse columns that have the same name as text: they could not be told apart later."""
    counts = Counter(map(str, columns))
    twice = [column for column, count in counts.items() if count > 1]
    if twice:
        msg = (
            f"{who} has several columns called {', '.join(map(repr, twice[:5]))}; columns are matched by name "
            "(1 and '1' are the same), so rename or drop them (AnnData: data.var_names_make_unique())."
        )
        raise DataError(msg)


def joined_index(frames: Mapping[str, pd.DataFrame]) -> pd.Index:
    """Return the samples of all frames in order of first appearance."""
    for name, frame in frames.items():
        _check_unique(name, frame.index)
    indices = {name: frame.index for name, frame in frames.items()}
    trouble = kinds_trouble(indices)
    if trouble:
        view, text = trouble
        hint = transposition(view, frames)
        msg = f"View {view!r} {text}{f' ({hint})' if hint else ''}."
        raise DataError(msg)
    joined = union(indices.values())
    if count_nameless(joined):
        name, count = next((name, count) for name, index in indices.items() if (count := count_nameless(index)))
        msg = (
            f"View {name!r} has {count} {'row' if count == 1 else 'rows'} without a name; samples are joined by name, "
            "so name these rows or drop them."
        )
        raise DataError(msg)
    return joined


def union(indices: Iterable[pd.Index]) -> pd.Index:
    """Return every label once, in order of first appearance."""
    first, *others = indices
    joined: pd.Index = first
    for other in others:
        if not other.equals(joined):
            joined = joined.append(other[joined.get_indexer(other) < 0])
    return joined


def along(index: pd.Index, rows: pd.Index, values: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    """Lay out the rows of a frame along the joined index, NaN where a sample is absent."""
    if rows.equals(index):
        return values
    out = np.full((len(index), values.shape[1]), np.nan, dtype=values.dtype)
    out[index.get_indexer(rows)] = values
    return out


def _check_unique(name: str, index: pd.Index) -> None:
    if not index.is_unique:
        label = index[index.duplicated()].tolist()[0]
        msg = (
            f"View {name!r} has the index label {label!r} more than once; each sample may appear once per "
            "view. Drop or aggregate the duplicates, for example with frame.groupby(level=0).mean()."
        )
        raise DataError(msg)


def count_nameless(index: pd.Index) -> int:
    """Return how many labels are NaN, empty or blank."""
    if isinstance(index, pd.MultiIndex):
        return 0
    blank = sum(not label.strip() for label in index if isinstance(label, str)) if _holds_text(index) else 0
    return int(np.count_nonzero(index.isna())) + blank


def _holds_text(index: pd.Index) -> bool:
    return not isinstance(index, pd.MultiIndex) and kind_of(index) in ("text", None)


def kind_of(index: pd.Index) -> str | None:
    """Return what the labels are, in words; None for mixtures, several levels and no labels at all."""
    if isinstance(index, pd.CategoricalIndex):
        index = pd.Index(index.categories)
    if isinstance(index, pd.MultiIndex) or not len(index):
        return None
    inferred = index.inferred_type
    if inferred in ("datetime", "datetime64"):
        zone = getattr(index, "tz", None) or getattr(index[0], "tzinfo", None)
        return "times without a time zone" if zone is None else "times with a time zone"
    return _KINDS.get(inferred)


def kinds_trouble(indices: Mapping[str, pd.Index]) -> tuple[str, str] | None:
    """Return a view whose labels can equal none of another view's, and why; None when there is no such view."""
    known = {name: kind for name, index in indices.items() if (kind := kind_of(index)) is not None}
    if len(set(known.values())) < 2:
        return None
    usual = Counter(known.values()).most_common(1)[0][0]
    view = next(name for name, kind in reversed(known.items()) if kind != usual)
    other = next(name for name, kind in known.items() if kind == usual)
    way = "frame.index = frame.index.astype(str)"
    if {"times without a time zone", "times with a time zone"} == {known[view], usual}:
        way = "frame.index = frame.index.tz_localize(None)"
    text = (
        f"names its samples by {known[view]} ({_shown(indices[view][0])}) but view {other!r} by {usual} "
        f"({_shown(indices[other][0])}), so that no sample of one is found in the other; "
        f"give all views the same kind of names, for example with {way}"
    )
    return view, text


def _shown(label: Any) -> str:
    return repr(label.item() if isinstance(label, np.generic) else label)


def lookalikes(indices: Mapping[str, pd.Index], joined: pd.Index) -> list[Lookalike]:
    """Return, for each view, names that some view spells otherwise: capitals, blanks, zeros before or after.

    A name counts only where no view has both spellings, since two names in one view are two samples.

    Parameters
    ----------
    indices : dict of view → Index
    joined : Index
        The `union` of them.
    """
    if not _holds_text(joined):
        return []
    plain = pd.Index([_plain(label) for label in joined], dtype=object)
    rows = np.flatnonzero(plain.duplicated(keep=False))
    if not rows.size:
        return []
    twins, codes = joined[rows], pd.factorize(plain[rows])[0]
    has = np.column_stack([twins.isin(index) for index in indices.values()])
    spellings = np.zeros((codes.max() + 1, len(indices)), dtype=np.int64)
    np.add.at(spellings, codes, has)
    # The reference is the spelling that comes first; `union` has put it first.
    reference = np.unique(codes, return_index=True)[1][codes]
    odd = (spellings.max(axis=1) <= 1)[codes] & (reference != np.arange(len(codes)))
    names, found = list(indices), []
    for v, name in enumerate(names):
        rows = np.flatnonzero(odd & has[:, v])
        if rows.size:
            other = reference[rows[0]]
            found.append(Lookalike(name, rows.size, twins[rows[0]], names[int(has[other].argmax())], twins[other]))
    return found


def _plain(label: Any) -> str:
    text = "".join(str(label).split()).casefold().removesuffix(".0")
    return text.lstrip("0") or "0" if text.isdecimal() else text


def first_padded(index: pd.Index) -> str | None:
    """Return the first label that begins or ends with a blank."""
    if not _holds_text(index):
        return None
    return next((label for label in index if isinstance(label, str) and label != label.strip()), None)


def transposition(view: str, frames: Mapping[str, pd.DataFrame]) -> str:
    """Return a hint when a table seems to have its samples in columns, else an empty string."""
    for one, frame in [(view, frames[view]), *frames.items()]:
        columns = pd.Index(list(map(str, frame.columns)), dtype=object)
        for other, table in frames.items():
            if other != one and view in (one, other) and len(columns) > 1:
                samples = pd.Index(list(map(str, table.index)), dtype=object)
                if columns.isin(samples).mean() >= _SIMILAR:
                    return (
                        f"the columns of view {one!r} are named like the samples of view {other!r}: "
                        "its features seem to be in rows; transpose it (frame.T; files: transpose)"
                    )
    return ""
