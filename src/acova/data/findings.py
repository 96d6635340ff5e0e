"""Suspicious things in tables: what stops a fit, and what may quietly spoil one."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.sparse.csgraph import connected_components

from acova.base import DataError, DataWarning
from acova.data.categories import MOST_CATEGORIES, Encoded, is_text, text_trouble
from acova.data.names import count_nameless, first_padded, kinds_trouble, lookalikes, transposition, union

MARKERS = (-99, -999, -9999, 999, 9999, 99999)
"""Numbers that people write for "not known"."""
_SHOWN = 5
"""Columns that one warning names."""
_HUGE = 1e6
_COUNTED, _FEWEST_COUNTED = 255, 5
"""Largest whole number of images, above which whole numbers are counts, and numeric columns a view of counts has."""
_ALIKE = 1e4
"""Times larger than the median column of its view at which a column's spread is remarked."""


@dataclass(frozen=True)
class Finding:
    """One suspicious thing.

    See Also
    --------
    inspect_data : Collects them.
    """

    kind: str
    """A word for what it is, such as ``constant``."""
    view: str
    column: str
    """Empty when it concerns the view as a whole."""
    text: str
    stops: bool = False
    """Whether a fit refuses the data for it."""
    warns: bool = False
    """Whether a fit warns of it."""


def warn_of(findings: Iterable[Finding]) -> None:
    """Give a `DataWarning` for each kind of finding in each view that a fit warns of."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for one in findings:
        if one.warns:
            groups.setdefault((one.kind, one.view), []).append(one)
    for (_, view), alike in groups.items():
        texts = "; ".join(f"column {one.column!r} {one.text}" if one.column else one.text for one in alike[:_SHOWN])
        more = f"; and {len(alike) - _SHOWN} more like these" if len(alike) > _SHOWN else ""
        where = f"View {view!r}: " if view else ""
        # The caller may be a script, an estimator or a reader of files: the text says where to look, not the line.
        warnings.warn(f"{where}{texts}{more}.", DataWarning, stacklevel=3)


def findings_of(frames: Mapping[str, pd.DataFrame]) -> Iterator[Finding]:
    """Yield what looks wrong in the rows and columns of the views."""
    for name, frame in frames.items():
        yield from _of_rows(name, frame)
        numbers = {}
        for place, label in enumerate(frame.columns):
            column, values = str(label), frame.iloc[:, place]
            if values.isna().all():
                yield Finding("empty", name, column, "is empty everywhere; drop it", stops=len(frame) > 0)
            elif is_numeric_dtype(values.dtype):
                array = values.to_numpy(dtype=np.float64, na_value=np.nan)
                numbers[column] = array
                yield from _of_numbers(name, column, array, values)
            else:
                yield from _of_words(name, column, values)
        yield from _of_columns(name, numbers)
        yield from _of_counts(name, numbers)


def _of_rows(name: str, frame: pd.DataFrame) -> Iterator[Finding]:
    numeric, gone = frame.select_dtypes("number"), frame.isna()
    empty = gone.all(axis=1)
    partly = gone.any(axis=1) & ~empty
    if partly.any():
        cells = int(gone[partly].sum().sum())
        count, first = int(partly.sum()), partly.idxmax()
        rows = "1 row has" if count == 1 else f"{count} rows have"
        yield Finding("holes", name, "", f"{rows} single empty cells ({cells}), first {first!r}: these are left out")
    if empty.any():
        yield Finding("missing", name, "", f"{_rows(empty)} empty: these samples lack the view")
    if frame.index.has_duplicates:
        label = frame.index[frame.index.duplicated()].tolist()[0]
        yield Finding("repeated", name, "", f"the sample {label!r} occurs more than once", stops=True)
    if not numeric.empty:
        zeros = (numeric == 0).all(axis=1)
        if zeros.any() and numeric.shape[1] > 1:
            yield Finding("zeros", name, "", f"{_rows(zeros)} all zero: if that means 'missing', make them empty")


def _rows(chosen: "pd.Series[bool]") -> str:
    count = int(chosen.sum())
    return "1 row is" if count == 1 else f"{count} rows are"


def _cells(count: int) -> str:
    return "1 cell is" if count == 1 else f"{count} cells are"


def _of_numbers(name: str, column: str, array: NDArray[np.float64], values: pd.Series) -> Iterator[Finding]:
    known = array[~np.isnan(array)]
    if np.isinf(known).any():
        yield Finding("infinite", name, column, f"{_cells(int(np.isinf(known).sum()))} infinite", stops=True)
        return
    different = np.unique(known)
    if len(different) == 1:
        yield Finding("constant", name, column, f"is always {different[0]:g}: it carries no information")
        return
    if _counts_rows(known, values):
        yield Finding("id", name, column, "has whole numbers that only increase: a number of the row? drop it")
    elif np.abs(different).max() > _HUGE:
        yield Finding("huge", name, column, f"goes up to {np.abs(different).max():.3g}: another unit, or a logarithm?")
    for marker in MARKERS:
        count = int((known == marker).sum())
        if count > 1 and marker in (different[0], different[-1]):
            yield Finding("marker", name, column, f"{count} cells are {marker}: if that means 'not known', empty them")


def _counts_rows(known: NDArray[np.float64], values: pd.Series) -> bool:
    if is_bool_dtype(values.dtype) or len(known) < 10:
        return False
    return bool((np.diff(known) > 0).all() and (known == np.round(known)).all())


def _of_words(name: str, column: str, values: pd.Series) -> Iterator[Finding]:
    trouble = text_trouble(values) if is_text(values) else None
    if trouble:
        yield Finding("text", name, column, f"is text and {trouble}", stops=True)
        return
    try:
        encoded = Encoded(name, pd.DataFrame({column: values}))
    except DataError:
        yield Finding("type", name, column, f"is neither numbers nor categories ({values.dtype})", stops=True)
        return
    found = encoded.categories.get(column)
    if column in encoded.doubts:
        yield doubt_finding(name, column, encoded.doubts[column])
    if found is not None and len(found) == 1:
        yield Finding("constant", name, column, f"is always {found[0]!r}: it carries no information")
    elif found is not None:
        shown = ", ".join(found[:4]) + (", …" if len(found) > 4 else "")
        many = " (many: they outweigh the numbers)" if len(found) > MOST_CATEGORIES else ""
        yield Finding("encoded", name, column, f"is encoded as {len(found)} columns: {shown}{many}")


def _of_columns(name: str, numbers: Mapping[str, NDArray[np.float64]]) -> Iterator[Finding]:
    """Compare the numeric columns of one view with each other."""
    seen: dict[bytes, str] = {}
    for column, array in numbers.items():
        twin = seen.setdefault((array + 0.0).tobytes(), column)
        if twin != column and np.unique(array[~np.isnan(array)]).size > 1:
            yield Finding("duplicate", name, column, f"is the same as {twin!r}: it counts twice")
    spreads = {column: float(np.nanstd(array)) for column, array in numbers.items() if not np.isinf(array).any()}
    middle = float(np.median([spread for spread in spreads.values() if spread > 0] or [0.0]))
    for column, spread in spreads.items():
        if middle > 0 and spread > _ALIKE * middle:
            text = f"varies {spread / middle:.1g} times as much as the median column: scale it (the default does)"
            yield Finding("spread", name, column, text)


def _of_counts(name: str, numbers: Mapping[str, NDArray[np.float64]]) -> Iterator[Finding]:
    """Remark raw counts."""
    largest = counts_of([array[~np.isnan(array)] for array in numbers.values()])
    if largest is not None:
        text = (
            f"looks like raw counts (whole numbers up to {largest:,.0f}): divide each row by its sum, and take "
            "logarithms (np.log1p), or the largest columns will dominate"
        )
        yield Finding("counts", name, "", text)


def counts_of(columns: Sequence[NDArray[np.floating]]) -> float | None:
    """Return the largest of the values if these columns look like raw counts, else None.

    Counts are whole numbers from 0 with a long tail in most columns; `columns` have no empty cells.
    """
    known = [column for column in columns if len(column)]
    if len(known) < _FEWEST_COUNTED or any(((column < 0) | (column != np.round(column))).any() for column in known):
        return None
    largest = max(float(column.max()) for column in known)
    tails = sum(bool(column.mean() > np.median(column)) for column in known)
    return largest if largest > _COUNTED and 2 * tails > len(known) and np.isfinite(largest) else None


def name_findings(frames: Mapping[str, pd.DataFrame], joined: pd.Index | None = None) -> Iterator[Finding]:
    """Yield what looks wrong in the names of the samples; it looks at nothing but the indices.

    Parameters
    ----------
    frames : dict of view → DataFrame
    joined : Index, optional
        The samples of all views, where they are known to fit together.
    """
    indices = {name: frame.index for name, frame in frames.items()}
    trouble = None if joined is not None else kinds_trouble(indices)
    if trouble:
        view, text = trouble
        hint = transposition(view, frames)
        yield Finding("kinds", view, "", text + (f"; {hint}" if hint else ""), stops=True)
        return
    joined = union(indices.values()) if joined is None else joined
    for name, index in indices.items() if count_nameless(joined) else ():
        count = count_nameless(index)
        if count:
            yield Finding("unnamed", name, "", f"{'1 row has' if count == 1 else f'{count} rows have'} no name", True)
    for name, index in indices.items() if first_padded(joined) is not None else ():
        padded = first_padded(index)
        if padded is not None:
            text = f"names of samples begin or end with blanks, first {padded!r}; blanks are part of a name"
            yield Finding("spaces", name, "", text, warns=True)
    for one in lookalikes(indices, joined):
        names = "1 name differs" if one.count == 1 else f"{one.count} names differ"
        text = (
            f"{names} from those of other views only in capitals, blanks, zeros or type, first "
            f"{one.label!r} here, {one.other_label!r} in view {one.other_view!r}; these are different samples "
            "(in files, match_ids='loosely' joins names that differ in capitals and blanks)"
        )
        yield Finding("lookalike", one.view, "", text, warns=True)


def overlap_findings(
    names: Sequence[str], observed: NDArray[np.bool_], frames: Mapping[str, pd.DataFrame] | None
) -> Iterator[Finding]:
    """Yield a finding for each group of views that shares no sample with the others.

    Parameters
    ----------
    names : sequence of V str
    observed : array of bool, shape (n_samples, V)
    frames : dict of name → DataFrame, optional
        The views, where their samples have names.
    """
    count, group = connected_components(observed.T @ observed, directed=False)
    members = [np.flatnonzero((group == g) & observed.any(axis=0)).tolist() for g in range(count)]
    groups = sorted(([names[v] for v in one] for one in members if one), key=len)
    for group in groups[:-1]:
        other = groups[-1][0]
        with_others = f"together with {', '.join(map(repr, group[1:]))} it " if group[1:] else ""
        text = f"{with_others}shares no sample with view {other!r}"
        if frames is not None:
            text += f" ({frames[group[0]].index[0]!r} here, {frames[other].index[0]!r} there)"
            text += next((f"; {hint}" for one in group if (hint := transposition(one, frames))), "")
        yield Finding("disjoint", group[0], "", text, warns=True)


def ignored_findings(files: Sequence[str]) -> Iterator[Finding]:
    """Yield a finding about files of a folder that were not read."""
    if files:
        shown = ", ".join(map(repr, files[:_SHOWN])) + (", …" if len(files) > _SHOWN else "")
        text = f"files that are not read: {shown}; convert them, or keep them elsewhere"
        yield Finding("ignored", "", "", text, warns=True)


def doubt_finding(name: str, column: str, doubt: str) -> Finding:
    """Return the finding about a column that was taken for categories and may be none."""
    text = f"is taken for categories but {doubt}; drop it or turn it into numbers if these are no categories"
    return Finding("doubtful", name, column, text, warns=True)
