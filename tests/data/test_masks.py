from collections import Counter
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise, product
from math import comb
from time import process_time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from acova.base import DataError, OptionError
from acova.data import PATTERNS, make_observed

BY_SAMPLE = [pattern for pattern in PATTERNS if pattern != "per_view"]
rates = st.integers(0, 1000).map(lambda thousandths: thousandths / 1000)


def written_count(n_samples, rate):
    """The share of the samples, in decimal arithmetic on the rate as written."""
    return int((Decimal(str(rate)) * n_samples).quantize(Decimal(1), rounding=ROUND_HALF_EVEN))


def proper_subsets(n_views):
    return [kept for kept in product([False, True], repeat=n_views) if 0 < sum(kept) < n_views]


def kept_counts(pattern, n_views, n_samples=40000, seed=5):
    rows = make_observed(n_samples, n_views, 1.0, pattern, seed)
    return Counter(map(tuple, rows.tolist()))


@pytest.mark.parametrize("pattern", BY_SAMPLE)
@settings(deadline=None)
@given(n_samples=st.integers(1, 300), n_views=st.integers(2, 6), rate=rates, seed=st.integers(0, 2**32))
def test_the_count_of_incomplete_samples_is_exact_and_each_keeps_a_view(pattern, n_samples, n_views, rate, seed):
    observed = make_observed(n_samples, n_views, rate, pattern, seed)
    assert observed.shape == (n_samples, n_views)
    assert observed.dtype == bool
    assert (~observed.all(axis=1)).sum() == written_count(n_samples, rate)
    assert observed.any(axis=1).all()


@pytest.mark.parametrize("pattern", BY_SAMPLE)
@pytest.mark.parametrize(
    ("n_samples", "rate", "count"),
    [(1400, 0.7, 980), (100, 0.29, 29), (1000, 0.57, 570), (5, 0.5, 2), (7, 0.5, 4), (10, 0, 0), (10, 1, 10)],
)
@pytest.mark.parametrize("kind", [float, np.float64])
def test_rates_count_as_they_are_written(pattern, n_samples, rate, count, kind):
    assert (~make_observed(n_samples, 3, kind(rate), pattern, 0).all(axis=1)).sum() == count


@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_seed_decides_the_mask(pattern):
    def draw(seed):
        return make_observed(60, 4, 0.5, pattern, seed)

    np.testing.assert_array_equal(draw(3), draw(3))
    np.testing.assert_array_equal(draw(3), draw(np.random.default_rng(3)))
    assert (draw(3) != draw(4)).any()


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("n_views", [1, 2, 5])
def test_rate_zero_hides_nothing(pattern, n_views):
    assert make_observed(9, n_views, 0.0, pattern, 0).all()


@pytest.mark.parametrize("n_views", [3, 4, 5])
def test_uniform_size_draws_sizes_evenly_and_subsets_evenly_given_their_size(n_views):
    counts = kept_counts("uniform_size", n_views)
    subsets = proper_subsets(n_views)
    assert set(counts) == set(subsets)
    sizes = [sum(n for kept, n in counts.items() if sum(kept) == size) for size in range(1, n_views)]
    assert chisquare(sizes).pvalue > 1e-3
    for size in range(1, n_views):
        assert chisquare([counts[kept] for kept in subsets if sum(kept) == size]).pvalue > 1e-3


@pytest.mark.parametrize("n_views", [2, 3, 5])
def test_uniform_subset_draws_every_proper_subset_evenly(n_views):
    counts = kept_counts("uniform_subset", n_views)
    subsets = proper_subsets(n_views)
    assert len(subsets) == 2**n_views - 2
    assert chisquare([counts[kept] for kept in subsets]).pvalue > 1e-3


@pytest.mark.parametrize(("n_views", "same"), [(2, True), (3, True), (4, False), (5, False)])
def test_the_two_uniform_patterns_agree_up_to_three_views_only(n_views, same):
    subsets = proper_subsets(n_views)
    by_size = np.array([1 / (n_views - 1) / comb(n_views, sum(kept)) for kept in subsets])
    assert np.allclose(by_size, 1 / len(subsets)) == same
    counts = {pattern: kept_counts(pattern, n_views) for pattern in ("uniform_size", "uniform_subset")}
    for pattern, expected in [("uniform_size", by_size), ("uniform_subset", np.full(len(subsets), 1 / len(subsets)))]:
        fit = {name: chisquare([counts[name][kept] for kept in subsets], 40000 * expected).pvalue for name in counts}
        assert fit[pattern] > 1e-3
        assert all((pvalue > 1e-3) == (same or name == pattern) for name, pvalue in fit.items())


@pytest.mark.parametrize("pattern", ["uniform_size", "uniform_subset"])
def test_every_sample_is_as_likely_to_be_incomplete(pattern):
    incomplete = sum((~make_observed(20, 3, 0.3, pattern, seed).all(axis=1)).astype(int) for seed in range(1000))
    # Draws without replacement vary less than independent ones, so the plain test is on the safe side.
    assert chisquare(incomplete).pvalue > 1e-3
    assert incomplete.sum() == 6000


@settings(deadline=None)
@given(data=st.data(), n_samples=st.integers(1, 200), n_views=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_per_view_hides_exactly_its_share_of_each_view(data, n_samples, n_views, seed):
    limit = (n_views - 1) / n_views
    wanted = data.draw(st.lists(rates.map(lambda rate: round(rate * limit, 3)), min_size=n_views, max_size=n_views))
    counts = [written_count(n_samples, rate) for rate in wanted]
    if sum(counts) > n_samples * (n_views - 1):
        with pytest.raises(DataError, match="without any view"):
            make_observed(n_samples, n_views, wanted, "per_view", seed)
        return
    observed = make_observed(n_samples, n_views, wanted, "per_view", seed)
    np.testing.assert_array_equal((~observed).sum(axis=0), counts)
    assert observed.any(axis=1).all()


@pytest.mark.parametrize(
    ("n_views", "rate", "hidden"),
    [
        (3, 0.4, [400] * 3),
        (3, [0.1, 0.0, 0.57], [100, 0, 570]),
        (3, np.array([0.29, 0.2, 0.1]), [290, 200, 100]),
        (2, 0.5, [500, 500]),
        (4, 0.75, [750] * 4),
        (3, (1.0, 0.3, 0.7), [1000, 300, 700]),
    ],
)
def test_per_view_keeps_a_view_even_where_the_rates_leave_no_room(n_views, rate, hidden):
    observed = make_observed(1000, n_views, rate, "per_view", 0)
    np.testing.assert_array_equal((~observed).sum(axis=0), hidden)
    assert observed.any(axis=1).all()
    if sum(hidden) == 1000 * (n_views - 1):
        assert (observed.sum(axis=1) == 1).all()


def test_per_view_without_conflict_hides_views_independently():
    observed = make_observed(20000, 3, [0.2, 0.3, 0.0], "per_view", 1)
    both = (~observed[:, 0] & ~observed[:, 1]).mean()
    assert both == pytest.approx(0.06, abs=4 * np.sqrt(0.06 * 0.94 / 20000))


def test_per_view_repairs_many_rows_in_linear_time():
    start = process_time()
    observed = make_observed(70000, 2, 0.5, "per_view", 1)  # a quarter of the rows lack both views at first
    assert process_time() - start < 10
    assert (observed.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(observed.sum(axis=0), [35000, 35000])


@pytest.mark.parametrize("n_sites", [1, 4, 7, 50])
@pytest.mark.parametrize("rate", [0.25, 0.4, 1.0])
def test_block_gives_each_affected_site_one_pattern(n_sites, rate):
    n_samples = 41
    observed = make_observed(n_samples, 4, rate, "block", 2, n_sites=n_sites)
    assert (~observed.all(axis=1)).sum() == written_count(n_samples, rate)
    # Contiguous sites whose sizes differ by one at most, the larger ones first.
    small, larger = divmod(n_samples, min(n_sites, n_samples))
    ends = np.cumsum([0] + [small + 1] * larger + [small] * (min(n_sites, n_samples) - larger))
    in_part = 0
    for start, end in pairwise(ends):
        site = observed[start:end]
        hidden = ~site.all(axis=1)
        assert len(np.unique(site[hidden], axis=0)) <= 1
        in_part += hidden.any() and not hidden.all()
    assert in_part <= 1


def test_block_draws_another_pattern_for_another_site():
    observed = make_observed(100, 4, 1.0, "block", 0, n_sites=20)
    assert len(np.unique(observed, axis=0)) > 3


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((10, 3, 0.5, "uniform_siz"), OptionError, "pattern must be 'uniform_size'.*Did you mean 'uniform_size'?"),
        ((10, 3, 0.5, "zzz"), OptionError, "pattern must be .*'block'; got 'zzz'.$"),
        ((10, 3, 1.01), DataError, "missing_rate must be a share between 0 and 1; got 1.01"),
        ((10, 3, -0.1, "block"), DataError, "between 0 and 1; got -0.1"),
        ((10, 3, float("nan")), DataError, "between 0 and 1; got nan"),
        ((10, 3, float("inf")), DataError, "between 0 and 1; got inf"),
        ((10, 3, "half"), DataError, "between 0 and 1; got 'half'"),
        ((10, 3, [0.1, 0.2, 2.0], "per_view"), DataError, "between 0 and 1; got 2.0"),
        ((10, 1, 0.5), DataError, "with one view no view can be hidden.*missing_rate=0"),
        ((10, 1, 0.5, "block"), DataError, "with one view no view can be hidden"),
        ((10, 1, 0.5, "per_view"), DataError, r"hiding \[5\] of 10 samples in the 1 views leaves some sample"),
        ((10, 3, [0.1, 0.2, 0.3]), DataError, "pattern 'uniform_size' takes one missing_rate; only 'per_view' takes"),
        ((10, 3, [0.1, 0.2], "per_view"), DataError, r"one per view \(3\); got 2"),
        ((10, 3, [0.9, 0.9, 0.3], "per_view"), DataError, r"hiding \[9, 9, 3\] of 10.*sum to at most n_views - 1"),
        ((0, 3, 0.5), OptionError, "n_samples must be an integer at least 1; got 0"),
        ((10, 2.5, 0.5), OptionError, "n_views must be an integer at least 1; got 2.5"),
    ],
)
def test_impossible_masks_are_refused(arguments, error, words):
    with pytest.raises(error, match=f"make_observed: .*{words}"):
        make_observed(*arguments)


def test_a_number_of_sites_below_one_is_refused():
    with pytest.raises(OptionError, match="n_sites must be an integer at least 1; got 0"):
        make_observed(10, 3, 0.5, "block", n_sites=0)
