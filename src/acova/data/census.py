"""How much of the views is there: rows, and cells of these rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acova.base import DataError
from acova.data.categories import Categories, given_column
from acova.data.stored import StoredViews, blocks_of
from acova.data.views import Views

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Census:
    """Counts of what is observed.

    Attributes
    ----------
    rows : array of int, shape (V,)
        Samples that have each view.
    empty : tuple of V arrays of int, shape (n_features_v,)
        Empty cells of each column in these samples.
    """

    rows: Counts
    empty: tuple[Counts, ...]

    @classmethod
    def of(cls, views: Views | StoredViews) -> "Census":
        """Count in one pass."""
        rows = np.zeros(views.n_views, dtype=np.int64)
        empty = [np.zeros(size, dtype=np.int64) for size in views.sizes]
        for block in blocks_of(views):
            rows += block.observed.sum(axis=0)
            for v, cells in enumerate(block.empty):
                if cells is not None:
                    empty[v] += cells.sum(axis=0)
        return cls(rows, tuple(empty))

    def refuse_empty_cells(self, views: Views | StoredViews) -> None:
        """Raise `DataError` where a view has any."""
        for name, counts in zip(views.names, self.empty, strict=True):
            if counts.any():
                msg = (
                    f"View {name!r} has {counts.sum()} empty cells in observed rows, which holes='refuse' does not "
                    "allow. Fill them, or leave them out (holes='keep', --holes keep)."
                )
                raise DataError(msg)

    def check(self, who: str, views: Views | StoredViews) -> None:
        """Raise `DataError` for a view that no sample has, and for a column that is empty in all that have the view."""
        encoded: Sequence[Categories] = getattr(views, "categories", ({},) * views.n_views)  # on disk there are none
        for v, (name, rows, empty) in enumerate(zip(views.names, self.rows, self.empty, strict=True)):
            if not rows:
                msg = (
                    f"{who}: view {name!r} is observed for no sample, so nothing can be learned of it; leave it out, "
                    f"or announce it for later: Views.of(X).announce({name!r})."
                )
                raise DataError(msg)
            gone = np.flatnonzero(empty == rows)
            if gone.size:
                column = _column(views.columns[v], int(gone[0]), encoded[v])
                msg = (
                    f"View {name!r}: column {column} is empty in every sample that has the view. "
                    "Drop it (on the command line: --drop), or fill it."
                )
                raise DataError(msg)


def _column(columns: tuple[str, ...] | None, place: int, categories: Categories) -> str:
    return str(place) if columns is None else repr(given_column(columns[place], categories))
