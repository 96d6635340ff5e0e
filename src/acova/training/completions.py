"""What stands in the place of the training data's empty cells, learned from rows that stand for all."""

from collections.abc import Sequence
from dataclasses import replace

from acova.data import Scaling, StoredViews, Views
from acova.data.completion import Completion
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
        Complete by a factor model of the view; else by the means of its columns.
    marks : bool
        Whether a network is told which cells are empty.
    """
    some, _ = spread_samples(views, _LEARNED_FROM)
    with single_threaded(), overflow_allowed():
        completions = tuple(
            Completion.fit(scaling.scaled_rows(v, some.rows(v)), factors=factors) if has_holes else None
            for v, has_holes in enumerate(which)
        )
    return replace(scaling, completions=completions, marks=tuple(marks and has_holes for has_holes in which))
