"""`Views`: several arrays about the same samples, in which rows and cells may be missing."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.base import DataError
from acova.base.errors import near_miss
from acova.base.html import html_table
from acova.console import count
from acova.data.categories import Categories, Encoded, category_column, given_column
from acova.data.covariates import along_index
from acova.data.findings import Finding, doubt_finding, name_findings, overlap_findings, warn_of
from acova.data.inputs import FloatArray, as_float_array, as_mask, check_lengths, frames_of, split_views
from acova.data.names import along, joined_index

Announced = int | tuple[str, ...]
"""What is known of a view that no sample has yet: its number of columns, or their names."""


class Views:
    """Samples seen through several views, any of which may be missing for any sample.

    Use `Views.of` to make one from what you have. Arrays are copied where needed and never written to;
    the rows of a view that is missing hold NaN, so code that reads them by mistake fails loudly. NaN in a row that is
    observed is an empty cell.

    Parameters
    ----------
    arrays : sequence of V arrays of shape (n_samples, n_features_v)
    observed : array of bool, shape (n_samples, V)
        True where a sample has the view.
    names : sequence of V str
    index : pandas.Index, optional
        Names of the samples; positions when left out.
    columns : sequence of V (tuple of str or None), optional
        Names of the features.
    categories : sequence of V (dict of column → categories), optional
        What was encoded: the features ``column=category`` are 1 where the column held the category, else 0.

    Attributes
    ----------
    arrays, observed, names, index, columns, categories
        As given, with NaN in hidden rows.
    empty : tuple of V (array of bool, shape (n_samples, n_features_v), or None)
        True in the empty cells of observed rows; None for a view without any.
    covariates : pandas.DataFrame or None
        What else is known of the samples, see `with_covariates`.
    announced : dict of str → int or tuple of str
        Views that no sample has yet, see `announce`.

    See Also
    --------
    acova.data.read_views : Views from files.
    acova.data.StoredViews : Views that stay on disk.
    acova.data.inspect_data : What looks wrong in data, before a fit.

    Examples
    --------
    >>> import pandas as pd
    >>> from acova import Views
    >>> blood = pd.DataFrame({"crp": [1.0, 2.0]}, index=["ann", "bob"])
    >>> image = pd.DataFrame({"size": [3.0]}, index=["bob"])
    >>> Views.of({"blood": blood, "image": image})
    <Views of 2 samples (50% complete); blood: 1 (100% observed), image: 1 (50% observed)>
    """

    covariates: pd.DataFrame | None = None
    announced: Mapping[str, Announced] = {}

    def __init__(
        self,
        arrays: Sequence[FloatArray],
        observed: NDArray[np.bool_],
        names: Sequence[str],
        index: pd.Index | None = None,
        columns: Sequence[tuple[str, ...] | None] | None = None,
        categories: Sequence[Categories] | None = None,
    ) -> None:
        self.names = tuple(names)
        self.index = pd.RangeIndex(len(observed)) if index is None else index
        self.columns = tuple(columns) if columns is not None else (None,) * len(self.names)
        self.categories = tuple(categories) if categories is not None else ({},) * len(self.names)
        _check_samples(observed, self.index)
        self.empty = tuple(
            _empty_cells(name, array, observed[:, v], self.index, self.columns[v], self.categories[v])
            for v, (name, array) in enumerate(zip(self.names, arrays, strict=True))
        )
        self.observed = observed
        self.arrays = tuple(_hidden_as_nan(array, self.observed[:, v]) for v, array in enumerate(arrays))

    @classmethod
    def of(
        cls,
        X: Any,
        observed: Any = None,
        *,
        view_sizes: Sequence[int] | None = None,
        categories: Mapping[str, Categories] | None = None,
        layer: str | None = None,
        seen: pd.Index | None = None,
    ) -> "Views":
        """Make views from any accepted input.

        Parameters
        ----------
        X : one of
            - a list of 2-D arrays, one row per sample; an all-NaN row means that view is missing there, and NaN in
              single cells of a row are empty cells. Sparse matrices are made dense (`StoredViews` keeps them sparse);
            - a dict of name → 2-D array;
            - a dict (or list) of pandas DataFrames, joined on their index: a sample absent from a frame
              lacks that view. Samples keep the order in which they first appear;
            - one 2-D array or DataFrame whose columns are cut into views by `view_sizes`;
            - a MuData, whose modalities are the views (a sample absent from a modality lacks that view), or an
              AnnData: ``X``, cut by ``var["feature_types"]`` where there are several, and the entries of ``obsm``
              that are not derived from it (those not called ``X_…``);
            - a `Views`.

            Columns of frames that hold text or categories are encoded: one column ``column=category`` of zeros
            and ones per category, in the order of the categorical dtype or else sorted. Where such a cell is empty,
            all its columns are. Text with more than 50 different values, or mostly
            numbers, is an error, since it is a name or a mistake: see ``docs/data.md``.
        observed : array of bool (n_samples, V), or DataFrame with samples as index and views as columns
            Hides more views: a view counts as present where this is True *and* its row is not all NaN.
        view_sizes : sequence of int
            Number of columns of each view, for the one-array form; None means one view.
        categories : dict of view → (dict of column → categories)
            The categories to encode with, as learned from other data (``model.categories_``); a column that is
            not named here gets those that occur.
        layer : str, optional
            The layer of a MuData or AnnData to read in the place of ``X``.
        seen : Index, optional
            Names of samples that were read before (``model.index_``). Where all are among them, the warnings about
            their names and categories are not repeated.
        """
        if isinstance(X, cls):
            return X if observed is None else X.hide(observed)
        views, findings = joined_views(split_views(X, view_sizes, layer), observed, categories)
        if seen is None or not views.index.isin(seen).all():
            warn_of(findings)
        return views

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.observed)

    @property
    def n_views(self) -> int:
        """Number of views."""
        return len(self.arrays)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of features of each view."""
        return tuple(array.shape[1] for array in self.arrays)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """(n_samples,) True where no view is missing."""
        return np.asarray(self.observed.all(axis=1))

    def rows(self, view: int) -> FloatArray:
        """Return the observed rows of one view."""
        return self.arrays[view][self.observed[:, view]]

    def take(self, rows: Any) -> Self:
        """Return the samples at the given positions, in that order."""
        taken = copy(self)  # whose cells are checked already
        rows = rows if isinstance(rows, slice) else np.arange(self.n_samples)[rows]
        taken.arrays = tuple(array[rows] for array in self.arrays)
        taken.empty = tuple(None if empty is None else empty[rows] for empty in self.empty)
        taken.observed, taken.index = self.observed[rows], self.index[rows]
        taken.covariates = None if self.covariates is None else self.covariates.iloc[rows]
        return taken

    def read(self, start: int, stop: int) -> Self:
        """Return consecutive samples, as `StoredViews.read` does."""
        return self.take(slice(start, stop))

    def hide(self, observed: Any) -> Self:
        """Return these views with more of them hidden (`observed` as in `Views.of`)."""
        mask = self.observed & as_mask(observed, self.index, list(self.names))
        hidden = type(self)(self.arrays, mask, self.names, self.index, self.columns, self.categories)
        hidden.covariates, hidden.announced = self.covariates, self.announced
        return hidden

    def with_covariates(self, covariates: pd.DataFrame | pd.Series) -> Self:
        """Return these views with what else is known of the samples: batch, site, sex, age.

        Parameters
        ----------
        covariates : DataFrame or Series
            Words or numbers, joined on the index. An empty cell is averaged over.
        """
        told = copy(self)
        told.covariates = along_index(covariates, self.index)
        return told

    def announce(self, name: str, columns: int | Sequence[str] | None = None) -> Self:
        """Return these views with a name for one that no sample has yet.

        A fit with an announced view is the fit without it. Later data may have the view, and the first of them that
        does is what `update` (or `add_view`) learns it from; until then `predict` refuses it.

        Parameters
        ----------
        name : str
        columns : int or sequence of str, optional
            Number or names of its columns. Not needed where the view is there and all its rows are hidden.
        """
        kept = self
        if name in self.names:
            v = self.names.index(name)
            if self.observed[:, v].any():
                msg = f"View {name!r} is observed, so there is nothing to announce; fit with it."
                raise DataError(msg)
            columns = columns or self.columns[v] or self.sizes[v]
            kept = self.without([name])
        if columns is None or (isinstance(columns, int) and columns < 1):
            msg = f"View {name!r} is announced with columns={columns!r}; say how many it will have, or their names."
            raise DataError(msg)
        told = copy(kept)
        told.announced = {**kept.announced, name: columns if isinstance(columns, int) else tuple(map(str, columns))}
        return told

    def without(self, names: Sequence[str]) -> Self:
        """Return these views without some of them, and without samples that have no other."""
        kept = [v for v, name in enumerate(self.names) if name not in names]
        if not kept:
            msg = f"Without {', '.join(map(repr, names))} there is no view left."
            raise DataError(msg)
        rows: NDArray[np.bool_] = np.asarray(self.observed[:, kept].any(axis=1))
        fewer = type(self)(
            [self.arrays[v][rows] for v in kept],
            self.observed[rows][:, kept],
            [self.names[v] for v in kept],
            self.index[rows],
            [self.columns[v] for v in kept],
            [self.categories[v] for v in kept],
        )
        fewer.covariates = None if self.covariates is None else self.covariates.loc[rows]
        fewer.announced = self.announced
        return fewer

    def matched_to(self, names: Sequence[str], sizes: Sequence[int], columns: Sequence[tuple[str, ...] | None]) -> Self:
        """Return these views in the order, and with the columns, of views seen before.

        A view that is absent here is missing for every sample; an unknown one is an error.
        """
        for name in self.names:
            if name not in names:
                msg = (
                    f"View {name!r} was not there when the model was fitted; it knows "
                    f"{', '.join(map(repr, names))}.{near_miss(name, names)}"
                )
                raise DataError(msg)
        arrays, mask = [], np.zeros((self.n_samples, len(names)), dtype=bool)
        for v, (name, size, wanted) in enumerate(zip(names, sizes, columns, strict=True)):
            if name not in self.names:
                arrays.append(np.full((self.n_samples, size), np.nan))
                continue
            here = self.names.index(name)
            array, columns_here = self.arrays[here], self.columns[here]
            if columns_here is not None and wanted is not None:
                array = _matched_columns(name, array, columns_here, self.categories[here], wanted)
            if array.shape[1] != size:
                msg = f"View {name!r} has {array.shape[1]} columns but was fitted with {size}."
                raise DataError(msg)
            arrays.append(array)
            mask[:, v] = self.observed[:, here]
        matched = type(self)(arrays, mask, names, self.index, columns)
        matched.covariates = self.covariates
        return matched

    def __len__(self) -> int:
        return self.n_samples

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features of all views, by which scikit-learn counts the samples."""
        return self.n_samples, sum(self.sizes)

    def __getitem__(self, rows: Any) -> Self:
        """Return the samples at the given positions: scikit-learn splits samples by this."""
        if isinstance(rows, tuple) and len(rows) == 2 and rows[1] is Ellipsis:
            rows = rows[0]
        if isinstance(rows, str | tuple):
            msg = f"Views are indexed by positions of samples; got {rows!r}. The arrays of the views are in .arrays."
            raise DataError(msg)
        return self.take([rows] if isinstance(rows, int | np.integer) else rows)

    __iter__ = None  # neither samples nor views are meant

    def __repr__(self) -> str:
        total = max(self.n_samples, 1)
        views = ", ".join(
            f"{name}: {size} ({seen / total:.0%} observed)"
            for name, size, seen in zip(self.names, self.sizes, self.observed.sum(axis=0), strict=True)
        )
        noun = "sample" if self.n_samples == 1 else "samples"
        return f"<Views of {self.n_samples} {noun} ({self.complete.sum() / total:.0%} complete); {views}>"

    def _repr_html_(self) -> str:
        total = max(self.n_samples, 1)
        seen = self.observed.sum(axis=0).tolist()
        rows = [(*one, f"{one[-1] / total:.0%}") for one in zip(self.names, self.sizes, seen, strict=True)]
        title = f"Views of {count(self.n_samples, 'sample')}"
        note = f"{self.complete.sum() / total:.0%} of the samples have all views."
        return html_table(title, ("view", "features", "samples that have it", "share"), rows, note)


def joined_views(
    parts: Mapping[str, Any], observed: Any = None, categories: Mapping[str, Categories] | None = None
) -> tuple[Views, list[Finding]]:
    """Return the views of named parts, and what looks wrong in them without being an error; see `Views.of`."""
    if not parts:
        msg = "Views: no view was given; pass a list or dict with at least one 2-D array."
        raise DataError(msg)
    frames = frames_of(parts)
    if frames is None:
        arrays = [as_float_array(name, part) for name, part in parts.items()]
        check_lengths(dict(zip(parts, arrays, strict=True)))
        index: pd.Index = pd.RangeIndex(len(arrays[0]))
        columns, found, findings = None, None, []
    else:
        index = joined_index(frames)
        findings = list(name_findings(frames, index))
        encoded = {name: Encoded(name, frame, (categories or {}).get(name)) for name, frame in frames.items()}
        arrays = [along(index, frame.index, encoded[name].values) for name, frame in frames.items()]
        columns, found = [one.columns for one in encoded.values()], [one.categories for one in encoded.values()]
        findings += [doubt_finding(name, *doubt) for name, one in encoded.items() for doubt in one.doubts.items()]
    present = np.column_stack([~np.isnan(array).all(axis=1) for array in arrays])
    if observed is not None:
        present &= as_mask(observed, index, list(parts))
    views = Views(arrays, present, list(parts), index, columns, found)
    if categories is None:  # new samples of a known model may well share no view
        findings += overlap_findings(views.names, views.observed, frames)
    return views, findings


def stack_views(X: Any) -> tuple[FloatArray, tuple[int, ...]]:
    """Return one 2-D array with NaN blocks and its `view_sizes`: the form pipelines and searches take.

    Parameters
    ----------
    X : anything that `Views.of` takes

    See Also
    --------
    Views : Several arrays about the same samples.
    """
    views = Views.of(X)
    return np.hstack(views.arrays), views.sizes


def _check_samples(observed: NDArray[np.bool_], index: pd.Index) -> None:
    """Refuse samples without any view."""
    empty = np.flatnonzero(~observed.any(axis=1))
    if empty.size:
        msg = (
            f"{empty.size} of {len(observed)} samples have no view at all, first: "
            f"{', '.join(map(str, index[empty[:5]].tolist()))}. Such a sample cannot be placed; drop it."
        )
        raise DataError(msg)


def _empty_cells(
    name: str,
    array: FloatArray,
    seen: NDArray[np.bool_],
    index: pd.Index,
    columns: tuple[str, ...] | None,
    categories: Categories,
) -> NDArray[np.bool_] | None:
    """Return the empty cells of observed rows, or None without any; refuse infinities."""
    bad = ~np.isfinite(array) & seen[:, None]
    if not bad.any():
        return None
    endless = np.isinf(array) & seen[:, None]
    if not endless.any():
        return bad
    row, column = np.argwhere(endless)[0]
    where = str(column) if columns is None else repr(given_column(columns[column], categories))
    msg = (
        f"View {name!r} has infinity in sample {index.tolist()[row]!r}, column {where} "
        f"({count(int(endless.any(axis=1).sum()), 'such sample')}). Correct the cell, or make it NaN if it is unknown."
    )
    raise DataError(msg)


def _hidden_as_nan(array: FloatArray, seen: NDArray[np.bool_]) -> FloatArray:
    if seen.all():
        return array
    return np.where(seen[:, None], array, array.dtype.type(np.nan))


def _matched_columns(
    name: str, array: FloatArray, columns: tuple[str, ...], categories: Categories, wanted: tuple[str, ...]
) -> FloatArray:
    """Return the wanted columns in their order; a category that does not occur here is a column of zeros."""
    if columns == wanted:
        return array
    heads = tuple(category_column(column, "") for column in categories)
    absent = [column for column in wanted if column not in columns and not column.startswith(heads)]
    extra = [column for column in columns if column not in wanted]
    if absent or extra:
        found = [f"{word} {some[:5]}" for word, some in (("missing", absent), ("unexpected", extra)) if some]
        drop = " ".join(f"--drop {column}" for column in extra[:5])
        remedies = ["Rename or add what is missing."] if absent else []
        remedies += [f"Leave out what is unexpected (on the command line: {drop})."] if extra else []
        msg = f"View {name!r} must have the columns it was fitted with; {', '.join(found)}. {' '.join(remedies)}"
        raise DataError(msg)
    places = {column: place for place, column in reversed(list(enumerate(columns)))}
    matched = array[:, [places.get(column, 0) for column in wanted]]
    for place, column in enumerate(wanted):
        if column not in places:
            # Where the cell is empty that would hold the category, all its columns are.
            head = next(head for head in heads if column.startswith(head))
            others = [places[known] for known in columns if known.startswith(head)]
            empty = np.isnan(array[:, others]).any(axis=1) if others else np.ones(len(array), dtype=bool)
            matched[:, place] = np.where(empty, np.nan, 0.0)
    return matched
