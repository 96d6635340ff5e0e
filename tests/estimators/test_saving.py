import datetime
import json
import pickle
import random
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file

from acova import ACOVA
from acova.base import DataWarning, FileError, RunFolderError
from acova.base.files import file_digest, sealed_json
from acova.data import stack_views
from acova.estimators import BSV, Concat, KNNImpute, load_method
from acova.estimators.persistence import from_json, to_json
from acova.training.run_folder import new_folder
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


def test_a_loaded_model_remembers_everything(fitted, run):
    loaded = ACOVA.load(run)
    assert loaded.get_settings() == fitted.get_settings()
    assert repr(loaded) == repr(fitted)
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
    model = ACOVA.from_settings(3, **SMALL, correlation=np.eye(3) * 0.5 + 0.5, likelihood=("gaussian",) * 3).fit(frames)
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.correlation, model.correlation)
    assert list(loaded.index_) == list(model.index_)
    turned = {name: frame.iloc[:, ::-1] for name, frame in frames.items()}
    pd.testing.assert_frame_equal(loaded.assignments(turned), model.assignments())


def test_one_named_table_survives_with_its_rows_and_columns(toy, tmp_path):
    table, sizes = stack_views(toy[0])
    frame = pd.DataFrame(table, index=pd.RangeIndex(5, 5 + len(table))).add_prefix("f")
    model = ACOVA.from_settings(3, **SMALL, view_sizes=sizes).fit(frame)
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


# --- flipped bits, crafted files ----------------------------------------------------------------


def flipped(path, count, seed):
    """Yield after flipping one random bit of a file, and put it back."""
    whole, rng = path.read_bytes(), random.Random(seed)
    for _ in range(count):
        place, bit = rng.randrange(len(whole)), rng.randrange(8)
        changed = bytearray(whole)
        changed[place] ^= 1 << bit
        path.write_bytes(changed)
        yield f"bit {bit} of byte {place}"
    path.write_bytes(whole)


@pytest.mark.parametrize(
    ("name", "count"), [("model.safetensors", 40), ("config.json", 80), ("history.csv", 20), ("labels.csv", 10)]
)
def test_a_flipped_bit_is_refused_or_harmless(fitted, run, name, count):
    refused = 0
    for where in flipped(run / name, count, seed=1):
        try:
            loaded = ACOVA.load(run)
        except RunFolderError:
            refused += 1
            continue
        assert loaded.get_settings() == fitted.get_settings(), where
        np.testing.assert_array_equal(loaded.probabilities_, fitted.probabilities_, err_msg=where)
        np.testing.assert_array_equal(loaded.means_, fitted.means_, err_msg=where)
        pd.testing.assert_frame_equal(loaded.history_, fitted.history_)
    assert (refused == 0) if name == "labels.csv" else (refused > count / 2)


def _edit_fitted(run, **changes):
    _edit(run, fitted={**json.loads((run / "config.json").read_text())["fitted"], **changes})


def _edit_tensor(run, name, change):
    """Change a tensor, and make the checksums fit."""
    tensors = load_file(run / "model.safetensors")
    tensors[name] = np.ascontiguousarray(change(tensors[name]))
    save_file(tensors, run / "model.safetensors")
    _edit(run, digests={path.name: file_digest(path) for path in run.iterdir()})


CRAFTED = {
    "a name twice": (lambda run: (run / "config.json").write_text('{"format": 1, "format": 2}'), "more than once"),
    "no text": (lambda run: (run / "config.json").write_bytes(b"{\xff}"), "not the JSON file"),
    "deep nesting": (lambda run: (run / "config.json").write_text("[" * 10**5), "nested too deeply"),
    "a huge number": (lambda run: (run / "config.json").write_text("9" * 5000), "not the JSON file"),
    "params as a list": (lambda run: _edit(run, params=[]), r"Expected `object`, got `array` - at `\$.params`"),
    "a huge seed": (lambda run: _edit_fitted(run, seed_=1.5), "Expected `int`"),
    "two views of a name": (lambda run: _edit_fitted(run, view_names_=["image"] * 3), "its views are called"),
    "no views": (lambda run: _edit_fitted(run, view_names_=[], view_sizes_=[]), "its views are called"),
    "another width": (lambda run: _edit_fitted(run, view_sizes_=[8, 12, 6]), "'center.2' has the shape"),
    "a width too many": (lambda run: _edit_fitted(run, view_sizes_=[8, 12, 5, 1]), "view_sizes_ has 4 entries, not 3"),
    "columns of one view": (lambda run: _edit_fitted(run, _columns=[None]), "_columns has 1 entries, not 3"),
    "a likelihood": (lambda run: _edit_fitted(run, _likelihoods=["cauchy"] * 3), "its likelihoods are"),
    "reference": (lambda run: _edit(run, reference=1), "reference=1 is none of the 1 networks"),
    "a negative reference": (lambda run: _edit(run, reference=-1), "reference=-1"),
    "on_disk": (lambda run: _edit(run, on_disk=["../../etc/x"]), "missing, truncated or damaged"),
    "index of another length": (lambda run: _edit(run, index={"kind": "range"}), "Object missing required field"),
    "a number out of range": (lambda run: _edit_params(run, alpha=-1.0), "alpha must be a number at least 0"),
    "an alpha of text": (lambda run: _edit_params(run, alpha="big"), "alpha must be a number"),
    "clusters beyond K": (lambda run: _edit_tensor(run, "labels_", lambda labels: labels + 1), "other clusters than"),
    "labels as floats": (lambda run: _edit_tensor(run, "labels_", lambda a: a.astype("f4")), "'labels_' has the shape"),
    "a sample less": (lambda run: _edit_tensor(run, "latent_", lambda a: a[1:]), "'latent_' has the shape"),
    "orders": (lambda run: _edit_tensor(run, "orders", np.zeros_like), "name every cluster once"),
    "a prior of one cluster": (
        lambda run: _edit_tensor(run, "network.0.prior.means", lambda a: a[:1]),
        "'prior.means' is",
    ),
    "doubles": (lambda run: _edit_tensor(run, "network.0.prior.means", lambda a: a.astype("f8")), "'prior.means' is"),
    "a scalar scale": (lambda run: _edit_tensor(run, "scale.0", lambda a: a[:1]), "'scale.0' has the shape"),
    "a summary": (lambda run: _edit_tensor(run, "summary.counts", lambda a: a[:1]), "'summary.counts' has the shape"),
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_folder_gives_a_clear_error(run, craft):
    harm, text = CRAFTED[craft]
    harm(run)
    for load in (ACOVA.load, load_method):
        with pytest.raises(RunFolderError, match=text) as caught:
            load(run)
        assert str(run) in str(caught.value)


@pytest.mark.parametrize("method", [BSV, Concat, KNNImpute])
def test_crafted_centres_of_k_means_give_a_clear_error(toy, tmp_path, method):
    model = method(3, random_state=0).fit(toy[0])
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(method.load(tmp_path / "run").predict(toy[0]), model.predict(toy[0]))
    _edit_tensor(tmp_path / "run", "centers.0", lambda centers: centers[:2])
    with pytest.raises(RunFolderError, match=r"'centers.0' has the shape \(2"):
        method.load(tmp_path / "run")


def test_a_checksum_is_not_left_out_by_another_version(run):
    """One flipped bit cannot turn the format with checksums into the one without."""
    assert all(4 ^ (1 << bit) != 3 for bit in range(8))
    config = json.loads((run / "config.json").read_text())
    del config["checksum"]
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(RunFolderError, match="does not match its checksum"):
        ACOVA.load(run)


# --- what is kept exactly -----------------------------------------------------------------------

N = 24
TIMES = pd.date_range("2024-03-30", periods=N, freq="h", tz="Europe/Berlin")
INDICES = {
    "text": pd.Index([f"{i:03d}" for i in range(N)], name="id"),
    "numbers": pd.Index(range(5, 5 + 2 * N, 2), dtype="int64"),
    "range": pd.RangeIndex(3, 3 + 2 * N, 2, name="row"),
    "small numbers": pd.Index(range(N), dtype="uint8"),
    "fractions": pd.Index(np.arange(N) / 3),
    "a number of numpy as name": pd.Index([f"s{i}" for i in range(N)], dtype=object, name=np.int64(3)),
    "mixed": pd.Index(["1", 1, 2.5, *(f"x{i}" for i in range(N - 3))], dtype=object),
    "pandas text": pd.Index([f"1e{i}" for i in range(N)], dtype="string"),
    "dates": pd.date_range("2024-01-31", periods=N, freq="ME"),
    "time zone": TIMES,
    "offset": pd.DatetimeIndex(TIMES.tz_convert("+02:00"), freq=None, name=("a", 1)),
    "seconds": pd.date_range("1700-01-01", periods=N, unit="s"),
    "differences": pd.timedelta_range("1h", periods=N),
    "periods": pd.period_range("2020Q1", periods=N, freq="Q"),
    "categories": pd.CategoricalIndex([f"c{i}" for i in range(N)][::-1], ordered=True, name="c"),
    "intervals": pd.interval_range(0.0, periods=N, closed="left"),
    "levels": pd.MultiIndex.from_product([["a", "b"], pd.Index([1, 2, 3]), TIMES[:4]], names=["site", None, "t"]),
    "not utf-8": pd.Index([f"\udcff{i}" for i in range(N)], dtype=object),
}


@pytest.fixture(scope="module")
def small():
    rng = np.random.default_rng(0)
    return {"a": rng.normal(size=(N, 3)), "b": rng.normal(size=(N, 2))}


@pytest.mark.parametrize("kind", INDICES)
def test_any_index_survives(small, tmp_path, kind):
    index = INDICES[kind]
    model = Concat(2, random_state=0).fit({name: pd.DataFrame(array) for name, array in small.items()})
    model.index_ = index
    model.save(tmp_path / "run")
    found = Concat.load(tmp_path / "run").index_
    pd.testing.assert_index_equal(found, index, exact=True)
    assert type(found) is type(index)
    assert getattr(found, "freq", None) == getattr(index, "freq", None)


def test_labels_of_an_unknown_kind_become_text_with_a_warning(small, tmp_path):
    model = Concat(2, random_state=0).fit({name: pd.DataFrame(array) for name, array in small.items()})
    model.index_ = pd.Index([datetime.date(2024, 1, 1) + datetime.timedelta(day) for day in range(N)])
    with pytest.warns(DataWarning, match=r"such as datetime.date\(2024, 1, 1\); the saved model has them as text"):
        model.save(tmp_path / "run")
    assert Concat.load(tmp_path / "run").index_[1] == "2024-01-02"


def test_the_history_survives_to_the_last_bit(fitted, run):
    pd.testing.assert_frame_equal(ACOVA.load(run).history_, fitted.history_, check_exact=True)


def test_values_survive_as_what_they_were():
    matrix = np.array([[1.0, 0.25], [0.25, 1.0]], dtype=np.float32)
    values = [(1, (2, "x")), [1, [2]], {"a": (1,), "b": None}, np.int64(3), np.float32(0.1), True, float("inf"), "07"]
    for value in values:
        found = from_json(json.loads(json.dumps(to_json(value))))
        assert found == value
        assert isinstance(value, np.generic) or type(found) is type(value)
    found = from_json(json.loads(json.dumps(to_json(matrix))))
    np.testing.assert_array_equal(found, matrix)
    assert found.dtype == matrix.dtype


# --- places that cannot be written or read ------------------------------------------------------


@pytest.mark.parametrize("place", ["/proc/run", "/dev/null/run", "x" * 300, "a\0b"])
def test_a_place_that_cannot_be_written_is_the_librarys_error(fitted, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileError, match=r"Check the path|choose another folder"):
        fitted.save(place)
    with pytest.raises(FileError, match=r"no run folder|Check the path|choose another folder"):
        ACOVA.load(place)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("what", ["write", "fsync", "rename"])
def test_a_failed_save_leaves_the_old_run_and_no_litter(fitted, run, monkeypatch, what):
    before = {path.name: path.read_bytes() for path in run.iterdir()}

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if what == "write":
            patch.setattr(pd.DataFrame, "to_csv", full)
        elif what == "fsync":
            patch.setattr("os.fsync", full)
        else:
            original = Path.rename
            patch.setattr(Path, "rename", lambda a, b: full() if a.name == ".run.new" else original(a, b))
        with pytest.raises(FileError, match=r"run.* failed: No space left on device. Check the path"):
            fitted.save(run, overwrite=True)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_a_run_that_is_replaced_while_it_is_read_is_read_again(fitted, run, monkeypatch):
    """The config is read of one run, the tensors of the next."""
    from acova.training import reading

    original, times = reading._contents, []

    def contents(folder, config):
        if not times:
            times.append(1)
            fitted.save(run, overwrite=True)
            _edit(run, acova_version="later")
            (run / "config.json").write_text((run / "config.json").read_text())
            msg = "damaged"
            raise RunFolderError(msg)
        return original(folder, config)

    monkeypatch.setattr(reading, "_contents", contents)
    np.testing.assert_array_equal(ACOVA.load(run).probabilities_, fitted.probabilities_)


def test_a_link_to_a_run_stays_a_link(fitted, run, tmp_path):
    (tmp_path / "latest").symlink_to(run)
    fitted.save(tmp_path / "latest", overwrite=True)
    assert (tmp_path / "latest").is_symlink()
    assert ACOVA.load(run).n_clusters == 3
