"""What stands in the place of the training data's empty cells, learned from rows that stand for all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from acova.data import Scaling, StoredViews, Views
from acova.data.completion import Completion, JointCompletion
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
        completions = tuple(
            Completion.fit(scaling.scaled_rows(v, some.rows(v)), factors=factors) if has_holes else None
            for v, has_holes in enumerate(which)
        )
        joint = JointCompletion.fit([_with_holes(some, scaling, v) for v in range(some.n_views)]) if factors else None
    return replace(
        scaling, completions=completions, joint=joint, marks=tuple(marks and has_holes for has_holes in which)
    )


def _with_holes(views: Views, scaling: Scaling, v: int) -> NDArray[np.float64]:
    """Return one scaled view with NaN in empty cells and hidden rows."""
    table = np.full(views.arrays[v].shape, np.nan)
    table[views.observed[:, v]] = scaling.scaled_rows(v, views.rows(v))
    return table
