"""Patterns of missing views."""

from collections.abc import Sequence
from fractions import Fraction
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import DataError
from acova.base.errors import check_choice, check_number
from acova.base.seeds import check_seed, draw_seed

PATTERNS = ("uniform_size", "uniform_subset", "per_view", "block")


def make_observed(
    n_samples: int,
    n_views: int,
    missing_rate: float | Sequence[float],
    pattern: str = "uniform_size",
    random_state: int | np.random.Generator | np.random.RandomState | None = None,
    *,
    n_sites: int = 10,
) -> NDArray[np.bool_]:
    """Draw which views each sample has; every sample keeps at least one.

    Counts are exact: ``missing_rate * n_samples`` rounded half to even, computed on the rate as it is
    written (0.7 of 1400 samples is 980).

    Parameters
    ----------
    n_samples, n_views : int
    missing_rate : float in [0, 1], or one per view for ``"per_view"``
        Share of *samples* that lack at least one view; for ``"per_view"`` the share of samples that
        lack that view.
    pattern : {"uniform_size", "uniform_subset", "per_view", "block"}
        - ``"uniform_size"``: an incomplete sample keeps 1, …, V-1 views, each number equally likely
          (what the published programs of ACOVA, DVIMC and DSIMVC do);
        - ``"uniform_subset"``: every non-empty proper subset of the views is equally likely (what
          Appendix B of the paper says; the same for V ≤ 3);
        - ``"per_view"``: each view is hidden for exactly its share of the samples;
        - ``"block"``: samples come in contiguous sites of equal size, and all samples of an affected
          site lack the same views.
    random_state : int, Generator, RandomState or None
    n_sites : int
        Number of sites for ``"block"``.

    Returns
    -------
    ndarray of bool, shape (n_samples, n_views)
        True where the view is present.

    See Also
    --------
    acova.Views.hide : Hides views by such a mask.
    """
    check_number("make_observed", "n_samples", n_samples, minimum=1, integer=True)
    check_number("make_observed", "n_views", n_views, minimum=1, integer=True)
    check_choice("make_observed", "pattern", pattern, PATTERNS)
    rng = _generator(random_state)
    if pattern == "per_view":
        return _per_view(n_samples, n_views, missing_rate, rng)
    if not np.isscalar(missing_rate):
        msg = f"make_observed: pattern {pattern!r} takes one missing_rate; only 'per_view' takes a rate per view."
        raise DataError(msg)
    n_incomplete = _exact_count(n_samples, missing_rate)
    if n_views == 1 and n_incomplete:
        msg = "make_observed: with one view no view can be hidden, since every sample keeps one; use missing_rate=0."
        raise DataError(msg)
    observed = np.ones((n_samples, n_views), dtype=bool)
    if pattern == "block":
        _hide_sites(observed, n_incomplete, n_sites, rng)
    else:
        rows = rng.permutation(n_samples)[:n_incomplete]
        draw = _subsets_by_size if pattern == "uniform_size" else _subsets_uniform
        observed[rows] = draw(n_incomplete, n_views, rng)
    return observed


def _generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):  # also larger than seeds of fits
        check_number("make_observed", "random_state", random_state, minimum=0, integer=True)
    else:
        check_seed("make_observed", random_state)
    if isinstance(random_state, np.random.RandomState) or random_state is np.random:
        random_state = draw_seed(random_state, "make_observed")
    return np.random.default_rng(random_state)


def _exact_count(n_samples: int, rate: object) -> int:
    try:
        share = Fraction(str(rate))
    except ValueError:
        share = Fraction(-1)
    if not 0 <= share <= 1:
        msg = f"make_observed: missing_rate must be a share between 0 and 1; got {rate!r}."
        raise DataError(msg)
    return round(share * n_samples)


def _subsets_by_size(count: int, n_views: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw kept views: the size uniform on 1 … V-1, the subset uniform given its size."""
    sizes = rng.integers(1, n_views, size=(count, 1))
    ranks = rng.random((count, n_views)).argsort(axis=1).argsort(axis=1)
    return np.asarray(ranks < sizes)


def _subsets_uniform(count: int, n_views: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Draw kept views: fair coins, thrown again while they keep all or none."""
    kept = np.zeros((count, n_views), dtype=bool)
    open_rows = np.arange(count)
    while open_rows.size:
        kept[open_rows] = rng.random((open_rows.size, n_views)) < 0.5
        sizes = kept[open_rows].sum(axis=1)
        open_rows = open_rows[(sizes == 0) | (sizes == n_views)]
    return kept


def _hide_sites(observed: NDArray[np.bool_], n_incomplete: int, n_sites: int, rng: np.random.Generator) -> None:
    """Give whole contiguous sites one pattern until the count is reached (the last one in part)."""
    n_samples, n_views = observed.shape
    check_number("make_observed", "n_sites", n_sites, minimum=1, integer=True)
    sites = np.array_split(np.arange(n_samples), min(n_sites, n_samples))
    left = n_incomplete
    for site in rng.permutation(len(sites)):
        if not left:
            return
        rows = sites[site][:left]
        observed[rows] = _subsets_by_size(1, n_views, rng)
        left -= rows.size


def _per_view(
    n_samples: int, n_views: int, missing_rate: float | Sequence[float], rng: np.random.Generator
) -> NDArray[np.bool_]:
    rates = [missing_rate] * n_views if np.isscalar(missing_rate) else list(missing_rate)  # type: ignore[arg-type]
    if len(rates) != n_views:
        msg = f"make_observed: 'per_view' takes one missing_rate, or one per view ({n_views}); got {len(rates)}."
        raise DataError(msg)
    hidden = [_exact_count(n_samples, rate) for rate in rates]
    if sum(hidden) > n_samples * (n_views - 1):
        msg = (
            f"make_observed: hiding {hidden} of {n_samples} samples in the {n_views} views leaves some sample "
            "without any view; lower the rates until they sum to at most n_views - 1."
        )
        raise DataError(msg)
    observed = np.ones((n_samples, n_views), dtype=bool)
    for view, count in enumerate(hidden):
        observed[rng.permutation(n_samples)[:count], view] = False
    # An empty row takes one view over from a row that has two: the counts per view stay exact.
    kept = observed.sum(axis=1)
    donors = rng.permutation(np.repeat(np.arange(n_samples), np.maximum(kept - 1, 0)))
    for row, donor in zip(np.flatnonzero(kept == 0), donors, strict=False):
        view = rng.choice(np.flatnonzero(observed[donor]))
        observed[[row, donor], view] = [True, False]
    return observed
