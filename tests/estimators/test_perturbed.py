"""Rounding decides nothing: inputs that differ by 1e-7 give the same labels where clusters are clear."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import make

from acova.data import Views, make_observed
from acova.estimators import list_methods

SIZE, N = (20, 20), 120


def easy() -> Views:
    """Return three clusters of unequal size, ten standard deviations apart; a fifth of the samples is incomplete."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1, 2], [30, 50, 40])
    corners = [10 / np.sqrt(2) * np.eye(3) @ np.linalg.qr(rng.normal(size=(size, 3)))[0].T for size in SIZE]
    arrays = [corner[labels] + rng.normal(size=(N, size)) for corner, size in zip(corners, SIZE, strict=True)]
    return Views.of(arrays, make_observed(N, 2, 0.2, random_state=0))


@pytest.fixture(scope="module", params=list_methods())
def name(request):
    return request.param


@pytest.fixture(scope="module")
def labels(name):
    return make(name).fit(easy()).labels_


@settings(max_examples=2, derandomize=True)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_last_digits_of_the_data_move_no_sample(name, labels, seed):
    noise = np.random.default_rng(seed)
    views = easy()
    moved = [array * (1 + 1e-7 * noise.uniform(-1, 1, array.shape)) for array in views.arrays]
    np.testing.assert_array_equal(make(name).fit(Views.of(moved, views.observed)).labels_, labels)
