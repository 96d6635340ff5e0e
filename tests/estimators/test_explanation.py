"""Explanations of samples against other computations; profiles and names of clusters."""

import numpy as np
import pandas as pd
import pytest
import torch

from acova import ACOVA, Views
from acova.base import OptionError
from acova.data.profiles import effects
from acova.estimators import make_method
from acova.training.attribution import TOLERANCE, log_probabilities
from acova.training.inference import batch_of
from conftest import SMALL, make_toy


@pytest.fixture(scope="module")
def toy():
    return make_toy(n_samples=120)[0]


@pytest.fixture(scope="module", params=[1, 2])
def model(toy, request):
    return ACOVA.from_settings(3, **{**SMALL, "n_init": request.param, "consensus": request.param > 1}).fit(toy)


@pytest.fixture(scope="module")
def explained(model, toy):
    return model.explain(toy)


def test_features_add_up_to_the_log_odds(explained):
    total = sum(table.to_numpy().sum(axis=1) for table in explained.features.values())
    wanted = (explained.samples["log_odds"] - explained.samples["baseline"]).to_numpy()
    assert (np.abs(total - wanted) <= TOLERANCE * np.maximum(np.abs(wanted), 1) + 1e-9).all()
    assert np.abs(wanted).max() > 1


def test_labels_and_log_odds_are_those_of_the_model(model, toy, explained):
    probabilities = model.predict_proba(toy)
    np.testing.assert_array_equal(explained.samples["label"], model.labels_)
    batch = batch_of(toy, model._scaling, torch.device("cpu"))
    ours = log_probabilities(model._ensemble, batch.views, batch.observed).exp().numpy()
    np.testing.assert_allclose(ours, probabilities, atol=1e-5)
    ordered = np.sort(ours, axis=1)
    sure = ordered[:, -2] > 1e-6
    expected = np.log(ordered[sure, -1] / ordered[sure, -2])
    np.testing.assert_allclose(explained.samples["log_odds"].to_numpy()[sure], expected, atol=1e-3)


def test_hidden_views_add_nothing_and_are_not_left_out_again(toy, explained):
    for v, table in enumerate(explained.features.values()):
        assert (table.to_numpy()[~toy.observed[:, v]] == 0).all()
    several = toy.observed & (toy.observed.sum(axis=1, keepdims=True) > 1)
    np.testing.assert_array_equal(explained.views.notna(), several)


def test_what_a_view_does_is_the_change_without_it(model, toy, explained):
    rows = np.flatnonzero(toy.observed[:, 0] & (toy.observed.sum(axis=1) > 1))
    mask = toy.observed[rows].copy()
    mask[:, 0] = False
    label = model.labels_[rows]
    change = (
        model.predict_proba(toy)[rows, label]
        - model.predict_proba(toy.take(rows), observed=mask)[np.arange(len(rows)), label]
    )
    np.testing.assert_allclose(explained.views.iloc[rows, 0], change, atol=1e-6)


def test_attributions_are_integrals_of_slopes(model, toy):
    sample = toy.take(toy.complete).read(0, 1)
    found = model.explain(sample)
    label, other = found.samples["label"].iloc[0], found.samples["runner_up"].iloc[0]
    views = [torch.from_numpy(part) for part in model._scaling.transform(sample)]
    starts = [torch.from_numpy(mean) for mean in model._scaled_means()]

    def odds(points):
        seen = torch.ones(len(points[0]), 3, dtype=torch.bool)
        with torch.no_grad():
            found = log_probabilities(model._ensemble, points, seen)
        return found[:, label] - found[:, other]

    places = (torch.arange(400) + 0.5) / 400
    way = [start + places[:, None] * (view - start) for view, start in zip(views, starts, strict=True)]
    for v, feature in ((0, 1), (1, 4), (2, 0)):
        step = torch.zeros_like(way[v])
        step[:, feature] = 0.02
        ahead, behind = ([*way[:v], way[v] + sign * step, *way[v + 1 :]] for sign in (1, -1))
        slope = ((odds(ahead) - odds(behind)) / 0.04).mean()
        expected = float(slope * (views[v][0, feature] - starts[v][feature]))
        assert found.features[sample.names[v]].iloc[0, feature] == pytest.approx(expected, rel=0.05, abs=0.05)


def test_planted_features_are_found_and_useless_ones_get_little():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    signal = 2.5 * (labels[:, None] - 0.5) + rng.normal(size=(200, 10))
    first = np.hstack([signal[:, :5], rng.normal(size=(200, 25))])
    second = np.hstack([signal[:, 5:], rng.normal(size=(200, 25))])
    frames = {name: pd.DataFrame(array).add_prefix("f") for name, array in (("first", first), ("second", second))}
    model = ACOVA.from_settings(2, **{**SMALL, "epochs": 20}).fit(frames)
    top = model.explain(frames).top(10)
    planted = top["feature"].isin([f"f{j}" for j in range(5)])
    assert planted.groupby(top["sample"]).mean().mean() > 0.6  # by chance 0.17
    assert list(top.columns) == ["sample", "view", "feature", "log_odds"]


def test_profiles_are_those_of_the_data():
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    frames = {
        "counts": pd.DataFrame(rng.poisson(np.where(labels == 1, 6.0, 0.3)[:, None], size=(90, 4))).add_prefix("g"),
        "other": pd.DataFrame(labels[:70, None] + 0.1 * rng.normal(size=(70, 2)), columns=["x", "y"]),
    }
    model = make_method("Concat", n_clusters=3, random_state=0).fit(frames)
    table = model.cluster_profiles()
    assert len(table) == 3 * 6
    for cluster in range(3):
        inside = frames["counts"][model.labels_ == cluster]["g2"]
        outside = frames["counts"][model.labels_ != cluster]["g2"]
        row = table[(table["cluster"] == cluster) & (table["feature"] == "g2")].iloc[0]
        assert row["mean_inside"] == pytest.approx(inside.mean())
        assert row["mean_outside"] == pytest.approx(outside.mean())
        assert row["zeros_inside"] == pytest.approx((inside == 0).mean())
        assert row["zeros_outside"] == pytest.approx((outside == 0).mean())
        assert row["samples"] == len(inside)
        assert (table[table["cluster"] == cluster]["effect"].abs().diff().dropna() <= 0).all()
    summary = model.summary_
    expected = effects(summary.rows[:, 0], summary.means[0], summary.stds[0])[0]
    found = table[table["view"] == "counts"].pivot_table(index="cluster", columns="feature", values="effect")
    np.testing.assert_allclose(found, expected)


def test_names_are_shown_saved_and_forgotten_by_a_new_fit(toy, tmp_path):
    model = make_method("Concat", n_clusters=3, random_state=0).fit(toy)
    assert "cluster" not in model.assignments()
    model.rename_clusters({0: "healthy", 2: "ill"})
    table = model.assignments()
    np.testing.assert_array_equal(table["cluster"], np.array(["healthy", "1", "ill"])[table["label"]])
    assert set(model.cluster_profiles()["cluster"]) == {"healthy", "1", "ill"}
    model.save(tmp_path / "run")
    loaded = type(model).load(tmp_path / "run")
    pd.testing.assert_frame_equal(loaded.assignments(), table)
    pd.testing.assert_frame_equal(loaded.cluster_profiles(), model.cluster_profiles())
    assert model.fit(toy).cluster_names_ is None


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({3: "new"}, "names must be for clusters 0 to 2; got \\[3\\]"),
        (["a", "b"], "names must be for clusters 0 to 2"),
        ({0: "1"}, "every cluster needs a name of its own"),
    ],
)
def test_names_that_cannot_be(toy, names, message):
    model = make_method("Concat", n_clusters=3, random_state=0).fit(toy)
    with pytest.raises(OptionError, match=message):
        model.rename_clusters(names)


def test_a_single_cluster_has_no_runner_up(toy):
    model = ACOVA.from_settings(1, **{**SMALL, "epochs": 1}).fit(toy)
    with pytest.raises(OptionError, match="there is no runner-up"):
        model.explain(toy)


def test_views_without_a_single_further_view_are_explained():
    views = Views.of([np.random.default_rng(0).normal(size=(30, 4))])
    found = ACOVA.from_settings(2, **{**SMALL, "epochs": 1}).fit(views).explain(views)
    assert found.views.isna().all(axis=None)
