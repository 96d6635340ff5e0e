import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA
from acova.base import RunFolderError, sealed_json
from acova.data import stack_views
from acova.estimators import load_method
from acova.estimators.storage import new_folder
from conftest import SMALL


@pytest.fixture
def run(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    return tmp_path / "run"


def test_a_loaded_model_predicts_the_same_bits(toy, fitted, run):
    views, _ = toy
    loaded = ACOVA.load(run)
    np.testing.assert_array_equal(loaded.predict_proba(views), fitted.predict_proba(views))
    np.testing.assert_array_equal(loaded.transform(views), fitted.transform(views))
    assert loaded.score(views) == fitted.score(views)
    only_text = {"text": views.arrays[1][views.observed[:, 1]]}
    np.testing.assert_array_equal(loaded.predict(only_text), fitted.predict(only_text))


OLD = Path(__file__).with_name("run_of_format_3")
"""A consensus of two runs, with the data and its probabilities, written before there were checksums."""


def test_a_run_from_before_there_were_checksums_still_loads():
    frames = {
        name: pd.read_csv(OLD / f"data_{name}.csv", dtype={"id": str}).set_index("id") for name in ("image", "text")
    }
    model = load_method(OLD, device="cpu")
    assert model.hidden == (4,)
    assert model.consensus
    assert list(model.index_[:3]) == ["000", "001", "002"]
    assert list(model.history_.columns[:2]) == ["phase", "epoch"]
    np.testing.assert_allclose(model.predict_proba(frames), pd.read_csv(OLD / "expected.csv"), atol=1e-4)


def test_a_loaded_model_remembers_everything(fitted, run):
    loaded = ACOVA.load(run)
    assert loaded.get_params() == fitted.get_params()
    for name in (
        "labels_",
        "probabilities_",
        "view_weights_",
        "correlation_",
        "weights_",
        "means_",
        "variances_",
        "latent_",
    ):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(fitted, name), err_msg=name)
    for name in ("view_names_", "view_sizes_", "n_features_in_", "n_iter_", "seed_", "objective_"):
        assert getattr(loaded, name) == getattr(fitted, name), name
    for name, value in vars(fitted.summary_).items():
        for mine, theirs in zip(getattr(loaded.summary_, name), value, strict=True):
            np.testing.assert_array_equal(mine, theirs, err_msg=name)
    assert loaded.provenance_ == fitted.provenance_
    pd.testing.assert_frame_equal(loaded.history_, fitted.history_)
    pd.testing.assert_frame_equal(loaded.assignments(), fitted.assignments())


def test_names_matrices_and_frames_survive(toy, tmp_path):
    views, _ = toy
    frames = {
        name: pd.DataFrame(a, index=[f"s{i}" for i in range(len(a))]).add_prefix("f")
        for name, a in zip(views.names, views.arrays, strict=True)
    }
    model = ACOVA(3, **SMALL, correlation=np.eye(3) * 0.5 + 0.5, likelihood=("gaussian",) * 3).fit(frames)
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.correlation, model.correlation)
    assert list(loaded.index_) == list(model.index_)
    turned = {name: frame.iloc[:, ::-1] for name, frame in frames.items()}
    pd.testing.assert_frame_equal(loaded.assignments(turned), model.assignments())


def test_one_named_table_survives_with_its_rows_and_columns(toy, tmp_path):
    table, sizes = stack_views(toy[0])
    frame = pd.DataFrame(table, index=pd.RangeIndex(5, 5 + len(table))).add_prefix("f")
    model = ACOVA(3, **SMALL, view_sizes=sizes).fit(frame)
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    pd.testing.assert_frame_equal(loaded.assignments(), model.assignments(), check_index_type=False)
    pd.testing.assert_frame_equal(loaded.assignments(frame), model.assignments())


def test_the_folder_holds_what_it_should_and_no_pickle(fitted, run):
    assert sorted(path.name for path in run.iterdir()) == [
        "config.json",
        "history.csv",
        "labels.csv",
        "model.safetensors",
    ]
    labels = pd.read_csv(run / "labels.csv", index_col="sample")
    np.testing.assert_array_equal(labels["label"], fitted.labels_)
    assert len(pd.read_csv(run / "history.csv")) == 25
    config = json.loads((run / "config.json").read_text())
    assert config["params"]["n_clusters"] == 3
    assert config["acova_version"]


def test_an_existing_run_is_kept_unless_told_otherwise(fitted, run):
    before = (run / "model.safetensors").stat().st_mtime_ns
    with pytest.raises(RunFolderError, match=r"already exists; choose another folder, or replace it with overwrite"):
        fitted.save(run)
    assert (run / "model.safetensors").stat().st_mtime_ns == before
    fitted.save(run, overwrite=True)
    assert ACOVA.load(run).n_clusters == 3
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_folder_that_is_no_run_is_never_replaced(fitted, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.tex").write_text("years of work")
    with pytest.raises(RunFolderError, match="not a run folder, so it is not replaced"):
        fitted.save(tmp_path / "thesis", overwrite=True)
    assert (tmp_path / "thesis" / "chapter1.tex").read_text() == "years of work"


def test_a_failed_write_leaves_the_old_run_and_no_scraps(fitted, run):
    old = (run / "config.json").read_text()

    def write():
        with new_folder(run, overwrite=True) as scratch:
            (scratch / "config.json").write_text("half")
            raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        write()
    assert (run / "config.json").read_text() == old
    assert [path.name for path in run.parent.iterdir()] == ["run"]


class Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled')",))


def _edit(run, **changes):
    """Change a config as someone would who makes the checksum fit."""
    config = json.loads((run / "config.json").read_text())
    del config["checksum"]
    (run / "config.json").write_bytes(sealed_json({**config, **changes}))


DAMAGE = {
    "truncated weights": (lambda run: _cut(run / "model.safetensors", 1000), "truncated or damaged"),
    "empty weights": (lambda run: _cut(run / "model.safetensors", 0), "truncated or damaged"),
    "no weights": (lambda run: (run / "model.safetensors").unlink(), "missing, truncated or damaged"),
    "pickle as weights": (
        lambda run: (run / "model.safetensors").write_bytes(pickle.dumps(Bomb())),
        "truncated or damaged",
    ),
    "half a config": (lambda run: _cut(run / "config.json", 40), "not the JSON file it should be.*Fit again"),
    "foreign config": (lambda run: (run / "config.json").write_text('{"a": 1}'), "was not written by acova"),
    "list as config": (lambda run: (run / "config.json").write_text("[1]"), "Expected `object`"),
    "no config": (lambda run: (run / "config.json").unlink(), "is no run folder"),
    "future format": (lambda run: _edit(run, format_version=99), "has run format 99"),
    "other class": (lambda run: _edit(run, estimator="KMeans"), "holds a model of class 'KMeans'"),
    "missing part": (lambda run: _edit(run, fitted={}), "does not hold a whole model"),
    "other size": (lambda run: _edit_params(run, latent_dim=7), "does not hold a whole model"),
    "unknown option": (lambda run: _edit_params(run, colour="red"), "does not hold a whole model"),
    "no history": (lambda run: (run / "history.csv").unlink(), "missing, truncated or damaged"),
}


def _cut(path, size):
    path.write_bytes(path.read_bytes()[:size])


def _edit_params(run, **changes):
    params = json.loads((run / "config.json").read_text())["params"]
    _edit(run, params={**params, **changes})


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_or_foreign_files_give_a_clear_error(run, damage):
    harm, text = DAMAGE[damage]
    harm(run)
    with pytest.raises(RunFolderError, match=text):
        ACOVA.load(run)


def test_loading_what_is_not_there(tmp_path):
    with pytest.raises(RunFolderError, match="is no run folder"):
        ACOVA.load(tmp_path / "nothing")


def test_an_unfitted_model_cannot_be_saved(tmp_path):
    with pytest.raises(ValueError, match="not fitted yet"):
        ACOVA(3).save(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []
