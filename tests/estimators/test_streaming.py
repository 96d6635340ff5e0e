"""Fits on views that stay on disk."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA
from acova.data import StoredViews, Views
from acova.metrics import clustering_accuracy
from conftest import SMALL

N = 40_000
SETTINGS = {**SMALL, "pretrain_epochs": 1, "warmup_epochs": 2, "epochs": 2, "batch_size": 256, "device": "cpu"}
SETTINGS["neighbor_weight"] = 0.0  # neighbours are searched in memory


def make_files(folder, n_samples=N, sizes=(8, 12), block=10_000, n_clusters=3):
    """Write sorted clusters (the worst order on disk) as .npy files, a fifth of the second view missing."""
    rng = np.random.default_rng(0)
    centres = 4 * rng.normal(size=(n_clusters, 6))
    maps = [rng.normal(size=(6, size)) for size in sizes]
    labels = np.arange(n_samples) * n_clusters // n_samples
    folder.mkdir(exist_ok=True)
    files = [
        np.lib.format.open_memmap(folder / f"v{v}.npy", "w+", np.float32, (n_samples, s)) for v, s in enumerate(sizes)
    ]
    for start in range(0, n_samples, block):
        stop = min(start + block, n_samples)
        latent = centres[labels[start:stop]] + 0.3 * rng.normal(size=(stop - start, 6))
        for v, (file, matrix) in enumerate(zip(files, maps, strict=True)):
            rows = latent @ matrix + 0.2 * rng.normal(size=(stop - start, matrix.shape[1]))
            rows[(v == 1) & (rng.random(stop - start) < 0.2)] = np.nan
            file[start:stop] = rows
    return labels


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored") / "views"
    return folder, make_files(folder)


@pytest.fixture(scope="module")
def streamed(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acova.estimators._base._IN_MEMORY", 0)
        return ACOVA.from_settings(3, **SETTINGS).fit(StoredViews.of(folder[0]))


def test_a_streamed_fit_finds_the_clusters(folder, streamed):
    assert clustering_accuracy(folder[1], np.asarray(streamed.labels_)) > 0.95
    assert isinstance(streamed.probabilities_, np.memmap)
    assert streamed.labels_.shape == (N,)
    np.testing.assert_allclose(streamed.probabilities_.sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(streamed.labels_, streamed.probabilities_.argmax(1))


def test_one_window_trains_as_in_memory(folder, monkeypatch):
    """Where the data fit into one window only the places of the samples differ: same blocks, same noise, same model."""
    arrays = {f"v{v}": np.load(folder[0] / f"v{v}.npy")[:900] for v in (0, 1)}
    expected = ACOVA.from_settings(3, **SETTINGS).fit(arrays)
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    np.savez(folder[0].parent / "x.npz", **arrays)
    paths = {}
    for name, array in arrays.items():
        paths[name] = folder[0].parent / f"{name}-few.npy"
        np.save(paths[name], array)
    model = ACOVA.from_settings(3, **SETTINGS).fit(paths)
    np.testing.assert_allclose(model.probabilities_, expected.probabilities_, atol=1e-6)
    np.testing.assert_allclose(model.objectives_, expected.objectives_, rtol=1e-6)


def test_small_stored_views_are_read_as_a_whole(folder):
    paths = [folder[0] / "v0.npy", folder[0] / "v1.npy"]
    model = ACOVA.from_settings(3, **{**SETTINGS, "epochs": 1}).fit(paths)
    assert not isinstance(model.labels_, np.memmap)
    arrays = [np.load(path) for path in paths]
    np.testing.assert_array_equal(
        model.labels_, ACOVA.from_settings(3, **{**SETTINGS, "epochs": 1}).fit(arrays).labels_
    )


def test_prediction_from_disk_is_prediction_from_memory(folder, streamed, monkeypatch):
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    arrays = {f"v{v}": np.load(folder[0] / f"v{v}.npy") for v in (0, 1)}
    stored, held = StoredViews.of(folder[0]), Views.of(arrays)
    for method in ("predict", "predict_proba", "transform", "fusion_weights"):
        ours = getattr(streamed, method)(stored)
        assert isinstance(ours, np.memmap)
        np.testing.assert_allclose(ours, getattr(streamed, method)(held), atol=1e-6)
    assert streamed.score(stored) == pytest.approx(streamed.score(held), rel=1e-6)
    pd.testing.assert_frame_equal(streamed.assignments(stored), streamed.assignments(held), atol=1e-6)
    np.testing.assert_array_equal(
        streamed.predict({"v0": folder[0] / "v0.npy"}), streamed.predict({"v0": arrays["v0"]})
    )


def test_a_streamed_model_is_saved_and_loaded(streamed, tmp_path):
    streamed.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    assert isinstance(loaded.probabilities_, np.memmap)
    for name in ("labels_", "probabilities_", "view_weights_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(streamed, name))
    table = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")
    pd.testing.assert_frame_equal(table, streamed.assignments(), check_dtype=False, check_names=False, rtol=1e-5)


def test_results_on_disk_go_with_the_model(folder, monkeypatch, tmp_path):
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    model = ACOVA.from_settings(3, **{**SETTINGS, "epochs": 0}).fit(StoredViews.of(folder[0]))
    assert list(tmp_path.iterdir())
    del model
    assert not list(tmp_path.iterdir())


def test_the_command_line_streams(folder, tmp_path):
    command = [sys.executable, "-m", "acova", "fit", str(folder[0]), "--stream", "--out", str(tmp_path / "run")]
    options = ["--clusters", "3", "--hidden", "32", "--epochs", "1", "--pretrain-epochs", "1", "--warmup-epochs", "1"]
    done = subprocess.run([*command, *options, "--quiet"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    predict = [sys.executable, "-m", "acova", "predict", str(tmp_path / "run"), str(folder[0]), "--stream"]
    done = subprocess.run([*predict, "--out", str(tmp_path / "new.csv")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    fitted = pd.read_csv(tmp_path / "run" / "labels.csv")
    assert (pd.read_csv(tmp_path / "new.csv")["label"] == fitted["label"]).all()
    assert f"Labels of {N:,} samples" in done.stdout
    hidden = subprocess.run(
        [*command, *options, "--missing", "0.5", "--force"], capture_output=True, text=True, check=False
    )
    assert "with --stream put an observed.npy beside the views" in hidden.stderr


MEMORY = """
import sys
from acova import ACOVA
from acova.data import StoredViews
import acova.estimators._base as base
import acova.engine.data as data
base._IN_MEMORY, data.WINDOW_BYTES = 0, 2**23
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
settings = dict(hidden=(16,), latent_dim=4, batch_size=4096, pretrain_epochs=1, warmup_epochs=1, epochs=1, device="cpu")
for folder in sys.argv[1:]:
    model = ACOVA.from_settings(3, **settings, random_state=0).fit(StoredViews.of(folder))
    model.predict(StoredViews.of(folder))
    print(peak())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_samples(tmp_path):
    """Six times the samples (96 MB more on disk, several windows each) in the memory of the first fit.

    What the allocator keeps also counts: single runs grew by 9 and 16 MB. A copy of the further samples would be 96.
    """
    for name, n_samples in (("small", 80_000), ("large", 480_000)):
        make_files(tmp_path / name, n_samples, sizes=(24, 36), block=40_000)
    command = [sys.executable, "-c", MEMORY, str(tmp_path / "small"), str(tmp_path / "large")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    small, large = map(float, done.stdout.split())
    assert large - small < 32


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_clusters_are_placed_by_the_graph_of_samples_that_no_window_holds(tmp_path, monkeypatch):
    """Blocks of 1024 rows, and a window of one: the linked samples of the four places are read beside it."""
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    monkeypatch.setattr("acova.engine.data.WINDOW_BYTES", 1)
    monkeypatch.setattr("acova.engine.data._MIN_BLOCKS", 1)
    labels = make_files(tmp_path / "views", 4100, sizes=(12, 9), block=4100)
    short = {"hidden": (32,), "latent_dim": 4, "pretrain_epochs": 3, "warmup_epochs": 5, "epochs": 5}
    model = ACOVA.from_settings(3, **short, random_state=0).fit(StoredViews.of(tmp_path / "views"))
    assert (model.settings_["cluster_start"], model.settings_["final_clusters"]) == ("graph", "graph")
    assert clustering_accuracy(labels, np.asarray(model.labels_)) > 0.95
