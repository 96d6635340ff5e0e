"""Values in the form of what was given."""

import numpy as np
import pandas as pd
import pytest

from acova.data import Views
from acova.data.filling import Form

HOLES = np.array([[1.0, 2.0], [np.nan, np.nan], [5.0, 6.0]])
WHOLE = np.array([[7.0], [8.0], [9.0]])
NEW = [np.full((3, 2), -1.0), np.full((3, 1), -2.0)]


@pytest.mark.parametrize(
    ("given", "filled"),
    [
        ([HOLES, WHOLE], lambda out: out),
        ({"a": HOLES, "b": WHOLE}, lambda out: [out["a"], out["b"]]),
        (np.hstack([HOLES, WHOLE]), lambda out: [out[:, :2], out[:, 2:]]),
        (Views.of([HOLES, WHOLE]), lambda out: list(out.arrays)),
    ],
)
def test_missing_cells_get_values_and_all_others_keep_theirs(given, filled):
    views = Views.of(given, view_sizes=[2, 1])
    first, second = filled(Form(given, views, {}).fill(NEW))
    np.testing.assert_array_equal(first, [[1, 2], [-1, -1], [5, 6]])
    np.testing.assert_array_equal(second, WHOLE)


def test_types_of_arrays_stay():
    given = [HOLES.astype(np.float32), np.array([[1], [2], [3]])]
    filled = Form(given, Views.of(given), {}).fill(NEW)
    assert [array.dtype for array in filled] == [np.float32, np.float64]


def test_views_that_are_left_out_are_there():
    views = Views.of({"a": HOLES[[0, 2]]}).matched_to(["a", "b"], [2, 1], [None, None])
    filled = Form({"a": HOLES[[0, 2]]}, views, {}).fill([np.zeros((2, 2)), np.ones((2, 1))])
    np.testing.assert_array_equal(filled["b"], np.ones((2, 1)))


def test_frames_keep_columns_types_and_the_order_of_samples():
    first = pd.DataFrame({"x": [1, 2], "grade": pd.Categorical(["b", None], ["a", "b"])}, index=["p", "q"])
    second = pd.DataFrame({3: np.float32([0.5, 1.5])}, index=["q", "r"])
    given = {"first": first, "second": second}
    views = Views.of(given, categories={"first": {"grade": ("a", "b")}})
    values = [np.tile([9.5, 0.8, 0.2], (3, 1)), np.full((3, 1), 4.0)]
    filled = Form(given, views, {"first": {"grade": ("a", "b")}}).fill(values)
    assert list(filled["first"].index) == ["p", "q", "r"]
    assert filled["first"]["x"].tolist() == [1, 2, 9.5]
    assert filled["first"]["grade"].tolist() == ["b", "a", "a"]  # an empty cell of an observed row, too
    assert filled["first"]["grade"].dtype == first["grade"].dtype
    assert filled["second"][3].tolist() == [4.0, 0.5, 1.5]
    assert filled["second"][3].dtype == np.float32
    assert filled["second"].columns.tolist() == [3]


def test_values_of_categories_without_a_number_are_empty():
    given = {"first": pd.DataFrame({"grade": ["a", "b"]}), "second": pd.DataFrame({"x": [1.0, 2.0]})}
    views = Views.of(given)
    out = Form(given, views, {"first": {"grade": ("a", "b")}}).express([np.full((2, 2), np.nan), np.zeros((2, 1))])
    assert out["first"]["grade"].tolist() == [None, None]
    assert out["second"]["x"].tolist() == [0, 0]
