import re
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from acova.base import DataError
from acova.data import Views, stack_views

NAN = np.nan
A = np.array([[1.0, 2.0], [NAN, NAN], [5.0, 6.0], [7.0, 8.0]])
B = np.array([[1.0, 0.5, 0.0], [2.0, 1.5, 1.0], [NAN, NAN, NAN], [4.0, 3.5, 3.0]])
SEEN = np.array([[1, 1], [0, 1], [1, 0], [1, 1]], dtype=bool)
MASK = np.array([[1, 1], [1, 1], [1, 1], [0, 1]], dtype=bool)
LABELS = ["s0", "s1", "s2", "s3"]
for constant in (A, B, SEEN, MASK):
    constant.flags.writeable = False


def frame(array, prefix="f", labels=LABELS):
    return pd.DataFrame(array, index=labels, columns=[f"{prefix}{c}" for c in range(array.shape[1])])


def stacked():
    return np.hstack([A, B])


FORMS = {
    "list of arrays": (lambda: [A, B], {}),
    "tuple of arrays": (lambda: (A, B), {}),
    "list of nested lists": (lambda: [A.tolist(), B.tolist()], {}),
    "dict of arrays": (lambda: {"view_0": A, "view_1": B}, {}),
    "dict of frames": (lambda: {"view_0": frame(A, "a"), "view_1": frame(B, "b")}, {}),
    "list of frames": (lambda: [frame(A, "a"), frame(B, "b")], {}),
    "one array": (stacked, {"view_sizes": [2, 3]}),
    "one nested list": (lambda: stacked().tolist(), {"view_sizes": (2, 3)}),
    "one masked array": (
        lambda: np.ma.array(np.nan_to_num(stacked(), nan=7.0), mask=np.isnan(stacked())),
        {"view_sizes": [2, 3]},
    ),
    "one frame": (lambda: frame(stacked()), {"view_sizes": [2, 3]}),
    "views": (lambda: Views.of([A, B]), {}),
}
with_frames = {"dict of frames", "list of frames", "one frame"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", ["no mask", "bool array", "0/1 array", "nested list", "frame"])
def test_every_form_gives_the_same_views(form, kind):
    make, options = FORMS[form]
    labels = LABELS if form in with_frames else range(4)
    mask = {
        "no mask": None,
        "bool array": MASK,
        "0/1 array": MASK.astype(float),
        "nested list": MASK.astype(object).tolist(),
        # by label: rows and columns in another order, with one sample and one view too many
        "frame": pd.DataFrame(MASK, index=labels, columns=["view_0", "view_1"])
        .assign(other=False)
        .reindex(index=[*reversed(labels), "extra"], columns=["other", "view_1", "view_0"], fill_value=False),
    }[kind]
    seen = SEEN if mask is None else SEEN & MASK
    views = Views.of(make(), mask, **options)
    np.testing.assert_array_equal(views.observed, seen)
    assert views.observed.dtype == bool
    for array, given, column in zip(views.arrays, (A, B), seen.T, strict=True):
        np.testing.assert_array_equal(array, np.where(column[:, None], given, NAN))
    assert views.names == ("view_0", "view_1")
    assert views.sizes == (2, 3)
    assert (views.n_samples, views.n_views, len(views)) == (4, 2, 4)
    assert views.index.tolist() == list(labels)
    np.testing.assert_array_equal(views.complete, seen[:, 0] & seen[:, 1])
    np.testing.assert_array_equal(views.rows(1), B[seen[:, 1]])


def test_one_table_without_view_sizes_is_one_view():
    views = Views.of(A[[0, 2, 3]])
    assert (views.names, views.sizes) == (("view_0",), (2,))


def test_columns_are_the_names_of_frames_and_unknown_for_arrays():
    assert Views.of([frame(A, "a"), frame(B, "b")]).columns == (("a0", "a1"), ("b0", "b1", "b2"))
    assert Views.of([A, B]).columns == (None, None)
    assert Views.of(frame(stacked()), view_sizes=[2, 3]).columns == (("f0", "f1"), ("f2", "f3", "f4"))


def test_views_pass_through_unchanged():
    views = Views.of([A, B])
    assert Views.of(views) is views


def test_frames_are_joined_in_order_of_first_appearance():
    left = pd.DataFrame({"x": [1.0, 2.0]}, index=["c", "a"])
    right = pd.DataFrame({"y": [3.0, 4.0, 5.0]}, index=["b", "a", "d"])
    views = Views.of({"left": left, "right": right})
    assert views.index.tolist() == ["c", "a", "b", "d"]
    np.testing.assert_array_equal(views.observed, [[True, False], [True, True], [False, True], [False, True]])
    np.testing.assert_array_equal(views.arrays[0], [[1.0], [2.0], [NAN], [NAN]])
    np.testing.assert_array_equal(views.arrays[1], [[NAN], [4.0], [3.0], [5.0]])


@pytest.mark.parametrize("absent", [0, 1, 4])
def test_shuffled_frames_give_each_label_the_same_rows(absent):
    rng = np.random.default_rng(absent)
    whole = {
        name: pd.DataFrame(rng.normal(size=(20, size)), index=range(100, 120))
        for name, size in [("a", 2), ("b", 3), ("c", 1)]
    }
    frames = {name: part.drop(index=rng.choice(part.index, absent, replace=False)) for name, part in whole.items()}
    frames["a"] = whole["a"]
    shuffled = {name: part.sample(frac=1, random_state=seed) for seed, (name, part) in enumerate(frames.items())}
    views = Views.of(shuffled)
    assert sorted(views.index) == list(range(100, 120))
    for name, array, seen in zip(views.names, views.arrays, views.observed.T, strict=True):
        expected = frames[name].reindex(views.index)
        np.testing.assert_array_equal(array, expected)
        np.testing.assert_array_equal(seen, views.index.isin(frames[name].index))


def test_frames_with_labels_of_several_levels_are_joined():
    pairs = [("p", 1), ("p", 2), ("q", 1)]
    left = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.MultiIndex.from_tuples(pairs[:2]))
    right = pd.DataFrame({"y": [3.0, 4.0]}, index=pd.MultiIndex.from_tuples(pairs[1:]))
    views = Views.of([left, right])
    assert views.index.tolist() == pairs
    np.testing.assert_array_equal(views.observed, [[True, False], [True, True], [False, True]])


@pytest.mark.parametrize(
    ("given", "names"),
    [([A[[0, 2]], None, B[[0, 1]]], ("view_0", "view_2")), ({"a": None, "b": B[[0, 1]]}, ("b",))],
)
def test_a_view_given_as_none_is_left_out(given, names):
    assert Views.of(given).names == names


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "Float32", "int64[pyarrow]", "float64[pyarrow]"])
def test_nullable_frames_mark_missing_rows_by_na(dtype):
    holes = pd.DataFrame({"x": [1, None, 3], "y": [4, None, 6]}).astype(dtype)
    views = Views.of({"a": holes, "b": pd.DataFrame({"z": [0.0, 1.0, 2.0]})})
    np.testing.assert_array_equal(views.arrays[0], [[1, 4], [NAN, NAN], [3, 6]])
    np.testing.assert_array_equal(views.observed[:, 0], [True, False, True])


def test_nullable_columns_of_several_types_mix():
    table = pd.DataFrame({"b": pd.array([True, None], "boolean"), "i": pd.array([2, None], "Int8"), "f": [0.5, NAN]})
    np.testing.assert_array_equal(Views.of([table, pd.DataFrame([[1], [2]])]).arrays[0], [[1, 2, 0.5], [NAN] * 3])


def test_masked_rows_are_missing_whatever_lies_under_the_mask():
    masked = np.ma.array([[1, 2], [3, 4]], mask=[[False, False], [True, True]])
    views = Views.of([masked, np.ones((2, 1))])
    np.testing.assert_array_equal(views.arrays[0], [[1, 2], [NAN, NAN]])


@pytest.mark.parametrize(
    ("dtype", "becomes"),
    [
        (np.float64, np.float64),
        (np.float32, np.float32),
        (np.float16, np.float32),
        (np.uint8, np.float32),
        (bool, np.float32),
        (np.int64, np.float64),
        (object, np.float64),
        ("U3", np.float64),
    ],
)
def test_numbers_of_any_type_become_floats_without_loss(dtype, becomes):
    given = np.array([[0, 1], [1, 1]]).astype(dtype)
    array = Views.of([given]).arrays[0]
    assert array.dtype == becomes
    np.testing.assert_array_equal(array, [[0, 1], [1, 1]])


@pytest.mark.parametrize("form", FORMS)
def test_inputs_are_never_written_to(form):
    make, options = FORMS[form]
    given, mask = make(), MASK.copy()
    before = [np.ma.getdata(np.asanyarray(part)).copy() for part in parts_of(given)]
    views = Views.of(given, mask, **options).hide(SEEN).take([3, 0])
    stack_views(views)
    for part, old in zip(parts_of(given), before, strict=True):
        np.testing.assert_array_equal(np.ma.getdata(np.asanyarray(part)), old)
    np.testing.assert_array_equal(mask, MASK)


def parts_of(given):
    if isinstance(given, dict):
        return list(given.values())
    if isinstance(given, Views):
        return list(given.arrays)
    return list(given) if isinstance(given, list | tuple) else [given]


@pytest.mark.parametrize(
    ("way", "junk"),
    [
        *product(["observed", "constructor"], [[1e6, 0.0], [np.inf, -np.inf], [NAN, 3.0], [NAN, np.inf], [NAN, NAN]]),
        *product(["hide"], [[1e6, 0.0], [NAN, NAN]]),
    ],
)
def test_hidden_rows_become_nan_whatever_they_held(way, junk):
    mask = np.array([[True, True], [False, True], [True, True]])
    dirty = np.array([[1.0, 2.0], junk, [3.0, 4.0]])
    other = np.ones((3, 1), dtype=np.float32)
    if way == "observed":
        views = Views.of([dirty, other], mask)
    elif way == "constructor":
        views = Views([dirty, other], mask, ["a", "b"])
    else:
        views = Views.of([dirty, other]).hide(mask)
    np.testing.assert_array_equal(views.arrays[0], [[1.0, 2.0], [NAN, NAN], [3.0, 4.0]])
    np.testing.assert_array_equal(views.observed, mask)
    assert [array.dtype for array in views.arrays] == [np.float64, np.float32]


def test_take_picks_samples_in_the_given_order():
    views = Views.of([frame(A), frame(B)])
    for rows in ([2, 0], np.array([2, 0]), np.array([2, 0, 2])):
        taken = views.take(rows)
        assert taken.index.tolist() == [LABELS[row] for row in rows]
        np.testing.assert_array_equal(taken.arrays[1], B[rows])
        np.testing.assert_array_equal(taken.observed, SEEN[rows])
        assert (taken.names, taken.columns) == (views.names, views.columns)
    assert views.take(views.complete).index.tolist() == ["s0", "s3"]


def test_hide_only_ever_hides_more():
    views = Views.of([A, B]).hide(np.ones((4, 2)))
    np.testing.assert_array_equal(views.observed, SEEN)
    twice = views.hide(MASK).hide([[1, 1], [1, 1], [1, 1], [0, 1]])
    np.testing.assert_array_equal(twice.observed, SEEN & MASK)


def test_matched_to_follows_the_fitted_order_and_columns():
    fitted = Views.of({"a": frame(A, "a"), "b": frame(B, "b"), "c": frame(B[:, :1], "c")})
    new = Views.of({"b": frame(B, "b")[["b2", "b0", "b1"]], "a": frame(A, "a")})
    matched = new.matched_to(fitted.names, fitted.sizes, fitted.columns)
    assert (matched.names, matched.sizes, matched.columns) == (fitted.names, fitted.sizes, fitted.columns)
    by_label = [matched.index.get_loc(label) for label in LABELS]
    np.testing.assert_array_equal(matched.arrays[0][by_label], A)
    np.testing.assert_array_equal(matched.arrays[1][by_label], B)
    assert np.isnan(matched.arrays[2]).all()
    np.testing.assert_array_equal(matched.observed[by_label], np.column_stack([SEEN, np.zeros(4, dtype=bool)]))


@pytest.mark.parametrize(
    ("new", "known"), [(frame(B[[0, 1, 3]], "x", [0, 1, 2]), None), (B[[0, 1, 3]], ("b0", "b1", "b2"))]
)
def test_matched_to_takes_columns_by_place_where_one_side_has_no_names(new, known):
    matched = Views.of({"b": new}).matched_to(["b"], [3], [known])
    np.testing.assert_array_equal(matched.arrays[0], B[[0, 1, 3]])


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"imags": A}, "View 'imags' was not there when the model was fitted; it knows 'image', 'text'. Did you mean"),
        ({"zzz": A}, "View 'zzz' was not there when the model was fitted; it knows 'image', 'text'.$"),
        ({"image": A[:, :1]}, "View 'image' has 1 columns but was fitted with 2"),
        ({"image": frame(A, "q")}, r"'image' must have the columns.*missing \['p0', 'p1'\], unexpected \['q0', 'q1'\]"),
        ({"image": frame(A, "p").rename(columns={"p1": "r"})}, r"missing \['p1'\], unexpected \['r'\]"),
    ],
)
def test_matched_to_refuses_views_and_columns_it_does_not_know(given, hint):
    rows = [0, 2, 3]
    views = Views.of({name: part.iloc[rows] if hasattr(part, "iloc") else part[rows] for name, part in given.items()})
    with pytest.raises(DataError, match=hint):
        views.matched_to(["image", "text"], [2, 3], [("p0", "p1"), None])


def test_a_near_miss_is_named():
    with pytest.raises(DataError, match=re.escape("Did you mean 'image'?")):
        Views.of({"imags": np.ones((2, 2))}).matched_to(["image"], [2], [None])


def test_repr_tells_sizes_and_shares():
    assert repr(Views.of({"a": A, "b": B})) == (
        "<Views of 4 samples (50% complete); a: 2 (75% observed), b: 3 (75% observed)>"
    )


def test_stacked_views_come_back_as_they_were():
    views = Views.of([A, B], MASK)
    table, sizes = stack_views(views)
    again = Views.of(table, view_sizes=sizes)
    assert table.shape == (4, 5)
    np.testing.assert_array_equal(again.observed, views.observed)
    for one, other in zip(again.arrays, views.arrays, strict=True):
        np.testing.assert_array_equal(one, other)


ONES, TWOS = np.ones((3, 2)), np.full((3, 1), 2.0)
INFINITE = np.array([[1.0, 1.0], [-np.inf, 1.0], [1.0, 1.0]])
EMPTY = np.array([[1.0], [NAN], [NAN]])
TEXT = pd.DataFrame({"x": [1.0, 2.0], "sex": ["m", "f"], "day": pd.to_datetime(["2020-01-01", "2020-01-02"])})


@pytest.mark.parametrize(
    ("given", "options", "words"),
    [
        ([frame(INFINITE, labels=[7, 8, 9])], {}, r"View 'view_0' has infinity in sample 8, column 'f0'.*make it NaN"),
        ({"a": ONES, "b": INFINITE}, {}, r"View 'b' has infinity in sample 1, column 0 \(1 such sample\)"),
        ([EMPTY], {}, "2 of 3 samples have no view at all, first: 1, 2.*drop it"),
        ([frame(EMPTY, labels=["u", "v", "w"])], {}, "no view at all, first: v, w"),
        ([ONES, TWOS], {"observed": [[1, 0], [0, 0], [1, 1]]}, "1 of 3 samples have no view at all, first: 1"),
        ([ONES, TWOS[:2]], {}, "'view_1' has 2 rows but view 'view_0' has 3.*all-NaN row, or pass DataFrames"),
        ({"a": frame(ONES, labels=[5, 6, 5])}, {}, "View 'a' has the index label 5 more than once.*groupby"),
        ({"a": TEXT}, {}, "View 'a' has columns that are neither numbers nor categories: 'day'. Drop them"),
        ({"a": TEXT[["x"]] + 1j}, {}, "View 'a' has columns that are neither numbers nor categories: 'x'"),
        ({"a": np.array([[1, "m"]], dtype=object)}, {}, "View 'a' holds values that are not numbers.*pass a DataFrame"),
        ({"a": np.array([["m"], ["f"]])}, {}, "View 'a' holds values that are not numbers.*<U1"),
        ({"a": ONES * 1j}, {}, r"View 'a' holds values that are not numbers \(dtype complex128\)"),
        ({"a": np.zeros((2, 2), "M8[D]")}, {}, r"View 'a' holds values that are not numbers \(dtype datetime64"),
        ({"a": frame(ONES, labels=[0, 1, 2]), "b": TWOS}, {}, "'b' is a ndarray but view 'a' is a DataFrame.*or none"),
        ([TWOS, frame(ONES, labels=[0, 1, 2])], {}, "'view_0' is a ndarray but view 'view_1' is a DataFrame"),
        (ONES, {"view_sizes": [1, 2]}, r"view_sizes \[1, 2\] sums to 3 but the array has 2 columns"),
        (ONES, {"view_sizes": [2, 0]}, r"view_sizes \[2, 0\].*number of columns of each view"),
        (ONES, {"view_sizes": [3, -1]}, r"view_sizes \[3, -1\]"),
        (ONES, {"view_sizes": []}, r"view_sizes \[\] sums to 0"),
        ([], {}, "no view was given; pass a list or dict"),
        ({}, {}, "no view was given"),
        ([None, None], {}, "no view was given"),
        (np.ones(3), {}, r"expected a 2-D array.*got ndarray of shape \(3,\).*one row per sample"),
        (np.ones((2, 2, 2)), {}, r"expected a 2-D array.*\(2, 2, 2\)"),
        ("words", {}, r"expected arrays or frames, not the text 'words'. To read a file, use read_views"),
        ([ONES, np.ones(3)], {}, r"View 'view_1' must be a 2-D array.*got shape \(3,\)"),
        ({"a": np.ones(3)}, {}, r"View 'a' must be a 2-D array.*got shape \(3,\)"),
        ({"a": pd.Series([1.0, 2.0])}, {}, r"View 'a' must be a 2-D array"),
        ([np.ones(3), np.ones(4)], {}, "rows of different lengths; give a 2-D array"),
        ([[[1, 2], [3]], ONES], {}, "View 'view_0' has rows of different lengths"),
        ({"a": [[1, 2], [3]]}, {}, "View 'a' has rows of different lengths"),
        ({"a": np.ones((3, 0))}, {}, r"View 'a' must be a 2-D array with at least one column; got shape \(3, 0\)"),
        ({"a": pd.DataFrame(index=[1, 2])}, {}, "View 'a' has no columns; leave the view out"),
    ],
)  # fmt: skip
def test_unusable_views_are_refused_with_the_view_and_the_way_out(given, options, words):
    with pytest.raises(DataError, match=words):
        Views.of(given, **options)


NA_MASK = pd.DataFrame({"view_0": pd.array([True, None, True], "boolean"), "view_1": True})


@pytest.mark.parametrize("make", [lambda: [ONES, TWOS], lambda: Views.of([ONES, TWOS])], ids=["arrays", "views"])
@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (np.ones((3, 3)), r"one row per sample and one column per view, \(3, 2\); got \(3, 3\)"),
        (np.ones((2, 2)), r"\(3, 2\); got \(2, 2\)"),
        (np.ones(3), r"\(3, 2\); got \(3,\)"),
        (np.full((3, 2), 2), r"observed must hold True/False \(or 1/0\)"),
        (np.full((3, 2), NAN), "observed must hold True/False"),
        (np.full((3, 2), "yes"), "observed must hold True/False"),
        (np.full((3, 2), None), "observed must hold True/False"),
        (NA_MASK, "observed must hold True/False"),
        (pd.DataFrame({"view_0": [True] * 3}), r"views as columns.*missing columns \['view_1'\], missing samples \[\]"),
        (pd.DataFrame(True, index=[0, 9], columns=["view_0", "view_1"]), r"columns \[\], missing samples \[1, 2\]"),
        (pd.DataFrame(True, index=[0, 1, 2, 2], columns=["view_0", "view_1"]), "every sample once in its index"),
    ],
)  # fmt: skip
def test_unusable_masks_are_refused(make, observed, words):
    with pytest.raises(DataError, match=words):
        Views.of(make(), observed)


def test_a_sample_without_any_view_is_refused_when_hiding_and_constructing():
    none = np.array([[True], [False]])
    for make in (lambda: Views.of([ONES[:2]]).hide(none), lambda: Views([ONES[:2]], none, ["a"])):
        with pytest.raises(DataError, match="1 of 2 samples have no view at all, first: 1"):
            make()


def test_two_names_that_read_the_same_are_refused():
    with pytest.raises(DataError, match="two views have the same name as text"):
        Views.of({1: np.zeros((2, 2)), "1": np.zeros((2, 2))})


@pytest.mark.parametrize("wrap", [lambda sparse: sparse, lambda sparse: [sparse], lambda sparse: {"a": sparse}])
def test_sparse_matrices_are_made_dense(wrap):
    np.testing.assert_array_equal(Views.of(wrap(csr_matrix(np.eye(3)))).arrays[0], np.eye(3))


def test_no_samples_can_be_taken_and_shown():
    empty = Views.of([np.ones((3, 2))]).take([])
    assert len(empty) == 0
    assert "0 samples" in repr(empty)


X, Y = pd.DataFrame({"x": [1.0, 2.0, 3.0]}), pd.DataFrame({"y": [4.0, 5.0, 6.0]})
DAYS = pd.date_range("2020-01-01", periods=3)
MISMATCHES = {
    "numbers and text": ([1, 2, 3], ["1", "2", "3"], r"by text \('1'\) but view 'x' by numbers \(1\).*astype\(str\)"),
    "text and numbers": (["1", "2", "3"], [1.0, 2.0, 3.0], r"by numbers \(1.0\) but view 'x' by text \('1'\)"),
    "dates and text": (DAYS, DAYS.strftime("%Y-%m-%d"), r"by text \('2020-01-01'\) but .* without a time zone"),
    "dates and days": (DAYS, DAYS.date, r"by dates .* but .* by times without a time zone"),
    "time zones": (
        DAYS,
        DAYS.tz_localize("UTC"),
        r"by times with a time zone .* but .* without a.*tz_localize\(None\)",
    ),
    "categories": (pd.CategoricalIndex(["1", "2", "3"]), [1, 2, 3], "by numbers"),
}


@pytest.mark.parametrize("kind", MISMATCHES)
def test_names_of_samples_of_different_kinds_are_refused(kind):
    left, right, words = MISMATCHES[kind]
    frames = {"x": X.set_axis(left, axis=0), "y": Y.set_axis(right, axis=0)}
    with pytest.raises(DataError, match=f"View 'y' names its samples {words}"):
        Views.of(frames)


@pytest.mark.parametrize(
    ("left", "right"),
    [([1, 2, 3], [1.0, 2.0, 3.0]), (["a", "b", "c"], pd.CategoricalIndex(["a", "b", "c"])), (DAYS, list(DAYS)[::-1])],
)
def test_names_of_one_kind_join_whatever_their_type(left, right):
    views = Views.of({"x": X.set_axis(left, axis=0), "y": Y.set_axis(right, axis=0)})
    assert views.complete.all()


@pytest.mark.parametrize("label", [None, np.nan, "", "  "])
def test_a_sample_without_a_name_is_refused(label):
    with pytest.raises(DataError, match="View 'x' has 1 row without a name; samples are joined by name, so name these"):
        Views.of({"x": X.set_axis(["a", label, "c"], axis=0), "y": Y.set_axis(["a", "b", "c"], axis=0)})


@pytest.mark.parametrize("form", [form for form, (_, options) in FORMS.items() if not options])
def test_any_form_of_several_views_can_be_stacked(form):
    table, sizes = stack_views(FORMS[form][0]())
    np.testing.assert_array_equal(table, stacked())
    assert sizes == (2, 3)


def test_a_mask_by_label_is_matched_by_name():
    frames = {1: frame(A, "a"), 2: frame(B, "b")}
    mask = pd.DataFrame(MASK[:, ::-1], index=LABELS, columns=[2, 1])
    np.testing.assert_array_equal(Views.of(frames, mask).observed, SEEN & MASK)
    with pytest.raises(DataError, match=r"its index holds numbers, the data have text.*astype"):
        Views.of(frames, mask.set_axis(range(4), axis=0))
    with pytest.raises(DataError, match="observed has several columns called '1'"):
        Views.of(frames, mask.set_axis([1, "1"], axis=1))
