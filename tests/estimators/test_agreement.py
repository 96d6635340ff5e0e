import json

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from acova import AgreementGraph, Views
from acova.base import OptionError, RunFolderError
from acova.clustering.graphs import links_to
from acova.data import make_observed
from acova.estimators.persistence import save_model
from acova.metrics import clustering_accuracy
from conftest import make_toy


@parametrize_with_checks([AgreementGraph(3)])
def test_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def views():
    return make_toy()[0]


@pytest.fixture(scope="module")
def model(views):
    return AgreementGraph(3, random_state=0).fit(views)


def omics(seed=0, n_samples=400):
    """Return two views of four groups, and the groups."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(4, size=n_samples)
    rna = rng.normal(size=(n_samples, 300))
    rna[:, :60] += rng.normal(size=(4, 60))[groups]
    protein = rng.normal(size=(n_samples, 40))
    protein[:, :10] += 1.5 * rng.normal(size=(4, 10))[groups]
    return {"rna": rna, "protein": protein}, groups


def useless(kind, n_samples=400):
    rng = np.random.default_rng(7)
    if kind == "category":
        return np.eye(4)[rng.integers(4, size=n_samples)]
    return rng.normal(size=(n_samples, {"noise": 2, "wide noise": 50}[kind]))


@pytest.mark.parametrize("kind", ["category", "noise", "wide noise"])
def test_a_useless_view_does_not_decide(kind):
    tables, groups = omics()
    model = AgreementGraph(4, random_state=0).fit({**tables, kind: useless(kind)})
    assert clustering_accuracy(groups, model.labels_) > 0.98
    assert model.view_trust_[:2].min() > 0.9
    assert model.view_trust_[2] < 0.05
    assert model.view_agreement_[2, :2].max() < 0.1 < model.view_agreement_[0, 1]
    alone = AgreementGraph(4, random_state=0).fit({"rna": tables["rna"], kind: useless(kind)})
    assert clustering_accuracy(groups, alone.labels_) > 0.95  # no two views agree: what a partition explains decides


def test_samples_that_only_have_a_useless_view_do_not_spoil_the_others():
    tables, groups = omics()
    observed = make_observed(400, 2, 0.5, random_state=0)
    model = AgreementGraph(4, random_state=0).fit([tables["rna"], useless("category")], observed=observed)
    assert clustering_accuracy(groups[observed[:, 0]], model.labels_[observed[:, 0]]) > 0.95


def test_probabilities_are_shares_of_links(model, views):
    np.testing.assert_allclose(model.probabilities_.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_array_equal(model.probabilities_.argmax(axis=1), model.labels_)
    tables = model._scaling.transform(views)
    links = links_to(model._graphs, views.observed, tables, views.observed, model.view_trust_).toarray()
    np.testing.assert_allclose(links @ np.eye(3)[model._clusters], model.probabilities_, atol=1e-6)
    np.testing.assert_allclose(links @ model._embedding, model.latent_, atol=1e-6)
    np.testing.assert_array_equal(model.view_weights_ > 0, views.observed)
    np.testing.assert_allclose(model.view_weights_.sum(axis=1), 1, atol=1e-6)


def test_every_sample_is_placed_by_itself(model, views):
    singly = np.concatenate([model.predict_proba(views.take([i])) for i in range(0, 240, 9)])
    np.testing.assert_array_equal(singly, model.probabilities_[::9])
    pd.testing.assert_frame_equal(model.assignments(views), model.assignments())


def test_samples_are_placed_in_blocks(model, views, monkeypatch):
    monkeypatch.setattr("acova.estimators.agreement_graph._BLOCK", 50)
    np.testing.assert_array_equal(model.predict_proba(views), model.probabilities_)


def test_new_samples_need_one_view():
    whole, labels = make_toy(missing=0.0)
    model = AgreementGraph(3, random_state=0).fit(whole.take(slice(0, 160)))
    for name, array in zip(whole.names, whole.arrays, strict=True):
        assert clustering_accuracy(labels[160:], model.predict({name: array[160:]})) > 0.95


def test_a_far_away_sample_has_a_label(model):
    shares = model.predict_proba({"text": np.full((1, 12), 1e6)})
    assert shares.sum() == pytest.approx(1)


def test_weights_may_be_given(views):
    by_name = AgreementGraph(3, view_weights={"text": 2, "image": 4, "sound": 0}, random_state=0).fit(views)
    np.testing.assert_array_equal(by_name.view_trust_, [1, 0.5, 0])
    for weights in ([4, 2, 0], np.array([2.0, 1.0, 0.0])):
        other = AgreementGraph(3, view_weights=weights, random_state=0).fit(views)
        pd.testing.assert_frame_equal(other.assignments(), by_name.assignments())
    equal = AgreementGraph(3, view_weights="equal", random_state=0).fit(views)
    np.testing.assert_array_equal(equal.view_trust_, 1)
    np.testing.assert_array_equal(
        AgreementGraph(3, view_weights=(3, 3, 3), random_state=0).fit_predict(views), equal.labels_
    )


def test_a_view_of_weight_0_does_not_count():
    tables, _ = omics(n_samples=150)
    alone = AgreementGraph(4, random_state=0).fit_predict({"rna": tables["rna"]})
    weighed = AgreementGraph(4, view_weights=[1, 0], random_state=0).fit_predict(tables)
    np.testing.assert_array_equal(weighed, alone)


def test_the_number_of_neighbours_may_be_given(views):
    model = AgreementGraph(3, n_neighbors=4, random_state=0).fit(views)
    assert [graph.n_neighbors for graph in model._graphs] == [4, 4, 4]
    many = AgreementGraph(3, n_neighbors=1000, random_state=0).fit(views)
    assert [graph.n_neighbors for graph in many._graphs] == list(views.observed.sum(axis=0) - 1)
    np.testing.assert_array_equal(many.predict(views), many.labels_)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an integer at least 1; got 0"),
        ({"n_neighbors": "many"}, "n_neighbors must be 'auto' or an integer at least 1; got 'many'"),
        ({"n_init": 0}, "n_init must be an integer at least 1; got 0"),
        ({"view_weights": "agrement"}, "view_weights must be 'agreement', 'equal' or a number .*; got 'agrement'"),
        ({"view_weights": None}, r"view_weights must be one number per view \(3\), or one of .*; got None"),
        ({"view_weights": 2.0}, r"view_weights must be one number per view \(3\), or one of .*; got 2.0"),
        ({"view_weights": [1, 2]}, r"view_weights must be one number per view \(3\), or one of .*; got \[1, 2\]"),
        ({"view_weights": {"image": 1}}, "view_weights must name every view once"),
        ({"view_weights": [1, -1, 0]}, "view_weights of 'text' must be a number at least 0; got -1"),
        ({"view_weights": [0, 0, 0]}, "view_weights must be above 0 for at least one view"),
        ({"verbose": "yes"}, "verbose must be True or False"),
    ],
)
def test_what_settings_may_be_is_said(views, settings, text):
    with pytest.raises(OptionError, match=f"AgreementGraph: {text}"):
        AgreementGraph(3, **settings).fit(views)


def test_duplicated_samples_share_their_cluster(views):
    twice = views.take(np.repeat(np.arange(240), 2))
    model = AgreementGraph(3, random_state=0).fit(twice)
    np.testing.assert_array_equal(model.labels_[::2], model.labels_[1::2])
    np.testing.assert_array_equal(model.predict(twice), model.labels_)


def test_categories_alone_are_clustered():
    """Hundreds of equal rows: neighbours are among them, and prediction follows the same rule."""
    levels = np.random.default_rng(0).integers(3, size=200)
    observed = make_observed(200, 2, 0.5, random_state=0)
    both = Views.of([np.eye(3)[levels], np.eye(3)[levels[::-1]][::-1]], observed)
    model = AgreementGraph(3, random_state=0).fit(both)
    assert clustering_accuracy(levels, model.labels_) == 1
    np.testing.assert_array_equal(model.predict(both), model.labels_)
    np.testing.assert_array_equal(model.predict(both.take([150, 3])), model.labels_[[150, 3]])


def test_fewer_different_samples_than_clusters_are_a_warning():
    with pytest.warns(ConvergenceWarning) as caught:
        model = AgreementGraph(4, random_state=0).fit(np.zeros((30, 2)))
    assert [str(one.message) for one in caught] == [f"AgreementGraph: {text}" for text in model.warnings_]
    assert any("clusters are empty" in text for text in model.warnings_)


def test_the_smallest_data_are_clustered():
    assert AgreementGraph(1, random_state=0).fit([[[1.0]]]).labels_.tolist() == [0]
    model = AgreementGraph(2, random_state=0).fit([np.array([[0.0], [1.0]]), np.array([[np.nan], [1.0]])])
    assert sorted(model.labels_) == [0, 1]


def test_latent_vectors_keep_the_names_of_samples(views):
    model = AgreementGraph(3, random_state=0).set_output(transform="pandas")
    named = Views.of([pd.DataFrame(array, index=[f"s{i:03d}" for i in range(240)]) for array in views.arrays])
    table = model.fit_transform(named)
    assert list(table.index[:2]) == ["s000", "s001"]
    np.testing.assert_array_equal(table, model.transform(named))


def test_what_a_run_folder_holds_is_checked(model, tmp_path):
    def crafted(name, change):
        folder = tmp_path / name.replace(".", "_")
        packed = model._packed
        tensors, told = packed()
        model._packed = lambda: ({**tensors, name: change(tensors[name])}, told)
        try:
            save_model(model, folder, overwrite=True)
        finally:
            del model._packed
        return folder

    crafts = {
        "clusters": (lambda clusters: clusters + 1, "'clusters' names other clusters than 0 to 2"),
        "embedding": (lambda places: places[:2], r"'embedding' has the shape \(2, 13\)"),
        "rows.1": (lambda rows: rows[1:], r"'rows.1' has the shape"),
        "spreads.0": (lambda spreads: spreads[:, None], r"'spreads.0' has the shape"),
        "observed": (lambda seen: ~seen, r"'rows.0' has the shape"),
    }
    for name, (change, text) in crafts.items():
        with pytest.raises(RunFolderError, match=text):
            AgreementGraph.load(crafted(name, change))


def test_a_run_folder_holds_the_trust_and_the_scaled_rows(model, views, tmp_path):
    model.save(tmp_path / "run")
    loaded = AgreementGraph.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.view_trust_, model.view_trust_)
    np.testing.assert_array_equal(loaded.view_agreement_, model.view_agreement_)
    np.testing.assert_array_equal(loaded.latent_, model.latent_)
    np.testing.assert_array_equal(loaded.transform(views), model.transform(views))
    tensors = load_file(tmp_path / "run" / "model.safetensors")
    assert tensors["rows.0"].dtype == torch.float32
    assert len(tensors["rows.0"]) == views.observed[:, 0].sum()
    assert json.loads((tmp_path / "run" / "config.json").read_text())["estimator"] == "AgreementGraph"


def test_the_report_shows_the_map_and_the_weights(model, tmp_path):
    page = model.report(tmp_path / "page.html", method="PCA").read_text()
    assert "AgreementGraph" in page
    assert "k-means took" in page
    assert '"confidence"' in page
    assert '"x"' in page
