import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import OneHotEncoder

from acova import ACOVA, Concat, Views
from acova.base import DataError
from acova.data import read_views
from acova.data.categories import Encoded
from acova.estimators import load_method
from conftest import SMALL

RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "age": RNG.normal(size=N),
        "colour": RNG.choice(["red", "green", "blue"], N),
        "stage": pd.Categorical(RNG.choice([1, 2, 3], N), categories=[3, 2, 1, 9]),
        "smokes": RNG.random(N) < 0.5,
    },
    index=[f"p{i}" for i in range(N)],
)


def test_encoding_is_that_of_scikit_learn():
    encoded = Encoded("a", FRAME)
    assert encoded.columns == (
        "age",
        "colour=blue",
        "colour=green",
        "colour=red",
        "stage=3",
        "stage=2",
        "stage=1",
        "smokes",
    )
    assert encoded.categories == {"colour": ("blue", "green", "red"), "stage": ("3", "2", "1")}
    theirs = OneHotEncoder(sparse_output=False).fit_transform(FRAME[["colour"]])
    np.testing.assert_array_equal(encoded.values[:, 1:4], theirs)
    np.testing.assert_array_equal(encoded.values[:, 4:7], pd.get_dummies(FRAME["stage"])[[3, 2, 1]])
    np.testing.assert_array_equal(encoded.values[:, 7], FRAME["smokes"])


@pytest.mark.parametrize("kind", [object, "string", "category"])
def test_the_type_of_text_does_not_matter(kind):
    other = FRAME.astype({"colour": kind})
    np.testing.assert_array_equal(Encoded("a", other).values, Encoded("a", FRAME).values)


def test_an_empty_cell_empties_its_categories_and_an_empty_row_is_no_view():
    holes = FRAME.drop(columns="smokes").astype({"colour": object})
    holes.iloc[0, 1] = None
    holes.iloc[1] = None
    values = Encoded("a", holes).values
    assert np.isnan(values[0, 1:4]).all()
    assert not np.isnan(values[0, [0, *range(4, values.shape[1])]]).any()
    assert np.isnan(values[1]).all()
    views = Views.of({"a": holes, "b": FRAME[["age"]]})
    np.testing.assert_array_equal(views.observed[:3, 0], [True, False, True])
    np.testing.assert_array_equal(np.argwhere(views.empty[0]), [[0, 1], [0, 2], [0, 3]])
    assert views.empty[1] is None


def test_numbers_kept_as_objects_are_numbers():
    frame = FRAME[["age"]].astype(object)
    np.testing.assert_array_equal(Encoded("a", frame).values, FRAME[["age"]])
    assert Encoded("a", frame).categories == {}


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ([f"name {i}" for i in range(N)], "column 'x' is text and has 60 different values in 60 rows: a name.*astype"),
        ([f"w{i % 51}" for i in range(N)], "has 51 different values"),
        (["<5", *map(str, range(N - 1))], "most of its values are numbers; the first other value is '<5'"),
        (["1", "2"] * (N // 2), r"most of its values are numbers\."),
        ([1, "a"] * (N // 2), "neither numbers nor categories: 'x'"),
        ([(1, 2)] * N, "neither numbers nor categories: 'x'"),
        (pd.date_range("2020-01-01", periods=N), "neither numbers nor categories: 'x'.*days since"),
    ],
)
def test_what_is_no_category_is_refused(column, words):
    frame = FRAME[["age"]].assign(x=column)
    with pytest.raises(DataError, match=words):
        Views.of({"a": frame})


def test_declared_categories_may_be_many():
    frame = FRAME[["age"]].assign(x=pd.Categorical([f"w{i % 55}" for i in range(N)]))
    assert Views.of({"a": frame}).sizes == (56,)


def fitted(frames, **more):
    return ACOVA.from_settings(2, **SMALL, **more).fit(frames)


@pytest.fixture(scope="module")
def model():
    return fitted({"a": FRAME, "b": FRAME[["age"]] * 2})


def test_new_data_are_encoded_as_those_the_model_was_fitted_with(model, tmp_path):
    frames = {"a": FRAME, "b": FRAME[["age"]] * 2}
    whole = pd.DataFrame(model.predict_proba(frames), index=FRAME.index)
    model.save(tmp_path / "run")
    again = load_method(tmp_path / "run")
    assert again.n_features_in_ == model.n_features_in_ == 5
    rows = FRAME.index[FRAME["colour"] == "red"][:3]
    few = {"a": FRAME.loc[rows].astype({"stage": int}), "b": frames["b"].loc[rows]}  # one colour, stages as numbers
    for one in (model, again):
        np.testing.assert_allclose(one.predict_proba(few), whole.loc[rows], atol=1e-6)
    made_before = Views.of({"a": FRAME.loc[rows], "b": frames["b"].loc[rows]})
    assert made_before.sizes < model.view_sizes_
    np.testing.assert_allclose(model.predict_proba(made_before), whole.loc[rows], atol=1e-6)
    for name, frame in few.items():
        frame.to_csv(tmp_path / f"{name}.csv")
    read = read_views(tmp_path, categories=again.categories_).views
    np.testing.assert_allclose(again.predict_proba(read), whole.loc[rows], atol=1e-6)


def test_the_order_of_rows_does_not_change_the_encoding(model):
    shuffled = FRAME.sample(frac=1, random_state=1)
    np.testing.assert_array_equal(
        pd.Series(fitted({"a": shuffled, "b": FRAME[["age"]] * 2}).labels_, shuffled.index)[FRAME.index], model.labels_
    )


def test_an_unknown_category_is_refused_and_an_empty_cell_is_not(model):
    strange = FRAME.head(2).assign(colour=["violet", "red"])
    with pytest.raises(DataError, match=r"'a': column 'colour' holds 'violet'.*it knows 'blue', 'green', 'red'.*empty"):
        model.predict({"a": strange})
    with pytest.raises(DataError, match=r"unexpected \['colour=violet'\]"):
        model.predict(Views.of({"a": strange}))
    assert len(model.predict({"a": strange.assign(colour=[None, "red"])})) == 2


def test_one_table_is_cut_by_the_columns_that_were_given(tmp_path):
    table = FRAME.assign(weight=RNG.normal(size=N), town=RNG.choice(["here", "there"], N))
    model = fitted(table, view_sizes=(4, 2))
    assert model.view_sizes_ == (8, 3)
    assert list(model.feature_names_in_) == list(table)
    np.testing.assert_array_equal(model.predict(table), model.labels_)
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(load_method(tmp_path / "run").predict(table.head(3)), model.labels_[:3])


EMPTY = {
    "declared without categories": pd.Categorical([None] * N),
    "declared with categories": pd.Categorical([None] * N, categories=["a", "b"]),
    "text": pd.array([None] * N, "string"),
}


@pytest.mark.parametrize("kind", EMPTY)
def test_an_empty_column_of_categories_is_refused_by_a_fit(kind):
    with pytest.raises(DataError, match="View 'a': column 'x' is empty everywhere, so that it has no categories"):
        Views.of({"a": FRAME[["age"]].assign(x=EMPTY[kind])})


def test_an_empty_column_of_numbers_is_named():
    with pytest.raises(DataError, match="View 'a': column 'x' is empty in every sample that has the view"):
        Concat(2).fit({"a": FRAME[["age"]].assign(x=np.nan)})


@pytest.mark.parametrize("kind", [*EMPTY, "numbers", "objects"])
def test_an_empty_column_of_known_categories_is_empty(kind, model):
    empty = {**EMPTY, "numbers": np.nan, "objects": None}[kind]
    frames = {"a": FRAME.assign(colour=empty), "b": FRAME[["age"]] * 2}
    views = Views.of(frames, categories=model.categories_)
    assert np.isnan(views.arrays[0][:, 1:4]).all()
    np.testing.assert_array_equal(views.arrays[0][:, 4:], Views.of({"a": FRAME}).arrays[0][:, 4:])
    assert model.predict(frames).shape == (N,)


def test_a_column_with_one_category_is_a_column_of_ones():
    views = Views.of({"a": FRAME[["age"]].assign(x="same")})
    assert views.columns == (("age", "x=same"),)
    np.testing.assert_array_equal(views.arrays[0][:, 1], np.ones(N))


def test_a_view_of_categories_without_rows_is_observed_for_no_sample():
    views = Views.of({"a": FRAME[["colour"]].iloc[:0], "b": FRAME[["age"]]})
    assert not views.observed[:, 0].any()


PAIR = pd.DataFrame(
    {"a": RNG.choice(["b=c", "u"], N), "a=b": RNG.choice(["c", "v"], N), "n": RNG.normal(size=N)}, index=FRAME.index
)


def test_features_of_two_columns_never_share_a_name():
    views = Views.of({"v": PAIR})
    assert views.columns == (("a=b=c", "a=u", r"a\=b=c", r"a\=b=v", "n"),)
    reordered = Views.of({"v": PAIR[["n", "a=b", "a"]]})
    matched = reordered.matched_to(views.names, views.sizes, views.columns)
    np.testing.assert_array_equal(matched.arrays[0], views.arrays[0])
    one, other = Views.of({"v": PAIR[["a"]]}), Views.of({"v": PAIR[["a=b"]].replace("v", "u")})
    with pytest.raises(DataError, match="must have the columns it was fitted with"):
        other.matched_to(one.names, one.sizes, one.columns)


def test_columns_in_another_order_give_the_same_probabilities():
    frames = {"v": PAIR, "w": FRAME[["age"]]}
    model = fitted(frames)
    np.testing.assert_allclose(
        model.predict_proba({"v": PAIR[["n", "a=b", "a"]], "w": frames["w"]}), model.predict_proba(frames), atol=1e-6
    )


def test_backslashes_in_names_of_columns_stay_apart():
    frame = pd.DataFrame({"a": ["x", "y"] * 3, "a\\": ["x", "y"] * 3, "a\\=": ["x", "y"] * 3})
    names = Views.of({"v": frame}).columns[0]
    assert len(set(names)) == 6


def test_a_number_named_like_a_category_is_refused():
    frame = FRAME[["colour", "age"]].rename(columns={"age": "colour=red"})
    with pytest.raises(DataError, match="the column 'colour=red' is named like a category of the column 'colour'"):
        Views.of({"a": frame})


@pytest.mark.parametrize(
    ("columns", "words"), [(["a", "b", "a"], "several columns called 'a'"), ([1, "1", 2], "several columns called '1'")]
)
def test_columns_with_one_name_are_refused(columns, words):
    frame = pd.DataFrame(np.ones((4, 3)), columns=columns)
    with pytest.raises(DataError, match=f"View 'v' has {words}; .*rename"):
        Views.of({"v": frame})
    with pytest.raises(DataError, match=words):
        Views.of({"v": frame.assign(text=["x", "y"] * 2)})


def test_an_infinite_cell_beside_categories_names_the_column_as_written():
    odd = FRAME[["colour", "stage", "age"]].astype({"age": float})
    odd.iloc[5, 2] = np.inf
    with pytest.raises(DataError, match=r"View 'a' has infinity in sample 'p5', column 'age' \(1 such sample\)"):
        Views.of({"a": odd})


def test_a_category_that_new_samples_lack_is_empty_where_its_cell_is():
    known = Views.of({"a": FRAME})
    few = FRAME.astype({"colour": object}).iloc[:4].copy()
    few["colour"] = ["red", None, "red", None] if "red" in set(FRAME["colour"]) else None
    matched = Views.of({"a": few}).matched_to(known.names, known.sizes, known.columns)
    block = matched.arrays[0][:, [column.startswith("colour=") for column in known.columns[0]]]
    np.testing.assert_array_equal(np.isnan(block).all(axis=1), [False, True, False, True])
    np.testing.assert_array_equal(np.isnan(block).any(axis=1), [False, True, False, True])
