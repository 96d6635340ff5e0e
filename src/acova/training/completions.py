"""What stands in the place of the training data's empty cells, learned from rows that stand for all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from acova.data import Scaling, StoredViews, Views
from acova.data.completion import Completion, JointCompletion
from acova.data.inputs import FloatArray
from acova.engine.parallel import single_threaded
from acova.training.extremes import overflow_allowed
from acova.training.influence import spread_samples

_LEARNED_FROM = 2_000
"""Samples that a completion is learned from, evenly spread where there are more."""


def with_completions(
    scaling: Scaling, views: Views | StoredViews, which: Sequence[bool], *, factors: bool = True, marks: bool = False
) -> Scaling:
    """Return a scaling that completes the empty cells of some views.

    Parameters
    ----------
    scaling : Scaling
    views : Views or StoredViews
        The training data.
    which : sequence of V bool
        The views that have empty cells.
    factors : bool
        Complete by factor models; else by the means of the columns.
    marks : bool
        Whether a network is told which cells are empty.
    """
    some, _ = spread_samples(views, _LEARNED_FROM)
    with single_threaded(), overflow_allowed():
        measured = scaling.measured(some)
        completions = tuple(
            Completion.fit(rows, factors=factors) if has_holes else None
            for rows, has_holes in zip(measured, which, strict=True)
        )
        joint = JointCompletion.fit(_with_hidden_rows(some, measured)) if factors else None
    return replace(
        scaling, completions=completions, joint=joint, marks=tuple(marks and has_holes for has_holes in which)
    )


def _with_hidden_rows(views: Views, measured: Sequence[FloatArray]) -> list[NDArray[np.float64]]:
    """Return scaled views with NaN in empty cells and hidden rows."""
    tables = [np.full(array.shape, np.nan) for array in views.arrays]
    for table, rows, seen in zip(tables, measured, views.observed.T, strict=True):
        table[seen] = rows
    return tables
