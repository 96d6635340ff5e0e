"""Views that no other supports do not decide where others agree."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from acova import ACOVA, Views
from acova.base import OptionError, TrainingError
from acova.clustering.agreement import agreement_weights, view_agreement
from acova.clustering.spectral import graph_clusters
from acova.data import Scaling
from acova.estimators._resolution import resolved_settings
from acova.metrics import clustering_accuracy
from acova.training.costs import reconstruction_weights
from acova.training.sizes import auto_runs
from acova.training.view_weights import shared_graph, smoothed_views, trusted_views
from conftest import SMALL, make_toy

FEW = SMALL | {"hidden": (64, 64), "pretrain_epochs": 30, "warmup_epochs": 30, "epochs": 30, "learning_rate": 1e-3}


def useful_views(seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Two views that tell four groups apart in a part of their columns."""
    rng = np.random.default_rng(seed)
    labels = np.arange(240) % 4
    arrays = {}
    for name, width, informative in (("rna", 90, 30), ("protein", 20, 8)):
        centers = np.zeros((4, width))
        centers[:, :informative] = rng.normal(size=(4, informative))
        arrays[name] = centers[labels] + rng.normal(size=(240, width))
    return arrays, labels


def useless(kind: str) -> np.ndarray:
    rng = np.random.default_rng(1)
    if kind == "category":
        return np.eye(4)[rng.integers(0, 4, 240)]
    other = rng.integers(0, 4, 240)
    return 3 * rng.normal(size=(4, 20))[other] + rng.normal(size=(240, 20))


@pytest.mark.parametrize("kind", ["category", "another partition"])
def test_a_view_that_no_other_supports_does_not_decide(kind):
    arrays, labels = useful_views()
    model = ACOVA.from_settings(4, **FEW).fit({**arrays, "useless": useless(kind)})
    assert clustering_accuracy(labels, model.labels_) > 0.95
    assert model.view_trust_[2] < 0.15
    assert min(model.view_trust_[:2]) > 0.5
    equal = ACOVA.from_settings(4, **FEW, view_weights="equal", cluster_start="fused").fit(
        {**arrays, "useless": useless(kind)}
    )
    assert clustering_accuracy(labels, equal.labels_) < 0.7
    np.testing.assert_array_equal(equal.view_trust_, 1)


def test_trust_is_the_agreement_of_the_scaled_views():
    arrays, _ = useful_views()
    views = Views.of({**arrays, "useless": useless("category")})
    scaling = Scaling.fit(views, ("zscore",) * 3)
    tables = [table.astype(np.float64) for table in scaling.transform(views)]
    agreement, trust = trusted_views(resolved_settings(ACOVA(4, view_weights="agreement")), views, scaling)
    np.testing.assert_array_equal(agreement, view_agreement(tables, views.observed, 4))
    np.testing.assert_array_equal(trust, agreement_weights(agreement, tables, views.observed, 4))
    assert trust.max() == 1
    known, none = trusted_views(resolved_settings(ACOVA(4, view_weights="equal")), views, scaling)
    assert none is None
    np.testing.assert_array_equal(known, 1)


def test_where_no_views_agree_the_one_that_explains_more_features_is_trusted():
    arrays, labels = useful_views()
    model = ACOVA.from_settings(4, **FEW).fit({"rna": arrays["rna"], "useless": useless("category")})
    assert clustering_accuracy(labels, model.labels_) > 0.95
    assert model.view_trust_[0] == 1
    assert model.view_trust_[1] < 0.4


@pytest.mark.parametrize("given", [{"rna": 2, "protein": 1}, (2, 1), np.array([1.0, 0.5])])
def test_weights_of_ones_own_are_taken(given):
    arrays, _ = useful_views()
    model = ACOVA.from_settings(4, **SMALL, view_weights=given).fit(arrays)
    np.testing.assert_array_equal(model.view_trust_, [1, 0.5])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("agrement", "view_weights must be 'agreement', 'equal' or a number for each view; got 'agrement'"),
        ({"rna": 1}, "view_weights must name every view once"),
        ((1, 2, 3), r"view_weights must be one number per view \(2\)"),
        (3.0, r"view_weights must be one number per view \(2\)"),
        ((1, -1), "view_weights of 'protein' must be a number at least 0; got -1"),
        ((0, 0), "view_weights must be above 0 for at least one view"),
    ],
)
def test_weights_that_cannot_be_are_refused(given, words):
    with pytest.raises(OptionError, match=words):
        ACOVA.from_settings(4, **SMALL, view_weights=given).fit(useful_views()[0])


def test_trust_is_a_factor_of_the_views_reconstruction_that_leaves_the_sum():
    costs, trust = np.array([4.0, 10.0, 3.0]), np.array([1.0, 0.5, 0.0])
    arguments = (0.5, 1000.0, (4, 10, 3), ("gaussian",) * 3, costs)
    plain, weighed = np.array(reconstruction_weights(*arguments)), np.array(reconstruction_weights(*arguments, trust))
    assert weighed @ costs == pytest.approx(plain @ costs) == pytest.approx(1000)
    assert weighed[1] / weighed[0] == pytest.approx(0.5 * plain[1] / plain[0])
    assert 0 < weighed[2] < 1e-3 * weighed[0]
    alone = np.array(reconstruction_weights(False, False, (4, 10, 3), ("gaussian",) * 3, costs, trust))
    assert alone @ costs == pytest.approx(costs.sum())


def test_targets_are_smoothed_over_the_graph_and_hidden_cells_are_not_read():
    import torch

    views, labels = make_toy(n_samples=120, sizes=(8, 12), missing=0.5)
    arrays = [torch.from_numpy(np.nan_to_num(array)).float() for array in views.arrays]
    spoilt = [torch.from_numpy(np.where(np.isnan(array), 1e6, array)).float() for array in views.arrays]
    observed = torch.from_numpy(views.observed)
    scaling = Scaling.fit(views, ("zscore",) * 2)
    graph = shared_graph(views, scaling, np.ones(2), 3)
    smooth = smoothed_views(arrays, observed, graph)
    for one, other in zip(smooth, smoothed_views(spoilt, observed, graph), strict=True):
        assert torch.equal(one, other)
    groups = [rows.numpy()[labels == k] for rows in smooth for k in range(3)]
    within = [np.linalg.norm(group - group.mean(0), axis=1).mean() for group in groups]
    between = np.linalg.norm(smooth[0].numpy()[labels == 0].mean(0) - smooth[0].numpy()[labels == 1].mean(0))
    assert max(within) < 0.2 * between


def test_the_graph_follows_clusters_that_are_not_round():
    from sklearn.cluster import KMeans
    from sklearn.datasets import make_circles

    points, rings = make_circles(400, factor=0.4, noise=0.04, random_state=0)
    assert clustering_accuracy(rings, graph_clusters(points, 2, 0)) == 1
    assert clustering_accuracy(rings, KMeans(2, n_init=5, random_state=0).fit_predict(points)) < 0.7


def test_with_many_samples_some_are_linked_and_the_others_follow(monkeypatch):
    from sklearn.datasets import make_circles

    monkeypatch.setattr("acova.clustering.spectral.LINKED", 400)
    points, rings = make_circles(1200, factor=0.4, noise=0.04, random_state=0)
    labels = graph_clusters(points, 2, 0)
    assert clustering_accuracy(rings, labels) > 0.99
    assert np.bincount(labels)[0] >= np.bincount(labels)[1]


def test_nothing_set_is_a_consensus_whose_size_follows_the_samples():
    assert [auto_runs(count) for count in (100, 5_000, 5_001, 20_000, 20_001)] == [5, 5, 3, 3, 1]
    quick = {name: value for name, value in SMALL.items() if name not in ("n_init", "consensus")} | {"epochs": 1}
    model = ACOVA.from_settings(3, **quick).fit(make_toy(n_samples=60)[0])
    assert model.n_voters_ == len(model.objectives_) == 5
    assert "agreement" in model.assignments()
    assert ACOVA.from_settings(3, **quick, recipe="robust").fit(make_toy(n_samples=60)[0]).n_voters_ == 1
    assert ACOVA.from_settings(3, **quick, n_init=2).fit(make_toy(n_samples=60)[0]).n_voters_ == 2


def test_trust_is_saved_with_the_model(tmp_path):
    arrays, _ = useful_views()
    model = ACOVA.from_settings(4, **SMALL).fit({**arrays, "useless": useless("category")})
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.view_trust_, model.view_trust_)
    np.testing.assert_array_equal(loaded.view_agreement_, model.view_agreement_)


def test_eigenvectors_that_are_not_found_by_iteration_are_computed_whole(monkeypatch):
    from scipy.sparse.linalg import ArpackNoConvergence

    from acova.clustering import graphs, spectral

    points, _ = make_blobs(500, centers=4, random_state=0)
    links = graphs.ViewGraph.of(points, 20).links()
    graph = (links + links.T) / 2
    found = spectral.spectral_embedding(graph, 4)

    def fails(*arguments, **keywords):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((500, 0)))

    monkeypatch.setattr(spectral, "eigsh", fails)
    whole = spectral.spectral_embedding(graph, 4)
    np.testing.assert_allclose(whole @ whole.T, found @ found.T, atol=1e-6)  # the same up to a rotation
    monkeypatch.setattr(spectral, "LINKED", 400)
    with pytest.raises(TrainingError, match="500 samples is nearly cut into more parts than 14"):
        spectral.spectral_embedding(graph, 4)
