from io import StringIO

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from acova import Views
from acova.base import DataError
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
    "holes": {"x": [np.nan, *range(N - 1)]},
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
        Views.of(frames)
    assert found.refusal == str(caught.value)
    assert found.n_samples == N
    assert "A fit would stop" in shown(found)


def test_what_is_dropped_and_hidden_stops_no_more():
    frames = {"one": table(**STOPS["holes"], name=[f"patient {i}" for i in range(N)]), "two": table()}
    found = inspect_data(frames, drop=["name"], holes="hide")
    assert found.refusal is None
    assert found.views["samples"].tolist() == [N - 1, N]


def test_names_that_match_nowhere_are_remarked():
    other = table()
    other.index = [f" {name.upper()}" for name in other.index]
    found = inspect_data({"one": table(), "two": other})
    assert {("disjoint", "one", ""), ("spaces", "two", "")} <= kinds(found)
    assert "40 would match without spaces and capitals" in next(
        one.text for one in found.findings if one.kind == "disjoint"
    )


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
    assert found.patterns.to_dict() == {(True, True): 2, (True, False): 1}
