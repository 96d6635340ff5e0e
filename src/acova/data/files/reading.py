"""`Reading`: how tables are read that are not as the library expects them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_numeric_dtype

from acova.base import DataError, OptionError
from acova.base.errors import check_choice, near_miss
from acova.data.matching import loosely, match_loosely
from acova.data.sparse import SparseTable

MATCHES = ("exactly", "loosely")
HOLES = ("keep", "hide", "refuse")
"""What to do with rows that have single empty cells."""
_BESIDE = ("labels", "observed")
_NAMELESS = re.compile(r"Unnamed: [0-9]+")


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How tables are read; the defaults are what `acova.data.read_views` does by itself, which see for the words."""

    drop: tuple[str, ...] = ()
    drop_sample: tuple[str, ...] = ()
    id_column: tuple[str, ...] = ()
    transpose: tuple[str, ...] = ()
    match_ids: str = "exactly"
    holes: str = "keep"
    layer: str | None = None
    remembered: tuple[str, ...] = ()
    """Which of these words come from a fit on other data: they may name what is not there."""

    @classmethod
    def of(cls, who: str, **words: Any) -> Self:
        """Return the words of a user as they are kept: a single one where several may stand becomes a tuple."""
        check_choice(who, "match_ids", words.get("match_ids", "exactly"), MATCHES)
        check_choice(who, "holes", words.get("holes", "keep"), HOLES)
        for name, value in words.items():
            if name not in ("match_ids", "holes", "layer"):
                words[name] = _listed(who, name, value)
        return cls(**words)

    def given(self) -> dict[str, Any]:
        """Return the words that differ from the defaults."""
        words = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "remembered"}
        return {name: value for name, value in words.items() if value != getattr(AS_WRITTEN, name)}

    # --- where the names of samples are ---------------------------------------------------------

    def id_place(self, views: Sequence[str], columns: Sequence[str]) -> int:
        """Return the number of the column that names the samples of a table: the first, unless another is asked for.

        Parameters
        ----------
        views : sequence of str
            The names by which the table may be meant.
        columns : sequence of str
        """
        own = [column for column in columns if any(f"{view}:{column}" in self.id_column for view in views)]
        found = own or [column for column in columns if column in self.id_column]
        if len(found) > 1:
            both = "twice the column" if found[0] == found[1] else "the columns"
            msg = (
                f"View {views[-1]!r} has {both} {', '.join(map(repr, dict.fromkeys(found)))}, and one column names the "
                f"samples; give id_column='{views[-1]}:COLUMN' for this view, or rename a column of the table."
            )
            raise DataError(msg)
        return list(columns).index(found[0]) if found else 0

    def check_ids(self, tables: Mapping[str, pd.DataFrame]) -> None:
        """Raise `DataError` for an `id_column` that no table has; the tables are indexed by theirs."""
        used = {text for name, table in tables.items() for text in (f"{name}:{_id(table)}", _id(table))}
        known = [str(column) for table in tables.values() for column in table.columns]
        for word in self._strict("id_column"):
            if word not in used and word not in known:
                hint = near_miss(word.split(":")[-1], known)
                msg = (
                    f"read_views: id_column must be a column of a table, or VIEW:COLUMN; no table has {word!r}.{hint} "
                    "Other files than tables name samples in their own way."
                )
                raise DataError(msg)

    # --- tables that are turned -----------------------------------------------------------------

    def turned(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parts, those in `transpose` with samples in rows."""
        for name in self._strict("transpose"):
            if name not in parts:
                msg = (
                    f"read_views: transpose must name views, which are {', '.join(map(repr, parts))}; got {name!r}."
                    f"{near_miss(name, parts)}"
                )
                raise DataError(msg)
        return {name: _turned(part) if name in self.transpose else part for name, part in parts.items()}

    # --- samples --------------------------------------------------------------------------------

    def matched(self, frames: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
        """Return the tables with one spelling of each name where names are matched loosely, and what was matched."""
        if self.match_ids == "exactly":
            return dict(frames), {}
        return match_loosely(frames)

    def without_samples(self, tables: Mapping[str, Any]) -> dict[str, Any]:
        """Return tables and arrays of one row per sample without some samples; one that nobody has is an error."""
        if not self.drop_sample:
            return dict(tables)
        kept, known, left = {}, [], dict.fromkeys(map(self._plain, self.drop_sample))
        for name, table in tables.items():
            rows = _names(table)
            texts = [self._plain(str(label)) for label in rows]
            gone = np.isin(np.array(texts, dtype=object), list(map(self._plain, self.drop_sample)))
            known += [str(label) for label in rows]
            for text in {text for text, one in zip(texts, gone, strict=True) if one}:
                left.pop(text, None)
            kept[name] = _taken(table, ~gone, named=name not in _BESIDE)
        for word in self.drop_sample:
            if self._plain(word) in left:
                msg = f"read_views: drop_sample must name samples; no view has {word!r}.{near_miss(word, known)}"
                raise DataError(msg)
        return kept

    def _strict(self, name: str) -> tuple[str, ...]:
        """Return those of some words that must name something."""
        return () if name in self.remembered else getattr(self, name)

    def _plain(self, label: str) -> str:
        return loosely(label) if self.match_ids == "loosely" else label


AS_WRITTEN = Reading()
"""Tables with samples in rows and their names in the first column."""


def _listed(who: str, name: str, value: Any) -> tuple[str, ...]:
    words = (value,) if isinstance(value, str) or not isinstance(value, Iterable) else tuple(value)
    if all(isinstance(word, str) for word in words):
        return words
    msg = f"{who}: {name} must be a word or a list of words, such as {name}=['one', 'two']; got {value!r}."
    raise OptionError(msg)


def _id(table: pd.DataFrame) -> str:
    return str(table.index.name)


def _names(table: Any) -> pd.Index:
    """Return the names of the rows of a table, or their numbers."""
    if isinstance(table, pd.DataFrame | SparseTable) and table.index is not None:
        return table.index
    return pd.RangeIndex(table.shape[0])


def _taken(table: Any, rows: NDArray[np.bool_], *, named: bool) -> Any:
    """Return some rows; those of an array without names are named by their numbers if they are to be `named`."""
    if isinstance(table, SparseTable):
        return table.take(np.flatnonzero(rows))
    if isinstance(table, pd.DataFrame) or not named:
        return table[rows]
    return pd.DataFrame(table[rows], index=np.flatnonzero(rows))


def _turned(part: Any) -> Any:
    """Return a table with rows and columns exchanged; a row that held numbers alone becomes a column of numbers."""
    if not isinstance(part, pd.DataFrame):
        return part.T
    samples = ["" if _NAMELESS.fullmatch(str(column)) else str(column) for column in part.columns]
    table = part.T.set_axis(pd.Index(samples, dtype=object), axis=0).set_axis(list(map(str, part.index)), axis=1)
    if all(map(is_numeric_dtype, table.dtypes)):
        return table
    columns = [_as_numbers(table.iloc[:, place]) for place in range(table.shape[1])]
    return pd.concat(columns, axis=1) if columns else table


def _as_numbers(column: "pd.Series[Any]") -> "pd.Series[Any]":
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        return column
