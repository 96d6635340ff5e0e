"""The number of clusters: made data of known number, data without clusters, and what is said of the choice."""

import numpy as np
import pytest
from sklearn.metrics import silhouette_score

from acova import ACOVA, Training, Views, select_n_clusters
from acova.base import DataError, OptionError, Streams
from acova.clustering.number import _Scan, cluster_numbers
from acova.clustering.reference import GaussianReference
from acova.data import StoredViews, make_observed, make_views

QUICK = {"hidden": (8,), "epochs": 1, "n_init": 1, "training": Training(pretrain_epochs=1, warmup_epochs=1)}


def clusters(count, seed=0):
    sizes = {"n_features": 12, "separation": 1.5}
    made = make_views(40 * count, count, {"rna": sizes, "protein": sizes}, random_state=seed)
    return made.views.hide(make_observed(40 * count, 2, 0.5, random_state=seed)), made.labels


@pytest.fixture(scope="module")
def three():
    views, _ = clusters(3)
    return views, select_n_clusters(views, range(2, 7), random_state=0)


def test_well_separated_clusters_are_counted(three):
    _, found = three
    assert found.n_clusters == 3
    assert found.reason.startswith("3 clusters: ")
    assert found.table["gain"].idxmax() == 3
    assert found.table.loc[3, "stability"] > 0.9
    assert found.p_value == pytest.approx(1 / 21)


def test_one_gaussian_has_no_clusters():
    rng = np.random.default_rng(3)
    latent = rng.normal(size=(150, 2))
    views = [latent @ rng.normal(size=(2, width)) + rng.normal(size=(150, width)) for width in (6, 4)]
    found = select_n_clusters(Views.of(views, make_observed(150, 2, 0.5, random_state=0)), range(2, 6), random_state=0)
    assert found.n_clusters == 1
    assert found.reason.startswith("No clusters: ")


def test_the_choice_follows_the_names_and_not_the_order(three):
    views, found = three
    order = np.random.default_rng(0).permutation(len(views))
    assert select_n_clusters(views.take(order), range(2, 7), random_state=0) == found


def test_what_hidden_rows_hold_does_not_matter():
    rng = np.random.default_rng(0)
    observed = make_observed(60, 2, 0.5, random_state=0)
    tables = [rng.normal(size=(60, 3)), rng.normal(size=(60, 4))]
    other = [np.where(seen[:, None], table, 1e6) for table, seen in zip(tables, observed.T, strict=True)]
    first, second = (cluster_numbers(given, observed, [2, 3], Streams(0), 19) for given in (tables, other))
    assert first == second


def test_the_reference_has_the_covariance_of_the_views():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 7))
    joint = rng.normal(size=(4000, 5)) @ mixing + 0.3 * rng.normal(size=(4000, 7)) + 2
    observed = make_observed(4000, 2, 0.5, random_state=0)
    reference = GaussianReference.of([joint[:, :4], joint[:, 4:]], observed)
    drawn = np.hstack(reference.draw(np.random.default_rng(1)))[observed.all(axis=1)]
    expected = mixing.T @ mixing + 0.09 * np.eye(7)
    assert drawn.mean(axis=0) == pytest.approx(2, abs=0.3)
    assert np.abs(np.cov(drawn.T) - expected).max() < 0.12 * expected.max()


def test_the_reference_hides_what_the_views_hide():
    observed = make_observed(50, 2, 0.8, random_state=0)
    rng = np.random.default_rng(0)
    drawn = GaussianReference.of([rng.normal(size=(50, 3)), rng.normal(size=(50, 2))], observed).draw(rng)
    assert all((table[~seen] == 0).all() for table, seen in zip(drawn, observed.T, strict=True))


def test_silhouettes_are_those_of_the_walk_on_two_cliques():
    import scipy.sparse as sp

    graph = sp.block_diag([np.ones((6, 6)) - np.eye(6)] * 2, format="csr")
    scan = _Scan.of(graph, [2, 3], Streams(0))
    assert sorted(map(set, ([0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11])), key=min) == sorted(
        (set(np.flatnonzero(scan.labels[0] == k)) for k in (0, 1)), key=min
    )
    assert scan.silhouette[0] == pytest.approx(1, abs=1e-6)
    # Eigenvalues of a clique of n without loops: 1, then -1/(n - 1); a thousandth of the links is spread over all.
    assert scan.eigengap[0] == pytest.approx(1 / 1.001 + 1 / (5 * 1.001), abs=1e-6)


def test_the_table_has_the_silhouette_of_scikit_learn(three):
    views, found = three
    from acova.clustering.number import _graph
    from acova.clustering.spectral import rows_of_length_one, walk_eigenvectors
    from acova.data import Scaling
    from acova.training.extremes import scaled

    tables = scaled(views, Scaling.fit(views, ("auto",) * 2))
    values, vectors = walk_eigenvectors(_graph([t.astype(float) for t in tables], views.observed), 7)
    points = rows_of_length_one(vectors[:, ::-1][:, :3] * values[::-1][:3])
    _, labels = clusters(3)
    assert found.table.loc[3, "silhouette"] == pytest.approx(silhouette_score(points, labels), abs=0.05)


def test_auto_takes_the_number_and_keeps_it(three, tmp_path):
    views, _ = three
    model = ACOVA("auto", random_state=0, **QUICK).fit(views)
    assert model.n_clusters == "auto"
    assert model.n_clusters_ == model.settings_["n_clusters"] == model.probabilities_.shape[1] == 3
    assert model.cluster_numbers_ == select_n_clusters(views, random_state=0)
    model.save(tmp_path / "run")
    again = ACOVA.load(tmp_path / "run")
    assert (again.n_clusters, again.n_clusters_, again.cluster_numbers_) == ("auto", 3, model.cluster_numbers_)
    assert (again.predict(views) == model.predict(views)).all()
    assert "3 clusters of 120" in model.report(tmp_path / "page.html").read_text()
    model.set_params(n_clusters=2).fit(views)
    assert (model.n_clusters_, model.cluster_numbers_) == (2, None)


def test_auto_without_structure_fits_one_cluster_and_says_so():
    rng = np.random.default_rng(0)
    model = ACOVA("auto", random_state=0, **QUICK).fit([rng.normal(size=(60, 4)), rng.normal(size=(60, 3))])
    assert model.n_clusters_ == 1
    assert any(text.startswith("No clusters: ") for text in model.warnings_)


@pytest.mark.parametrize(
    ("candidates", "error", "text"),
    [
        ([], OptionError, r"select_n_clusters: candidates must be a sequence of at least one integer; got \[\]"),
        (3, OptionError, "candidates must be a sequence of at least one integer; got 3"),
        ([1, 2], OptionError, "candidates must be an integer at least 2; got 1"),
        ([2, 30], DataError, "with n_samples=60, candidates must be at most 20, a third of the samples; got 30"),
    ],
)
def test_candidates_are_checked(candidates, error, text):
    with pytest.raises(error, match=text):
        select_n_clusters([np.random.default_rng(0).normal(size=(60, 2))], candidates)


def test_other_settings_are_checked():
    table = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(OptionError, match="n_references must be an integer at least 19; got 5"):
        select_n_clusters([table], n_references=5)
    with pytest.raises(DataError, match="view 'b' is observed for no sample"):
        select_n_clusters({"a": table, "b": np.full((60, 2), np.nan)})
    with pytest.raises(OptionError, match="n_clusters must be 'auto' or an integer at least 1; got 'many'"):
        ACOVA("many").fit([table])
    with pytest.raises(DataError, match="candidates must be at most 1"):
        ACOVA("auto").fit([table[:5]])


def test_views_on_disk_give_the_same(three, tmp_path):
    views, found = three
    for name, array in zip(views.names, views.arrays, strict=True):
        np.save(tmp_path / f"{name}.npy", np.nan_to_num(array))
    columns = np.argsort(views.names)  # files are read in the order of their names
    np.save(tmp_path / "observed.npy", np.ascontiguousarray(views.observed[:, columns]))
    stored = select_n_clusters(StoredViews.of(tmp_path), range(2, 7), random_state=0)
    assert stored.n_clusters == found.n_clusters
    np.testing.assert_allclose(stored.silhouette, found.silhouette, atol=1e-6)
