"""What the numbers of a view look like."""

import io

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from acova import Views
from acova.data import inspect_data
from acova.data.measurements import SUITED, measurements_of
from acova.networks.likelihoods import LIKELIHOODS

RNG = np.random.default_rng(0)
KINDS = {
    "sequencing": (RNG.negative_binomial(1, 0.1, (60, 8)), "counts"),
    "words": (RNG.poisson(0.05, (60, 40)) * RNG.integers(1, 20, (60, 40)), "counts"),
    "methylation": (RNG.beta(2, 5, (60, 8)), "shares"),
    "normal": (RNG.normal(size=(60, 8)), ""),
    "pixels": (np.where(RNG.random((60, 8)) < 0.5, RNG.integers(0, 30, (60, 8)), RNG.integers(220, 256, (60, 8))), ""),
    "zeros and ones": (RNG.integers(0, 2, (60, 8)), ""),
    "grades": (RNG.integers(1, 6, (60, 8)), ""),
    "depths from one on": (RNG.integers(100, 10_000, (60, 8)), ""),
    "normalised counts": (np.log1p(RNG.poisson(3.0, (60, 8))), ""),
    "one column": (RNG.poisson(9.0, (60, 1)), ""),
}


@pytest.mark.parametrize("name", KINDS)
def test_numbers_are_recognised(name):
    values, expected = KINDS[name]
    assert measurements_of(Views.of([values.astype(float)])) == [expected]


def test_views_of_words_alone_are_categories():
    frame = pd.DataFrame({"sex": ["f", "m", "f"], "site": ["a", "b", "b"]})
    assert measurements_of(Views.of({"clinic": frame, "mixed": frame.assign(age=[3.5, 4.0, 1.2])})) == [
        "categories",
        "",
    ]


def test_hidden_rows_are_not_looked_at():
    values = KINDS["sequencing"][0].astype(float)
    values[::3] = np.nan
    other = KINDS["normal"][0]
    assert measurements_of(Views.of([values, other])) == ["counts", ""]


def test_each_has_a_likelihood_that_takes_such_data():
    assert set(SUITED.values()) <= set(LIKELIHOODS)
    assert not any(LIKELIHOODS[name].takes_all for name in SUITED.values())


def test_inspection_names_the_likelihood():
    columns = [f"g{j}" for j in range(8)]
    found = inspect_data({"rna": pd.DataFrame(KINDS["sequencing"][0], columns=columns)})
    assert found.views["looks_like"].tolist() == ["counts"]
    stream = io.StringIO()
    Console(file=stream, width=200).print(found)
    assert "Views of counts can be given likelihood='negative_binomial'" in stream.getvalue()
