import sys
import tomllib
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.impute import KNNImputer

from acova.bench import BenchSpec
from acova.bench.sources import load_data
from acova.metrics import clustering_accuracy
from conftest import make_toy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    """Import a module of the folder by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    before = set(sys.modules)
    yield import_module
    for name in {"peers", "targets"} & (set(sys.modules) - before):
        sys.modules.pop(name)


@pytest.mark.parametrize("name", ["narrow", "public", "real", "stress", "stress_kept", "unseen"])
def test_suites_are_read(name):
    spec = BenchSpec.from_toml(BENCHMARKS / f"{name}.toml")
    assert BenchSpec.from_dict({**_content(spec), "name": name}, spec.folder).fits()[0].key == spec.fits()[0].key


def _content(spec):
    return tomllib.loads(spec.to_toml())


@pytest.mark.parametrize("name", ["stress", "stress_kept"])
def test_a_disturbance_leaves_the_other_views_as_they_are(name):
    spec = BenchSpec.from_toml(BENCHMARKS / f"{name}.toml")
    first = load_data(spec.data[0], spec.folder, run=1)
    beside = [data for data in spec.data if "beside" in data.options]
    assert len(beside) == 9
    for data in beside:
        made = load_data(data, spec.folder, run=1)
        np.testing.assert_array_equal(made.labels, first.labels)
        for ours, theirs in zip(made.views.arrays, first.views.arrays, strict=False):
            np.testing.assert_array_equal(ours, theirs)
        assert [made.useful[one] for one in ("rna", "protein")] == [True, True]
        added = [useful for one, useful in made.useful.items() if one not in ("rna", "protein")]
        assert any(added) == (data.name == "copies of a view")
    assert not np.array_equal(load_data(spec.data[0], spec.folder, run=2).labels, first.labels)


def test_the_stress_suite_has_the_shapes_that_its_names_say():
    spec = BenchSpec.from_toml(BENCHMARKS / "stress.toml")
    made = {data.name: load_data(data, spec.folder) for data in spec.data}
    assert np.bincount(made["clusters 1 : 20"].labels).tolist() == [222, 111, 56, 11]
    assert np.bincount(made["50 clusters of 10"].labels).tolist() == [10] * 50
    assert len(made["60 samples"].labels) == 60
    assert made["wide beside narrow"].views.sizes == (5000, 2)
    assert made["one complete view"].views.sizes == (300,)
    assert made["outliers, 5 %"].outliers.sum() == 20
    assert made["random category of 8 levels"].views.sizes == (300, 40, 8)
    assert made["errors with correlation 0.9"].error_correlation[0, 1] == 0.9


def test_the_real_suite_has_23_data_sets_and_one_rule_of_scaling():
    spec = BenchSpec.from_toml(BENCHMARKS / "real.toml")
    assert len(spec.data) == 23
    assert len(spec.fits()) == 23 * len(spec.methods) * 3
    assert {fit.missing for fit in spec.fits() if fit.data.name in ("tcga_acc", "3sources416")} == {0}
    foreign = [method for method in spec.methods if ":" in method.use]
    assert {method.scale for method in foreign} == {"auto"}
    assert {m.settings["standardize"] for m in spec.methods if m.name in ("KNNImpute", "Concat")} == {"auto"}


@pytest.mark.filterwarnings("ignore:Graph is not fully connected")
def test_peers_cluster_the_table_of_scikit_learns_imputer(script):
    peers = script("peers")
    views, labels = make_toy(n_samples=90)
    arrays = list(views.arrays)
    table = KNNImputer(n_neighbors=5).fit_transform(np.hstack(arrays))
    np.testing.assert_allclose(peers.imputed_table(arrays), table, atol=1e-10)
    found = peers.KNNSpectral(3, random_state=0).fit_predict(arrays)
    known = SpectralClustering(3, affinity="nearest_neighbors", n_neighbors=10, random_state=0).fit_predict(table)
    assert clustering_accuracy(known, found) == 1
    assert clustering_accuracy(labels, found) > 0.9


@pytest.mark.filterwarnings("ignore")
def test_umap_and_k_means_find_separated_clusters(script):
    pytest.importorskip("umap")
    peers = script("peers")
    views, labels = make_toy(n_samples=90, missing=0.2)
    assert clustering_accuracy(labels, peers.KNNUMAP(3, random_state=0).fit_predict(list(views.arrays))) > 0.9


def test_targets_compare_with_the_best_peer_and_the_undisturbed_data(script):
    rows = pd.MultiIndex.from_product([["plain", "noise", "lost"], [0.0, 50.0]])
    ours = [0.9, 0.8, 0.85, 0.5, np.nan, 0.4]
    means = pd.DataFrame({"a": [0.7, 0.9, np.nan, 0.1, 0.5, np.nan], "b": 0.6, "ours": ours}, index=rows)
    found = script("targets").distances(means, "ours", ["a", "b"], "plain")
    assert found["peer"].tolist() == ["a", "a", "b", "b", "b"]
    np.testing.assert_allclose(found["ahead of it"], [20, -10, 25, -10, -20])
    np.testing.assert_allclose(found["ahead of undisturbed"], [0, 0, -5, -30, -40])
