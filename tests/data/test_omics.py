import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from acova import ACOVA, Views
from acova.base import DataError
from acova.data import read_omics, read_views, write_omics
from acova.estimators import load_method, make_method
from conftest import SMALL

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what the packages say of their own future
    anndata = pytest.importorskip("anndata")
    mudata = pytest.importorskip("mudata")


def modality(array, samples, sparse=False):
    frame = pd.DataFrame(index=samples)
    genes = pd.DataFrame(index=[f"g{i}" for i in range(array.shape[1])])
    return anndata.AnnData(scipy.sparse.csr_matrix(array) if sparse else array, obs=frame, var=genes)


@pytest.fixture
def mdata(toy):
    views, labels = toy
    names = np.array([f"cell{i:03d}" for i in range(len(views))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mods = {
            name: modality(views.rows(v), names[views.observed[:, v]], sparse=v == 1)
            for v, name in enumerate(views.names)
        }
        data = mudata.MuData(mods)
        data.obs["labels"] = pd.Categorical.from_codes(labels, ["t", "b", "nk"])[np.searchsorted(names, data.obs_names)]
    return data


@pytest.fixture
def file(mdata, tmp_path):
    path = tmp_path / "toy.h5mu"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mdata.write(path)
    return path


def test_modalities_are_views_and_absent_cells_lack_them(toy, mdata, file):
    views, labels = toy
    for held in (Views.of(mdata), read_views(file).views):
        assert held.names == views.names
        assert held.columns[0] == tuple(f"g{i}" for i in range(8))
        order = [int(name.removeprefix("cell")) for name in held.index]
        np.testing.assert_array_equal(held.observed, views.observed[order])
        for v in range(3):
            np.testing.assert_allclose(held.rows(v), views.take(order).rows(v))
    names = [int(name.removeprefix("cell")) for name in read_views(file).views.index]
    codes = np.array([2, 0, 1])[labels[names]]  # sorted: b, nk, t
    np.testing.assert_array_equal(read_views(file).labels, codes)


def test_results_are_written_back(mdata, file, tmp_path):
    model = ACOVA.from_settings(3, **SMALL).fit(mdata)
    assert model.annotate(mdata) is None
    table = model.assignments().loc[mdata.obs_names]
    np.testing.assert_array_equal(mdata.obs["acova_label"].astype(int), table["label"])
    np.testing.assert_array_equal(mdata.obs["acova_confidence"], table["confidence"])
    np.testing.assert_allclose(mdata.obsm["acova_probabilities"].sum(axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(mdata.obsm["acova_view_weights"] != 0, Views.of(mdata).take(
        Views.of(mdata).index.get_indexer(mdata.obs_names)).observed)  # fmt: skip
    by_name = pd.DataFrame(model.transform(mdata), index=model.index_).loc[mdata.obs_names]
    np.testing.assert_array_equal(mdata.obsm["acova_latent"], by_name)
    np.testing.assert_array_equal(mdata.uns["acova"]["correlation"], model.correlation_)
    write_omics(mdata, tmp_path / "new.h5mu")
    again = read_omics(tmp_path / "new.h5mu")
    np.testing.assert_array_equal(again.obs["acova_label"], mdata.obs["acova_label"])
    np.testing.assert_array_equal(again.obsm["acova_latent"], mdata.obsm["acova_latent"])
    assert again.uns["acova"]["method"] == "ACOVA"
    assert list(tmp_path.glob(".*")) == []
    assert Views.of(again).names == Views.of(mdata).names  # what was written is no view


def test_the_command_line_from_file_to_file(file, tmp_path, monkeypatch):
    from acova.cli import main

    def acova(*arguments):
        monkeypatch.setattr("sys.argv", ["acova", *map(str, arguments)])
        main()

    with pytest.raises(SystemExit) as stop:
        acova("fit", file, "--method", "Concat", "--clusters", 3, "--out", tmp_path / "run", "--quiet")
    assert not stop.value.code
    with pytest.raises(SystemExit) as stop:
        acova("predict", tmp_path / "run", file, "--out", tmp_path / "done.h5mu")
    assert not stop.value.code
    table = load_method(tmp_path / "run").assignments()
    done = read_omics(tmp_path / "done.h5mu")
    np.testing.assert_array_equal(done.obs["acova_label"].astype(int), table["label"].loc[done.obs_names])
    assert "acova_confidence" not in done.obs  # k-means has none
    with pytest.raises(SystemExit):
        acova("predict", tmp_path / "run", file, "--out", tmp_path / "done.h5ad")
    assert not (tmp_path / "done.h5ad").exists()


def test_x_is_cut_by_the_types_of_features_and_obsm_adds_views(tmp_path):
    rng = np.random.default_rng(0)
    data = modality(rng.normal(size=(20, 5)), [f"c{i}" for i in range(20)])
    data.var["feature_types"] = ["Gene Expression"] * 3 + ["Antibody Capture"] * 2
    data.obsm["spatial"] = pd.DataFrame(rng.normal(size=(20, 2)), index=data.obs_names, columns=["x", "y"])
    data.obsm["X_pca"] = rng.normal(size=(20, 3))
    write_omics(data, tmp_path / "a.h5ad")
    for held in (Views.of(data), read_views(tmp_path / "a.h5ad").views):
        assert held.names == ("Gene Expression", "Antibody Capture", "spatial")
        np.testing.assert_allclose(np.hstack(held.arrays[:2]), data.X)
        assert held.columns[2] == ("x", "y")
    del data.var["feature_types"]
    model = make_method("Concat", n_clusters=2, random_state=0).fit(data)
    assert model.view_names_ == ["X", "spatial"]
    model.annotate(data, prefix="mine")
    np.testing.assert_array_equal(data.obs["mine_label"].astype(int), model.labels_)


def test_what_cannot_be_used_is_refused(mdata, file, tmp_path):
    model = make_method("Concat", n_clusters=3, random_state=0).fit(mdata)
    with pytest.raises(DataError, match=r"Concat\.annotate: data must be a MuData or an AnnData; got dict"):
        model.annotate({})
    with pytest.raises(DataError, match=r"a MuData is written to a \.h5mu file"):
        write_omics(mdata, tmp_path / "a.h5ad")
    with pytest.raises(DataError, match=r"X has no X|no view was given"):
        Views.of(anndata.AnnData(obs=pd.DataFrame(index=["a", "b"])))
    whole = file.read_bytes()
    file.write_bytes(whole[:2000])
    with pytest.raises(DataError, match=r"toy\.h5mu: not a readable MuData file"):
        read_views(file)


def test_features_in_common_are_no_samples_in_common():
    data = [modality(np.ones((3, 2)), [f"{k}{i}" for i in range(3)]) for k in "ab"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held = mudata.MuData(dict(zip("ab", data, strict=True)), axis=1)
    with pytest.raises(DataError, match=r"share features \(axis=1\)"):
        Views.of(held)


def test_the_same_as_frames(mdata):
    frames = {name: mod.to_df() for name, mod in mdata.mod.items()}
    settings = {**SMALL, "epochs": 2, "pretrain_epochs": 1, "warmup_epochs": 1}
    one, other = ACOVA.from_settings(3, **settings).fit(mdata), ACOVA.from_settings(3, **settings).fit(frames)
    pd.testing.assert_frame_equal(one.assignments(), other.assignments())
