"""How many clusters data have, for data in any form that estimators take."""

from collections.abc import Sequence
from typing import Any

from acova.base import DataError, OptionError, Streams
from acova.base.errors import check_number
from acova.base.seeds import draw_seed
from acova.clustering.number import FEWEST_REFERENCES, LINKED, ClusterNumbers, cluster_numbers, most_candidates
from acova.data import Scaling, StoredViews, Views
from acova.data.census import Census
from acova.data.stored import is_stored
from acova.engine.runtime import computation
from acova.estimators._base import canonical_order
from acova.estimators._validation import scaling_kinds
from acova.training.completions import with_completions
from acova.training.covariate_effects import with_covariates
from acova.training.extremes import learn_scaling, scaled
from acova.training.influence import spread_samples

__all__ = ["CANDIDATES", "ClusterNumbers", "doubts_about_number", "numbers_for", "select_n_clusters"]

CANDIDATES = range(2, 16)
"""Numbers of clusters that are tried unless others are given."""
_REFERENCES = 20
_WHO = "select_n_clusters"


@computation()
def select_n_clusters(
    X: Any,
    candidates: Sequence[int] = CANDIDATES,
    *,
    observed: Any = None,
    standardize: bool | str = "auto",
    n_references: int = _REFERENCES,
    view_sizes: Sequence[int] | None = None,
    random_state: Any = None,
) -> ClusterNumbers:
    """Choose the number of clusters, which may be 1: no structure.

    All views make one neighbour graph, as in `AgreementGraph`. For every candidate the samples are clustered by the
    random walk on this graph, and the mean silhouette is compared with that of data without clusters: draws of one
    Gaussian distribution with the same covariance within and between views, and the same missing views. The number with
    the largest gain is chosen. If data without clusters gain as much in more than 5 % of draws, or the gain is below
    0.1, the answer is one cluster. No network is trained: it takes seconds, or about a minute for 2,000 samples.

    Parameters
    ----------
    X : list, dict, DataFrames, array or Views
        See `acova.Views.of`. A missing view is a row of NaN, or a sample absent from a DataFrame.
    candidates : sequence of int, default: range(2, 16)
        Numbers of clusters to compare, from 2 to a third of the samples. Numbers of the default that are too large for
        the data are left out.
    observed : array of bool, shape (n_samples, V), optional
        False hides a view of a sample, whatever its cells hold.
    standardize : bool or {"auto", "zscore", "range", "cosine"}, default: "auto"
        Scale features by statistics of observed rows, as in `ACOVA`.
    n_references : int, default: 20
        Data sets without clusters to compare with, at least 19.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    random_state : int, RandomState or None
        The same integer gives the same result.

    Returns
    -------
    ClusterNumbers
        ``n_clusters``, the ``reason`` in words, ``p_value``, and a ``table`` with one row per candidate.

    See Also
    --------
    ACOVA : ``n_clusters="auto"`` fits with the number that is chosen here.
    acova.plots.ClusterNumberDisplay : Draws the table.

    Examples
    --------
    >>> from acova import select_n_clusters
    >>> from acova.data import make_observed, make_views
    >>> data = make_views(200, 4, random_state=0)
    >>> views = data.views.hide(make_observed(200, 2, 0.5, random_state=0))
    >>> select_n_clusters(views, range(2, 8), random_state=0).n_clusters
    4
    """
    views = StoredViews.of(X, observed) if is_stored(X) else Views.of(X, observed, view_sizes=view_sizes)
    seed = draw_seed(random_state, _WHO)
    check_number(_WHO, "n_references", n_references, minimum=FEWEST_REFERENCES, integer=True)
    if isinstance(views, Views):
        views = views.take(canonical_order(views.index))
    census = Census.of(views)
    census.check(_WHO, views)
    scaling = learn_scaling(views, scaling_kinds(_WHO, standardize, views))
    if isinstance(views, Views):
        scaling = with_covariates(scaling, views)
    which = [bool(counts.any()) for counts in census.empty]
    if any(which):
        scaling = with_completions(scaling, views, which, factors=True, marks=False)
    return numbers_for(_WHO, views, scaling, seed, candidates, n_references)


def numbers_for(
    who: str,
    views: Views | StoredViews,
    scaling: Scaling,
    seed: int,
    candidates: Sequence[int] = CANDIDATES,
    n_references: int = _REFERENCES,
) -> ClusterNumbers:
    """Return how well each number of clusters fits views in the order of training."""
    chosen = _checked(who, candidates, views.n_samples)
    some, _ = spread_samples(views, LINKED)
    return cluster_numbers(scaled(some, scaling), some.observed, chosen, Streams(seed).child("number"), n_references)


def doubts_about_number(numbers: ClusterNumbers | None) -> list[str]:
    """Say if no clusters were found where their number was left to the data."""
    return [] if numbers is None or numbers.n_clusters > 1 else [numbers.reason]


def _checked(who: str, candidates: Sequence[int], n_samples: int) -> list[int]:
    """Return the candidates in ascending order, or say what is wrong with them."""
    most = most_candidates(n_samples)
    try:
        given = list(candidates)
    except TypeError:
        given = []
    if not given:
        msg = f"{who}: candidates must be a sequence of at least one integer; got {candidates!r}."
        raise OptionError(msg)
    for count in given:
        check_number(who, "candidates", count, minimum=2, integer=True)
    fitting = sorted({int(count) for count in given if count <= most})
    if not fitting or (len(fitting) < len(set(given)) and candidates is not CANDIDATES):
        msg = (
            f"{who}: with n_samples={n_samples}, candidates must be at most {most}, a third of the samples; got "
            f"{max(given)}. Bring more samples{', or leave larger numbers out' if fitting else ''}."
        )
        raise DataError(msg)
    return fitting
