"""Sparse views: the same as dense ones, row by row, joined by name, and never dense as a whole."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from acova import ACOVA, Concat
from acova.base import DataError
from acova.data import StoredViews, Views
from acova.data.census import Census
from acova.data.features import features_of
from acova.data.scaling import Scaling, scaled_moments
from acova.data.sparse import SparseTable
from acova.data.summary import Summary

anndata = pytest.importorskip("anndata")
mudata = pytest.importorskip("mudata")

RNG = np.random.default_rng(0)
N = 300
GROUP = RNG.integers(3, size=N)
COUNTS = (RNG.poisson(0.15 + 0.8 * (GROUP[:, None] == np.arange(40) % 3)) * (RNG.random((N, 40)) < 0.5)).astype(float)
COUNTS[7] = 0  # a row without a filled cell is data
BESIDE = RNG.normal(size=(N, 5)) + GROUP[:, None]
NAMES = [f"cell{i:03d}" for i in range(N)]
FORMATS = {
    "csr": sparse.csr_matrix,
    "csc": sparse.csc_matrix,
    "coo": sparse.coo_matrix,
    "csr_array": sparse.csr_array,
    "coo_array": sparse.coo_array,
    "dok": sparse.dok_matrix,
    "lil": sparse.lil_array,
}
SMALL = {"hidden": (16,), "latent_dim": 3, "pretrain_epochs": 1, "warmup_epochs": 2, "epochs": 2, "batch_size": 64}


@pytest.fixture
def windows(monkeypatch):
    """Views that are read by windows, however small they are."""
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)


def cells(entry, names=NAMES, prefix="g"):
    """Return an AnnData with names of cells and features."""
    genes = pd.DataFrame(index=[f"{prefix}{i}" for i in range(entry.shape[1])])
    return anndata.AnnData(entry, obs=pd.DataFrame(index=list(names)), var=genes)


# Rows


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_any_format_are_those_of_the_dense_matrix(form):
    views = StoredViews.of({"counts": FORMATS[form](COUNTS), "beside": BESIDE})
    for start, stop in ((0, N), (5, 9), (N - 1, N), (4, 4)):
        block = views.read(start, stop)
        np.testing.assert_array_equal(block.arrays[0], COUNTS[start:stop])
        np.testing.assert_array_equal(block.arrays[1], BESIDE[start:stop])
    assert views.read(0, N).observed.all()
    assert views.nbytes == 4 * COUNTS.size + 4 * BESIDE.size


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("wrap", [lambda one: [one], lambda one: {"a": one}])
def test_views_make_sparse_matrices_dense(form, wrap):
    np.testing.assert_array_equal(Views.of(wrap(FORMATS[form](COUNTS))).arrays[0], COUNTS)


def test_cells_that_are_given_twice_are_added_up():
    twice = sparse.coo_matrix(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    np.testing.assert_array_equal(StoredViews.of([twice]).read(0, 2).arrays[0], [[0, 3, 0], [4, 0, 0]])


def test_a_matrix_in_csr_form_is_not_copied():
    matrix = sparse.csr_matrix(COUNTS)
    assert np.shares_memory(SparseTable("a", matrix).matrix.data, matrix.data)


def test_a_mask_hides_views_and_an_empty_row_does_not():
    observed = RNG.random((N, 2)) < 0.6
    observed[~observed.any(axis=1), 1] = True
    views = StoredViews.of({"counts": sparse.csr_matrix(COUNTS), "beside": BESIDE}, observed).read(0, N)
    np.testing.assert_array_equal(views.observed, observed)
    np.testing.assert_array_equal(views.rows(0), COUNTS[observed[:, 0]])


def test_whole_numbers_and_booleans_are_numbers():
    for dtype in (np.int64, np.uint8, bool):
        whole = COUNTS.astype(dtype)
        block = StoredViews.of([sparse.csr_matrix(whole)]).read(0, N)
        expected = Views.of([whole])
        assert block.arrays[0].dtype == expected.arrays[0].dtype
        np.testing.assert_array_equal(block.arrays[0], expected.arrays[0])


@pytest.mark.parametrize(
    ("part", "error"),
    [
        (
            sparse.csr_matrix(COUNTS.astype(complex)),
            r"View 'a' holds values that are no real numbers \(dtype complex128",
        ),
        (sparse.csr_matrix((N, 0)), r"View 'a' must be a 2-D matrix with at least one column; got shape \(300, 0\)"),
        (sparse.csr_matrix(COUNTS[:-1]), "has 299 rows|has 300 rows but view 'a' has 299"),
    ],
)
def test_matrices_that_cannot_be_views_are_refused(part, error):
    with pytest.raises(DataError, match=error):
        StoredViews.of({"a": part, "b": BESIDE})


def test_indices_that_lead_out_of_a_matrix_are_refused():
    matrix = sparse.csr_matrix(COUNTS)
    matrix.indices[5] = 99
    with pytest.raises(DataError, match=r"View 'a': not a readable sparse matrix \(.*indices must be < 40"):
        StoredViews.of({"a": matrix})
    with pytest.raises(DataError, match="not a readable sparse matrix"):
        Views.of({"a": matrix})


def test_infinite_cells_are_named():
    matrix = sparse.csr_matrix(COUNTS)
    matrix.data[0] = np.inf
    with pytest.raises(DataError, match="View 'a' has infinity in sample 0, column"):
        StoredViews.of({"a": matrix}).read(0, N)


# Names


def test_samples_of_sparse_tables_are_joined_by_name():
    first, second = RNG.permutation(N)[:200], RNG.permutation(N)[:150]
    data = {
        "rna": cells(sparse.csr_matrix(COUNTS[first]), np.array(NAMES)[first]),
        "adt": cells(sparse.csc_matrix(COUNTS[second, :6]), np.array(NAMES)[second], "p"),
        "site": pd.DataFrame(BESIDE, NAMES),
    }
    stored = StoredViews.of(data)
    dense = Views.of({name: one if name == "site" else one.to_df() for name, one in data.items()})
    assert stored.index.equals(dense.index)
    assert (stored.names, stored.sizes, stored.columns) == (dense.names, dense.sizes, dense.columns)
    for start, stop in ((0, N), (190, 230)):
        block, expected = stored.read(start, stop), dense.read(start, stop)
        np.testing.assert_array_equal(block.observed, expected.observed)
        assert block.index.equals(expected.index)
        for ours, theirs in zip(block.arrays, expected.arrays, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_a_mask_by_name_follows_the_names():
    data = cells(sparse.csr_matrix(COUNTS))
    data.obsm["site"] = BESIDE
    mask = pd.DataFrame({"X": RNG.random(N) < 0.5, "site": True}, NAMES)
    stored = StoredViews.of(data, mask.sample(frac=1, random_state=0))
    np.testing.assert_array_equal(stored.read(0, N).observed, mask.to_numpy())


def test_types_of_features_and_layers_of_an_anndata():
    data = cells(sparse.csr_matrix(COUNTS))
    data.layers["counts"] = sparse.csr_matrix(2 * COUNTS)
    data.var["feature_types"] = ["Gene Expression"] * 30 + ["Antibody Capture"] * 10
    stored = StoredViews.of(data, layer="counts")
    assert (stored.names, stored.sizes) == (("Gene Expression", "Antibody Capture"), (30, 10))
    np.testing.assert_array_equal(stored.read(0, N).arrays[1], 2 * COUNTS[:, 30:])
    np.testing.assert_array_equal(Views.of(data, layer="counts").arrays[0], 2 * COUNTS[:, :30])
    with pytest.raises(DataError, match=r"AnnData: layer must be one of its layers, 'counts'; got 'count'\. Did you"):
        Views.of(data, layer="count")
    with pytest.raises(DataError, match="layer is for MuData and AnnData, whose layers have names; got list"):
        Views.of([COUNTS], layer="counts")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")
def test_layers_of_a_mudata_are_read_where_there_are_some():
    rna, adt = cells(sparse.csr_matrix(COUNTS)), cells(sparse.csr_matrix(COUNTS[:, :6]), prefix="p")
    rna.layers["counts"] = sparse.csr_matrix(COUNTS + 1)
    views = StoredViews.of(mudata.MuData({"rna": rna, "adt": adt}), layer="counts").read(0, N)
    np.testing.assert_array_equal(views.arrays[0], COUNTS + 1)
    np.testing.assert_array_equal(views.arrays[1], COUNTS[:, :6])


@pytest.mark.parametrize(
    ("beside", "error"),
    [
        (sparse.csr_matrix(COUNTS), "View 'b' has no names of samples but view 'a' has"),
        (BESIDE, "View 'b' has no names of samples but view 'a' has"),
        (pd.DataFrame({"sex": ["f", "m", "f"] * 100}, NAMES), "View 'b': column 'sex' holds categories, and beside"),
        (pd.DataFrame(BESIDE, NAMES[:-1] + NAMES[:1]), "View 'b' has the index label 'cell000' more than once"),
        (pd.DataFrame(BESIDE, range(N)), r"View 'b' names its samples by numbers .* but view 'a' by text"),
    ],
)
def test_tables_that_do_not_go_together_are_refused(beside, error):
    with pytest.raises(DataError, match=error):
        StoredViews.of({"a": cells(sparse.csr_matrix(COUNTS)), "b": beside})


# What is learned


@pytest.mark.parametrize("kind", ["zscore", "range", "cosine", "auto", "unit", "unit_view"])
def test_scaling_and_statistics_are_those_of_the_dense_matrix(kind, monkeypatch):
    monkeypatch.setattr("acova.data.stored.BLOCK_BYTES", 4 * 45 * 64)  # 64 rows at a time
    observed = np.column_stack([RNG.random(N) < 0.7, np.ones(N, dtype=bool)])
    parts = {"counts": COUNTS, "beside": BESIDE}
    dense = Views.of(parts, observed)
    stored = StoredViews.of({**parts, "counts": sparse.csc_matrix(COUNTS)}, observed)
    assert stored.block_rows == 64
    ours, theirs = Scaling.fit(stored, (kind,) * 2), Scaling.fit(dense, (kind,) * 2)
    for name in ("centers", "scales"):
        for one, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    for one, other in zip(scaled_moments(stored, ours), scaled_moments(dense, theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(Census.of(stored).rows, observed.sum(axis=0))
    for one, other in zip(features_of(stored), features_of(dense), strict=True):
        np.testing.assert_array_equal(one.low, other.low)
        np.testing.assert_array_equal(one.high, other.high)
    ours, theirs = (Summary.of(views, GROUP, 3) for views in (stored, dense))
    np.testing.assert_array_equal(ours.rows, theirs.rows)
    np.testing.assert_allclose(ours.means[0], theirs.means[0], atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_small_sparse_fit_is_the_dense_fit():
    parts = {"counts": COUNTS, "beside": BESIDE}
    dense = ACOVA.from_settings(3, random_state=0, **SMALL).fit(parts)
    ours = ACOVA.from_settings(3, random_state=0, **SMALL).fit({**parts, "counts": sparse.csc_matrix(COUNTS)})
    np.testing.assert_array_equal(ours.probabilities_, dense.probabilities_)
    np.testing.assert_array_equal(ours.predict({"counts": sparse.coo_array(COUNTS)}), dense.predict({"counts": COUNTS}))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_sparse_fit_is_the_fit_from_disk(tmp_path, windows):
    """Both are read by windows; the cells are the same, so every number is."""
    np.save(tmp_path / "counts.npy", COUNTS)
    np.save(tmp_path / "beside.npy", BESIDE)
    paths = {name: tmp_path / f"{name}.npy" for name in ("counts", "beside")}
    disk = ACOVA.from_settings(3, random_state=0, **SMALL).fit(paths)
    ours = ACOVA.from_settings(3, random_state=0, **SMALL).fit({"counts": sparse.csr_array(COUNTS), "beside": BESIDE})
    np.testing.assert_allclose(ours.probabilities_, disk.probabilities_, atol=1e-6)
    np.testing.assert_allclose(ours.objectives_, disk.objectives_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_large_anndata_is_fitted_saved_and_annotated(tmp_path, windows):
    data = cells(sparse.csr_matrix(COUNTS + 0))
    data.layers["counts"] = sparse.csr_matrix(COUNTS)
    data.obsm["site"] = BESIDE
    views = StoredViews.of(data, layer="counts")
    model = ACOVA.from_settings(3, random_state=0, **SMALL).fit(views)
    assert model.index_.tolist() == NAMES
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    pd.testing.assert_frame_equal(loaded.assignments(), model.assignments())
    loaded.annotate(data, layer="counts")
    np.testing.assert_array_equal(data.obs["acova_label"].astype(int), model.labels_)


def test_methods_that_need_everything_say_why(windows):
    with pytest.raises(DataError, match=r"in memory, but these views stay sparse .*StoredViews\.read\(0, 300\)"):
        Concat(3).fit([sparse.csr_matrix(COUNTS), BESIDE])


def test_memory_is_that_of_a_block():
    """A matrix that no machine holds dense is read row by row."""
    wide = sparse.random_array((50, 30_000_000), density=1e-8, format="csr", rng=np.random.default_rng(0))
    tall = sparse.csr_array((5_000_000, 100_000))
    assert StoredViews.of([wide]).block_rows == 1
    views = StoredViews.of({"tall": tall})
    assert views.nbytes == 4 * 5_000_000 * 100_000
    assert views.read(4_000_000, 4_000_010).arrays[0].shape == (10, 100_000)
    with pytest.raises(DataError, match=r"View 'tall': its content would take .* GiB of memory"):
        Views.of({"tall": tall})
