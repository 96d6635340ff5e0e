"""Survival by cluster against computations of its own, and what `compare` makes of frames."""

import sys

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

from acova import AgreementGraph, Concat
from acova.base import DataError, MissingExtraError, OptionError
from acova.clustering.survival import Survival, compare_survival, expected_events
from acova.data import make_views
from acova.estimators import ClusterComparison
from acova.estimators import Survival as PublicSurvival
from acova.plots import SurvivalDisplay
from test_plots import check_texts


def survived(n_samples=120, n_clusters=3):
    """Return labels, times with ties, and events; the later clusters die sooner."""
    rng = np.random.default_rng(0)
    labels = rng.integers(n_clusters, size=n_samples)
    times = np.ceil(rng.exponential(20 / (1 + labels)))
    return labels, times, rng.random(n_samples) < 0.7


def log_rank(labels, times, events):
    """Return chi-square and degrees of freedom, time by time."""
    clusters = np.unique(labels)
    excess, covariance = np.zeros(len(clusters)), np.zeros((len(clusters),) * 2)
    for moment in np.unique(times[events]):
        at_risk = np.array([((times >= moment) & (labels == k)).sum() for k in clusters])
        dead = np.array([((times == moment) & events & (labels == k)).sum() for k in clusters])
        total, deaths = at_risk.sum(), dead.sum()
        excess += dead - deaths * at_risk / total
        if total > 1:
            shares = at_risk / total
            factor = deaths * (total - deaths) / (total - 1)
            covariance += factor * (np.diag(shares) - np.outer(shares, shares))
    return excess[1:] @ np.linalg.solve(covariance[1:, 1:], excess[1:]), len(clusters) - 1


def kaplan_meier(labels, times, events):
    """Return the curves as `Survival.curves` has them, with intervals of width zero."""
    rows = []
    for k in np.unique(labels):
        own, alive = labels == k, 1.0
        for moment in np.unique(np.append(times[own], 0)):
            at_risk, dead = (times[own] >= moment).sum(), (events & (times == moment) & own).sum()
            alive *= 1 - dead / at_risk
            rows.append((k, moment, at_risk, dead, alive, alive, alive))
    return pd.DataFrame(rows, columns=["cluster", "time", "at_risk", "events", "survival", "lower", "upper"])


def made_survival(n_clusters):
    """Return a `Survival` that needs no lifelines."""
    labels, times, events = survived(40 * n_clusters, n_clusters)
    statistic, freedom = log_rank(labels, times, events)
    clusters = pd.DataFrame(
        {"n_samples": np.bincount(labels), "n_events": np.bincount(labels, events).astype(int)}
        | {"expected": list(expected_events(labels, times, events).values()), "median": np.inf}
    )
    curves = kaplan_meier(labels, times, events)
    return Survival(statistic, float(chi2.sf(statistic, freedom)), freedom, clusters, curves, 2)


@pytest.fixture
def lifelines():
    return pytest.importorskip("lifelines", reason="survival needs the extra 'survival'")


@pytest.fixture(scope="module")
def model():
    views = make_views(90, 3, random_state=0).views
    return Concat(3, random_state=0).fit(views)


@pytest.fixture
def frame(model):
    rng = np.random.default_rng(0)
    times = np.ceil(rng.exponential(20 / (1 + model.labels_)))
    columns = {"days": times, "died": rng.random(90) < 0.7, "age": rng.normal(size=90)}
    return pd.DataFrame(columns, index=model.index_)


# --- the computation ------------------------------------------------------------------------------


@pytest.mark.usefixtures("lifelines")
@pytest.mark.parametrize("n_clusters", [2, 3, 5])
def test_the_log_rank_test_is_that_of_the_hypergeometric_moments(n_clusters):
    labels, times, events = survived(n_clusters=n_clusters)
    found = compare_survival("test", labels, times, events)
    statistic, freedom = log_rank(labels, times, events)
    assert found.chi2 == pytest.approx(statistic, rel=1e-9)
    assert found.degrees_of_freedom == freedom
    assert found.p_value == pytest.approx(chi2.sf(statistic, freedom), rel=1e-9)


@pytest.mark.usefixtures("lifelines")
def test_curves_with_ties_and_censoring_are_those_by_hand():
    times = np.array([0.0, 2, 2, 2, 5, 7, 1, 4, 4, 6])
    events = np.array([1, 1, 1, 0, 0, 1, 0, 1, 1, 0], dtype=bool)
    labels = np.repeat([0, 1], [6, 4])
    found = compare_survival("test", labels, times, events)
    first, second = (found.curves[found.curves["cluster"] == k] for k in (0, 1))
    assert first["time"].tolist() == [0, 2, 5, 7]
    assert first["at_risk"].tolist() == [6, 5, 2, 1]
    assert first["events"].tolist() == [1, 2, 0, 1]
    assert first["survival"].tolist() == pytest.approx([5 / 6, 5 / 6 * 3 / 5, 1 / 2, 0])
    assert second["time"].tolist() == [0, 1, 4, 6]
    assert second["survival"].tolist() == pytest.approx([1, 1, 1 / 3, 1 / 3])
    assert found.medians.tolist() == [2, 4]
    assert found.clusters["n_events"].tolist() == [4, 2]
    # At 0, 2, 4 and 7 there are 10, 8, 5 and 1 at risk, of them 6, 5, 2 and 1 in the first cluster.
    assert found.clusters["expected"].tolist() == pytest.approx([6 / 10 + 2 * 5 / 8 + 2 * 2 / 5 + 1, 0.4 + 0.75 + 1.2])


@pytest.mark.usefixtures("lifelines")
def test_curves_are_products_of_shares_and_their_bands_are_greenwoods():
    labels, times, events = survived()
    found, known = compare_survival("test", labels, times, events).curves, kaplan_meier(labels, times, events)
    pd.testing.assert_frame_equal(found.iloc[:, :5], known.iloc[:, :5], check_dtype=False)
    own = found[(found["cluster"] == 1)].query("0 < survival < 1")
    variance = (own["events"] / (own["at_risk"] * (own["at_risk"] - own["events"]))).cumsum()
    log = np.log(own["survival"])
    wide = 1.959964 * np.sqrt(variance) / log
    np.testing.assert_allclose(own["lower"], np.exp(log * np.exp(-wide)), rtol=1e-5)
    np.testing.assert_allclose(own["upper"], np.exp(log * np.exp(wide)), rtol=1e-5)


@pytest.mark.usefixtures("lifelines")
def test_a_cluster_that_no_event_finds_at_risk_is_not_compared():
    labels, times, events = survived()
    more = np.append(labels, [7, 7]), np.append(times, [0.5, 0.5]), np.append(events, [False, False])
    found, without = compare_survival("test", *more), compare_survival("test", labels, times, events)
    assert (found.chi2, found.degrees_of_freedom) == (without.chi2, 2)
    assert found.clusters.loc[7, "expected"] == 0
    assert np.isinf(found.medians[7])
    assert "Fewer than 5 expected events in cluster 7: p is a rough approximation." in found.summary


def test_expected_events_add_up_to_those_that_came():
    labels, times, events = survived()
    assert sum(expected_events(labels, times, events).values()) == pytest.approx(events.sum())


def test_too_few_events_and_clusters_are_said():
    labels, times, events = survived()
    with pytest.raises(DataError, match="needs at least 5 events among the samples with time and event; got 0 among"):
        compare_survival("test", labels, times, np.zeros_like(events))
    with pytest.raises(DataError, match=r"test: survival needs at least two clusters with samples at risk .* got 1"):
        compare_survival("test", np.zeros_like(labels), times, events)


# --- the interface --------------------------------------------------------------------------------


def test_without_survival_the_table_is_that_of_check_against(model, frame):
    found = model.compare(frame, n_permutations=99)
    assert isinstance(found, ClusterComparison)
    pd.testing.assert_frame_equal(found.table, model.check_against(frame, n_permutations=99))
    assert found.survival is None
    assert "age" in repr(found)
    assert "<th" in found._repr_html_()
    assert "Survival" not in found._repr_html_()


@pytest.mark.usefixtures("lifelines")
def test_samples_are_matched_by_name_and_those_without_time_or_event_are_counted(frame):
    given = frame.astype({"died": object}).drop(index=frame.index[:4])
    given.loc[given.index[0], "days"] = np.nan
    given.loc[given.index[:3], "died"] = None
    mixed = given.set_axis([f"s{i}" for i in given.index]).sample(frac=1, random_state=0)
    named = Concat(3, random_state=0).fit(
        [
            pd.DataFrame(array, index=[f"s{i}" for i in range(90)])
            for array in make_views(90, 3, random_state=0).views.arrays
        ]
    )
    found = named.compare(mixed, "days", "died", n_permutations=99)
    survival = found.survival
    assert isinstance(survival, PublicSurvival)
    assert survival.n_left_out == 7
    assert survival.clusters["n_samples"].sum() == 83
    rest = frame.iloc[7:]
    statistic, _ = log_rank(named.labels_[7:], rest["days"].to_numpy(), rest["died"].to_numpy())
    assert survival.chi2 == pytest.approx(statistic)
    assert found.table.index.tolist() == ["age"]
    assert "7 without time or event" in repr(found)
    assert "<strong>Survival</strong>" in found._repr_html_()


@pytest.mark.usefixtures("lifelines")
def test_a_dict_of_nothing_but_time_and_event_will_do(model, frame):
    given = {"days": frame["days"].to_numpy(), "died": frame["died"].to_numpy().astype(int)}
    found = model.compare(given, "days", "died")
    assert found.table.empty
    assert found.survival.chi2 == pytest.approx(model.compare(frame, "days", "died").survival.chi2)
    drawn = SurvivalDisplay.from_estimator(model, given, time="days", event="died")
    pd.testing.assert_frame_equal(drawn.survival.curves, found.survival.curves)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("days", None), "Concat.compare: time needs event; name the columns of both, or neither"),
        ((None, "died"), "Concat.compare: event needs time"),
        (
            ("day", "died"),
            r"time must name a column of frame \('days', 'died', 'age'\); got 'day'. Did you mean 'days'",
        ),
        (("days", "dead"), "event must name a column of frame"),
        ((np.ones(3), "died"), "time must name a column of frame; got ndarray"),
        (("days", "days"), "time and event must be two columns; got 'days' for both"),
    ],
)
def test_wrong_names_are_said(model, frame, names, message):
    with pytest.raises(OptionError, match=message):
        model.compare(frame, *names)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("days", -1.0, "the times in column 'days' must be finite numbers from 0 on; got -1 for sample 3"),
        ("days", np.inf, "must be finite numbers from 0 on; got inf for sample 3"),
        ("days", "2020-01-01", "must be finite numbers from 0 on; got object. Convert dates to durations"),
        ("died", 2, r"column 'died' must say of each event 1 or True .* got 2 for sample 3"),
        ("died", "yes", "got 'yes' for sample 3. Translate it, or leave it empty"),
        ("died", "1", "got '1' for sample 3"),
    ],
)
def test_wrong_times_and_events_are_said(model, frame, column, value, message):
    frame = frame.astype({column: object}).astype({"days": float} if not isinstance(value, str) else {})
    frame.loc[3, column] = value
    with pytest.raises(DataError, match=message):
        model.compare(frame, "days", "died")


def test_without_lifelines_the_error_says_how_to_install_it(model, frame, monkeypatch):
    monkeypatch.setitem(sys.modules, "lifelines", None)
    with pytest.raises(MissingExtraError, match=r"compare needs lifelines, .* pip install 'acova\[survival\]'"):
        model.compare(frame, "days", "died")


# --- the figure -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_clusters", [2, 10, 50])
def test_curves_are_drawn_and_no_text_overlaps(n_clusters):
    survival = made_survival(n_clusters)
    display = SurvivalDisplay(survival).plot()
    assert check_texts(display.figure_) > n_clusters
    lines = [line for line in display.ax_.lines if line.get_drawstyle() == "steps-post"]
    assert [line.get_label() for line in lines] == [str(k) for k in range(n_clusters)]
    assert len({(line.get_color(), str(line._dash_pattern)) for line in lines}) == n_clusters
    own = survival.curves[survival.curves["cluster"] == 1]
    np.testing.assert_array_equal(lines[1].get_ydata()[1:], own["survival"])
    assert display._repr_png_().startswith(b"\x89PNG")


def test_numbers_at_risk_are_those_who_were_seen_at_the_tick_or_later():
    survival = made_survival(2)
    labels, times, _ = survived(80, 2)
    display = SurvivalDisplay(survival).plot()
    rows = {}
    for text in display.ax_.texts:
        if text.get_ha() == "center":
            rows.setdefault(round(text.xyann[1]), []).append((text.xy[0], int(text.get_text())))
    found = [rows[place] for place in sorted(rows, reverse=True)]
    for k, row in enumerate(found):
        assert [number for _, number in row] == [((labels == k) & (times >= tick)).sum() for tick, _ in row]
    assert len(found) == 2
    assert len(found[0]) > 3


@pytest.mark.usefixtures("lifelines")
def test_agreement_graph_compares_too():
    views = make_views(60, 2, random_state=0).views
    graph = AgreementGraph(2, random_state=0).fit(views)
    labels, times, events = graph.labels_, np.arange(60.0), np.arange(60) % 3 > 0
    found = graph.compare({"t": times, "e": events}, "t", "e").survival
    assert found.chi2 == pytest.approx(log_rank(labels, times, events)[0])
