import numpy as np
import pytest

from acova.base import OptionError, Streams
from acova.base.errors import check_choice, check_number


def test_a_stream_depends_on_its_name_and_seed_alone():
    streams = Streams(3)
    first = streams.numpy("noise", 1).random(4)
    streams.numpy("order").random(100)
    np.testing.assert_array_equal(streams.numpy("noise", 1).random(4), first)
    np.testing.assert_array_equal(Streams(3).child("noise").numpy(1).random(4), first)
    assert streams.integer("noise", 1) != Streams(4).integer("noise", 1)


def test_streams_do_not_collide():
    names = [("a",), ("b",), ("a", 1), ("a", 11), ("a", 1, 1), ("a1", 1), ()]
    assert len({Streams(seed).integer(*name) for name in names for seed in (0, 1, 10)}) == 3 * len(names)
    assert all(0 <= Streams(0).integer(i) < 2**63 for i in range(100))


def test_streams_look_independent():
    draws = np.stack([Streams(0).numpy("run", i).standard_normal(2000) for i in range(20)])
    correlations = np.corrcoef(draws)[np.triu_indices(20, 1)]
    assert np.abs(correlations).max() < 0.1


def test_a_wrong_word_gets_the_words_and_a_hint():
    with pytest.raises(
        OptionError, match=r"ACOVA: missing must be 'precision', 'marginal'; got 'precison'. Did you mean"
    ):
        check_choice("ACOVA", "missing", "precison", ("precision", "marginal"))


@pytest.mark.parametrize("value", [0, -1, 2.5, "3", None, True, float("nan")])
def test_a_wrong_count_is_refused(value):
    with pytest.raises(OptionError, match="n must be an integer at least 1; got"):
        check_number("x", "n", value, minimum=1, integer=True)


@pytest.mark.parametrize("value", [1, np.int64(5)])
def test_numpy_integers_are_integers(value):
    check_number("x", "n", value, minimum=1, integer=True)


@pytest.mark.parametrize("value", [0.0, float("inf"), float("nan"), "a"])
def test_a_wrong_rate_is_refused(value):
    with pytest.raises(OptionError, match="rate must be a number above 0; got"):
        check_number("x", "rate", value, minimum=0, strict=True)
