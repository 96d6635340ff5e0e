import re
import warnings
from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from acova import Concat, Views
from acova.base import DataError, DataWarning
from acova.data import inspect_data

RNG = np.random.default_rng(0)
N = 40
NAMES = [f"s{i}" for i in range(N)]


def table(rows=slice(None), **more):
    frame = pd.DataFrame(RNG.normal(size=(N, 3)), index=NAMES, columns=list("abc")).assign(**more)
    return frame.iloc[rows]


def kinds(found):
    return {(one.kind, one.view, one.column) for one in found.findings}


def shown(found):
    console = Console(width=200, record=True, file=StringIO())
    console.print(found)
    return console.export_text()


def test_clean_data_have_no_findings_and_counts_are_those_of_views():
    frames = {"one": table(), "two": table(slice(10, 40)), "three": table(slice(5, 25))}
    found = inspect_data(frames)
    views = Views.of(frames)
    assert (found.findings, found.refusal, found.n_samples) == ((), None, N)
    np.testing.assert_array_equal(found.views["samples"], views.observed.sum(axis=0))
    np.testing.assert_allclose(found.views["observed"], views.observed.mean(axis=0))
    by_hand = {}
    for row in views.observed:
        by_hand[tuple(row)] = by_hand.get(tuple(row), 0) + 1
    assert found.patterns.to_dict() == by_hand
    assert "These data can be used" in shown(found)
    assert inspect_data(views).patterns.to_dict() == by_hand


ODD = {
    "constant": {"x": 3.0},
    "id": {"x": np.arange(N)},
    "huge": {"x": RNG.normal(size=N) * 1e8},
    "marker": {"x": np.where(np.arange(N) % 9 == 0, -999, RNG.normal(size=N))},
    "encoded": {"x": np.where(np.arange(N) % 2, "yes", "no")},
}


@pytest.mark.parametrize("kind", ODD)
def test_suspicious_columns_are_named_and_do_not_stop(kind):
    found = inspect_data({"one": table(**ODD[kind])})
    assert (kind, "one", "x") in kinds(found)
    assert found.refusal is None
    assert not any(one.stops for one in found.findings)
    assert "x" in shown(found)


def test_a_column_that_is_there_twice():
    frame = table()
    found = inspect_data({"one": frame.assign(again=frame["b"])})
    assert kinds(found) == {("duplicate", "one", "again")}
    assert "same as 'b'" in found.findings[0].text


STOPS = {
    "empty": {"x": np.nan},
    "infinite": {"x": [np.inf, *RNG.normal(size=N - 1)]},
    "text": {"x": [f"patient {i}" for i in range(N)]},
    "type": {"x": pd.date_range("2020-01-01", periods=N)},
}


@pytest.mark.parametrize("kind", STOPS)
def test_what_stops_a_fit_is_marked_and_the_fits_own_words_are_told(kind):
    frames = {"one": table(**STOPS[kind]), "two": table()}
    found = inspect_data(frames)
    assert kind in {one.kind for one in found.findings if one.stops}
    with pytest.raises(DataError) as caught:
        Concat(2).fit(frames)
    assert found.refusal == str(caught.value)
    assert found.n_samples == N
    assert "A fit would stop" in shown(found)


def test_what_is_dropped_and_hidden_stops_no_more():
    frames = {"one": table(x=[np.nan, *range(N - 1)], name=[f"patient {i}" for i in range(N)]), "two": table()}
    found = inspect_data(frames, drop=["name"], holes="hide")
    assert found.refusal is None
    assert found.views["samples"].tolist() == [N - 1, N]


def test_empty_cells_are_counted_and_refused_on_demand():
    frames = {"one": table(x=[None, "a", *"bc" * 19], y=[np.nan, np.nan, *range(N - 2)]), "two": table(slice(10, 40))}
    found = inspect_data(frames)
    assert found.refusal is None
    assert found.views["empty"].tolist() == [3, 0]
    np.testing.assert_allclose(found.views["empty_share"], [3 / (5 * N), 0])
    text = "2 rows have single empty cells (3), first 's0': these are left out"
    assert [one.text for one in found.findings if one.kind == "holes"] == [text]
    refused = inspect_data(frames, holes="refuse")
    assert "View 'one' has an empty cell in sample 's0', column 'x' (2 such samples)" in refused.refusal
    assert refused.views["empty"].tolist() == [3, 0]


def warned(make):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    assert all(one.category is DataWarning for one in caught)
    return [str(one.message) for one in caught]


def renamed(names, **more):
    return table(**more).set_axis(list(names), axis=0)


def test_names_that_match_but_for_capitals_and_blanks_are_said_by_inspect_and_by_a_fit():
    frames = {"one": table(), "two": renamed(f" {name.upper()}" for name in NAMES)}
    found = inspect_data(frames)
    assert kinds(found) == {("disjoint", "one", ""), ("spaces", "two", ""), ("lookalike", "two", "")}
    messages = warned(lambda: Views.of(frames))
    assert len(messages) == len(found.findings) == 3
    for one in found.findings:
        assert f"View {one.view!r}: {one.text}." in messages
    text = next(text for text in messages if "differ" in text)
    assert "40 names differ from those of other views only in capitals, blanks, zeros or type" in text
    assert "first ' S0' here, 's0' in view 'one'" in text


@pytest.mark.parametrize("spell", [str.upper, lambda name: f"{name[0]} {name[1:]}", lambda name: f"{name}\t"])
def test_a_single_name_spelled_otherwise_is_said(spell):
    names = [*NAMES[:7], spell(NAMES[7]), *NAMES[8:]]
    messages = warned(lambda: Views.of({"one": table(), "two": renamed(names)}))
    assert any("1 name differs from those of other views only in" in m and f"{names[7]!r} here" in m for m in messages)


@pytest.mark.parametrize("other", ["007", "7.0", 7])
def test_numbers_as_text_and_zeros_are_lookalikes(other):
    left = table(slice(3)).set_axis(["7", "8", "x"], axis=0)
    right = table(slice(3)).set_axis([other, "8", "x"], axis=0)
    found = warned(lambda: Views.of({"one": left, "two": right}))
    assert len(found) == 1
    assert f"first {other!r} here, '7' in view 'one'" in found[0]


def test_two_spellings_in_one_view_are_two_samples():
    both = table(slice(4)).set_axis(["a", "A", "b", "c"], axis=0)
    assert warned(lambda: Views.of({"one": both, "two": both.iloc[:1], "three": both.iloc[1:]})) == []


def test_views_that_share_no_sample_are_said_whatever_form_they_have():
    nan = np.full((4, 2), np.nan)
    left, right = np.vstack([np.ones((4, 2)), nan]), np.vstack([nan, np.eye(4, 2)])
    mask = np.repeat(np.eye(2, dtype=bool), 4, axis=0)
    forms = {
        "arrays": lambda: Views.of({"one": left, "two": right}),
        "mask": lambda: Views.of({"one": np.ones((8, 2)), "two": np.ones((8, 2))}, mask),
        "frames": lambda: Views.of({"one": table(slice(4)), "two": table(slice(4, 8))}),
    }
    for make in forms.values():
        (message,) = warned(make)
        assert message.startswith("View 'one': shares no sample with view 'two'")
    chain = {"one": table(slice(0, 20)), "two": table(slice(10, 30)), "three": table(slice(25, 40))}
    assert warned(lambda: Views.of(chain)) == []
    pairs = {**{n: table(slice(20)) for n in "ab"}, **{n: table(slice(20, 40)) for n in "cde"}}
    assert "View 'a': together with 'b' it shares no sample with view 'c'" in warned(lambda: Views.of(pairs))[0]


def test_new_samples_of_a_known_model_may_share_no_view():
    frames = {"one": table(slice(4)), "two": table(slice(4, 8))}
    assert warned(lambda: Views.of(frames, categories={})) == []


def test_a_table_with_features_in_rows_gets_a_hint():
    frames = {"rna": table(), "protein": table().T}
    frames["protein"].index = ["p1", "p2", "p3"]
    hint = "the columns of view 'protein' are named like the samples of view 'rna'.*transpose it"
    found = inspect_data(frames)
    assert any(re.search(hint, one.text) for one in found.findings if one.kind == "disjoint")
    with pytest.warns(DataWarning, match=hint):
        Views.of(frames)
    numbered = {"rna": table().set_axis(range(N), axis=0), "protein": frames["protein"].set_axis(range(N), axis=1)}
    with pytest.raises(DataError, match=rf"View 'protein' names its samples by text \('p1'\).*{hint}"):
        Views.of(numbered)
    assert "kinds" in {one.kind for one in inspect_data(numbered).findings if one.stops}


WORDS = [f"w{i}" for i in range(N)]
DOUBTS = {
    "few rows": (lambda: table(slice(5), x=WORDS), "is taken for categories but is different in each of its 5 rows"),
    "nearly all": (lambda: table(x=["w1", *WORDS[1:]]), "has 39 different values in 40 rows"),
    "declared names": (lambda: table(x=pd.Categorical(WORDS)), "is different in each of its 40 rows"),
    "declared numbers": (
        lambda: table(x=pd.Categorical(["1.5", "2.0"] * (N // 2))),
        "holds numbers with decimals, though it is declared as categories",
    ),
}


@pytest.mark.parametrize("kind", DOUBTS)
def test_doubtful_categories_are_said_by_inspect_and_by_a_fit(kind):
    make, words = DOUBTS[kind]
    frame = make()
    messages = warned(lambda: Views.of({"one": frame}))
    assert len(messages) == 1
    assert "View 'one': column 'x' is taken for categories but" in messages[0]
    assert words in messages[0]
    texts = [one.text for one in inspect_data({"one": frame}).findings if one.kind == "doubtful"]
    assert messages == [f"View 'one': column 'x' {texts[0]}."]
    known = {"one": {"x": tuple(sorted(map(str, set(frame["x"]))))}}
    assert warned(lambda: Views.of({"one": frame}, categories=known)) == []  # as when a model predicts


def test_decimal_commas_are_numbers():
    frame = table(x=["1,5", "2,0"] * (N // 2))
    with pytest.raises(DataError, match=r"column 'x' is text and most of its values are numbers\."):
        Views.of({"one": frame})


def test_declared_categories_that_are_codes_are_not_doubted():
    assert warned(lambda: Views.of({"one": table(x=pd.Categorical([1, 2] * (N // 2)))})) == []


def test_one_warning_names_several_columns():
    frame = table(slice(5), **{f"x{i}": WORDS for i in range(8)})
    (message,) = warned(lambda: Views.of({"one": frame}))
    assert "column 'x4'" in message
    assert "column 'x5'" not in message
    assert message.endswith("and 3 more like these.")


def test_a_sample_that_occurs_twice_and_rows_of_zeros():
    frame = table()
    frame.iloc[3] = 0.0
    found = inspect_data({"one": pd.concat([frame, frame.iloc[:1]])})
    assert {("repeated", "one", ""), ("zeros", "one", "")} <= kinds(found)
    assert "'s0' more than once" in found.refusal
    texts = [one.text for one in found.findings if one.kind == "zeros"]
    assert texts == ["1 row is all zero: if that means 'missing', make them empty"]


def test_findings_of_one_kind_share_rows_and_names_are_not_markup():
    frame = table().assign(**{f"[red]{i}": 1.0 for i in range(30)})
    text = shown(inspect_data({"[bold]v": frame}))
    assert "[bold]v" in text
    assert "[red]3" in text
    assert "… and 26 more" in text


def test_arrays_and_files(tmp_path):
    holes = np.array([[1.0, 2.0], [np.nan, np.nan], [3.0, np.nan]])
    np.savez(tmp_path / "a.npz", view_0=np.ones((3, 2)), view_1=holes)
    found = inspect_data(tmp_path / "a.npz")
    assert {("holes", "view_1", ""), ("missing", "view_1", ""), ("constant", "view_0", "0")} <= kinds(found)
    assert found.views["empty"].tolist() == [0, 1]
    assert found.views["empty_share"].tolist() == [0, 0.25]
    assert "1 (25.00%)" in shown(found)
    assert found.patterns.to_dict() == {(True, True): 2, (True, False): 1}
