"""What the report says of clusters beside each other, and of what they go with: tree, associations, survival."""

import numpy as np
import pandas as pd
import pytest

from acova import AgreementGraph
from acova.base import OptionError
from acova.clustering.survival import Survival
from acova.data import make_observed, make_views
from acova.report import make_result, render_report
from acova.report.outside import associations
from acova.report.survival import survival_by_cluster
from acova.report.tree import WIDTH, cluster_tree


@pytest.fixture(scope="module")
def model():
    made = make_views(160, 5, random_state=0)
    return AgreementGraph(5, random_state=0).fit(
        made.views.hide(make_observed(160, made.views.n_views, 0.5, random_state=0))
    )


@pytest.fixture(scope="module")
def frame(model):
    rng = np.random.default_rng(0)
    columns = {"age": rng.normal(50, 9, 160), "site": np.where(model.labels_ < 2, "x", "<b>y</b>")}
    columns["days"], columns["died"] = rng.exponential(100, 160), rng.random(160) < 0.6
    columns["age"][:2] = np.inf, np.nan
    return pd.DataFrame(columns, index=model.index_)


# --- the tree -----------------------------------------------------------------------------------


def test_the_drawn_tree_joins_what_cuts_join(model):
    found = cluster_tree(make_result(model, method="PCA"))
    assert [merge["height"] for merge in found["merges"]] == model.cluster_tree_[:, 2].tolist()
    assert sorted(leaf["cluster"] for leaf in found["leaves"]) == list(range(5))
    assert {leaf["cluster"]: leaf["samples"] for leaf in found["leaves"]} == dict(enumerate(np.bincount(model.labels_)))
    for step, merge in enumerate(found["merges"]):
        groups = model.cut(4 - step)
        together = np.unique(groups[np.isin(model.labels_, merge["clusters"])])
        assert len(together) == 1
        assert sorted(set(model.labels_[groups == together[0]].tolist())) == merge["clusters"]
        ends = [float(part) for part in merge["path"].removeprefix("M").replace("H", " ").replace("V", " ").split()]
        assert ends[2] == pytest.approx(108 + merge["height"] * (WIDTH - 124), abs=0.06)
    first = found["merges"][0]["clusters"]
    assert found["words"].startswith(f"Clusters {first[0]} and {first[1]} are the most alike")


def test_two_clusters_need_no_tree():
    made = make_views(60, 2, random_state=0)
    two = AgreementGraph(2, random_state=0).fit(made.views)
    assert cluster_tree(make_result(two, method="PCA")) is None
    assert associations(make_result(two, method="PCA")) is None  # nothing is missing, and no column given


# --- associations -------------------------------------------------------------------------------


def test_associations_are_those_of_the_checks_of_the_model(model, frame):
    result = make_result(model, method="PCA", covariates=frame, time="days", event="died")
    found = associations(result)
    table = model.missingness_check(n_permutations=999)
    assert found["missing"]["whole"]["effect"] == pytest.approx(table["effect"].iloc[-1])
    assert [row["missing"] for row in found["missing"]["views"]] == table["n_missing"].iloc[:-1].tolist()
    rows = {row["name"]: row for row in found["columns"]["rows"]}
    assert set(rows) == {"age", "site"}  # survival has a section of its own
    assert rows["age"]["n"] == 158  # an infinite number is left out
    against = model.check_against(frame[["age", "site"]].replace(np.inf, np.nan), n_permutations=999)
    assert rows["site"]["effect"] == pytest.approx(against.loc["site", "effect"])
    assert found["columns"]["strongest"]["name"] == "site"
    assert found["columns"]["words"] == "1 of 2 columns go with the clusters at a false discovery rate of 5%."


def test_features_that_were_clustered_are_not_tested(model):
    made = make_views(160, 5, random_state=0)
    views = made.views.hide(make_observed(160, made.views.n_views, 0.5, random_state=0))
    assert associations(make_result(model, method="PCA", views=views))["columns"] is None


# --- survival -----------------------------------------------------------------------------------


def made_survival():
    clusters = pd.DataFrame({"n_samples": [3, 2], "n_events": [2, 1], "expected": [2.0, 1.0], "median": [10.0, np.inf]})
    rows = [(0, 0.0, 3, 0, 1.0), (0, 5.0, 3, 1, 2 / 3), (0, 10.0, 2, 1, 1 / 3), (0, 20.0, 1, 0, 1 / 3)]
    rows += [(1, 0.0, 2, 0, 1.0), (1, 10.0, 2, 0, 1.0), (1, 40.0, 1, 1, 0.0)]
    curves = pd.DataFrame(rows, columns=["cluster", "time", "at_risk", "events", "survival"]).assign(
        lower=lambda table: table["survival"] * 0.5, upper=lambda table: table["survival"]
    )
    return Survival(1.5, 0.22, 1, clusters, curves, 4)


def test_curves_fall_at_events_and_have_ticks_where_samples_are_censored(model, frame, monkeypatch):
    asked = []

    class Compared:
        survival = made_survival()

    def compare(self, table, time, event, *, n_permutations):
        asked.append((list(table.columns), time, event))
        return Compared()

    monkeypatch.setattr(AgreementGraph, "compare", compare)
    result = make_result(model, method="PCA", covariates=frame, time="days", event="died")
    found = survival_by_cluster(result)
    assert asked == [(["days", "died"], "days", "died")]
    across, up = 720 - 52 - 12, 320 - 12 - 40
    first, second = found["chart"]["lines"]
    x5, x10, x20 = (f"{52 + t / 40 * across:.1f}" for t in (5, 10, 20))
    assert first["path"] == f"M52.0 12.0H{x5}V{12 + up / 3:.1f}H{x10}V{12 + up * 2 / 3:.1f}H{x20}"
    assert first["ticks"] == f"M{x20} {12 + up * 2 / 3 - 4:.1f}v8"
    assert second["path"] == f"M52.0 12.0H{x10}H{52 + across:.1f}V{12 + up:.1f}"
    assert second["ticks"] == f"M{x10} 8.0v8"
    assert [text for text, _ in found["chart"]["ticks_x"]] == ["0", "10", "20", "30", "40"]
    assert [row["median"] for row in found["rows"]] == [10.0, None]
    page = render_report(model, method="PCA", covariates=frame, time="days", event="died")
    assert "not reached" in page
    assert "Log-rank test: chi2 = 1.50, 1 df, p = 0.22" in page
    assert "<b>y</b>" not in page


def test_time_and_event_must_be_covariates(model, frame):
    for choices, text in [
        ({"time": "days"}, "event is missing; name the covariates of both"),
        ({"time": "day", "event": "died"}, "time must name one of the covariates .*; got 'day'.*days"),
        ({"time": "days", "event": "dead"}, "event must name one of the covariates"),
    ]:
        with pytest.raises(OptionError, match=text):
            make_result(model, covariates=frame, **choices)
    with pytest.raises(OptionError, match="none were given"):
        make_result(model, time="days", event="died")
