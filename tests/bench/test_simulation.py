import numpy as np
import pytest

from acova.base import OptionError
from acova.bench.simulation import duplicated_fashion, many_views, pepper_copies
from acova.data import Dataset, Views


@pytest.fixture
def images():
    rng = np.random.default_rng(0)
    return Dataset("images", Views.of([1 + rng.random((400, 50)), rng.random((400, 3))]), np.arange(400) % 4)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_exactly_one_copy_of_each_sample_is_spoilt(images, noise):
    made = pepper_copies(images, noise)
    original = images.views.arrays[0]
    assert made.views.sizes == (50, 50)
    black = [copy == 0 for copy in made.views.arrays]
    for copy, dark in zip(made.views.arrays, black, strict=True):
        np.testing.assert_array_equal(copy[~dark], original[~dark])
    spoilt = np.column_stack([dark.any(axis=1) for dark in black])
    if noise == 0:
        assert not spoilt.any()
        return
    assert (spoilt.sum(axis=1) == 1).all()
    assert spoilt[:, 0].sum() == 200
    share = (black[0] | black[1]).mean()
    assert share == pytest.approx(noise, abs=4 * np.sqrt(0.25 / original.size))
    again = pepper_copies(images, noise)
    assert all(np.array_equal(a, b) for a, b in zip(made.views.arrays, again.views.arrays, strict=True))


def test_noise_is_a_share():
    with pytest.raises(OptionError, match="noise must be a number at least 0 and at most 1; got 2"):
        duplicated_fashion(noise=2)


def test_the_first_of_many_views_stay_the_same():
    few, more = many_views(2, 60), many_views(5, 60)
    assert more.views.sizes == (40,) * 5
    for ours, theirs in zip(few.views.arrays, more.views.arrays, strict=False):
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(few.labels, more.labels)
    with pytest.raises(OptionError, match="many_views: n_views must be an integer at least 1; got 0"):
        many_views(0)
