import http.client
import math
import re
import socket
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pooch
import pytest
import scipy.io
import sklearn.datasets
from scipy.stats import kstest

from acova.base import DataError, OptionError, Streams
from acova.data import dataset_names, load_dataset
from acova.data.datasets import builders, catalogue
from acova.data.datasets.builders import digits_views, fashion_views, noisymnist_views
from acova.data.datasets.catalogue import CATALOGUE, find_file

SHARED = Path(__file__).parents[2].parent / "shared" / "datasets"
STORED = ["handwritten", "scene15", "cub", "fashion", "caltech5v"]
DOWNLOADED = {"scene15": "Scene-15.mat", "cub": "cub_googlenet_doc2vec_c10.mat"}
LABELS = np.array([2, 0, 1, 1, 0, 2])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, no data folder and no network."""
    folder = tmp_path / "cache"
    monkeypatch.delenv("ACOVA_DATA", raising=False)
    monkeypatch.setattr(catalogue, "_cache_folder", lambda: folder)
    monkeypatch.setattr(socket, "socket", lambda *a, **k: pytest.fail("a test must not use the network"))
    return folder


@pytest.fixture
def data_folder(tmp_path, cache, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("ACOVA_DATA", str(folder))
    return folder


def small_arrays(name, n_samples=6):
    """Arrays of the right widths, every cell different."""
    widths = list(CATALOGUE[name].view_sizes.values())
    cells = np.arange(n_samples * sum(widths), dtype=np.float32).reshape(n_samples, -1)
    return np.split(cells, np.cumsum(widths)[:-1], axis=1)


def save_npz(path, arrays, **more):
    np.savez(path, **{f"view_{v}": array for v, array in enumerate(arrays)}, **more)


def assert_holds(dataset, name, arrays, labels=LABELS):
    assert dataset.name == name
    assert dataset.views.names == tuple(CATALOGUE[name].view_sizes)
    assert dataset.views.observed.all()
    for held, given in zip(dataset.views.arrays, arrays, strict=True):
        np.testing.assert_array_equal(held, given)
    np.testing.assert_array_equal(dataset.labels, labels)
    assert dataset.labels.dtype == np.int64


@pytest.fixture(scope="module")
def images():
    return sklearn.datasets.load_digits().images


def test_digits_need_neither_network_nor_files(cache, monkeypatch, images):
    monkeypatch.setattr(catalogue, "_folders", lambda: pytest.fail("digits must not look for files"))
    digits, again = load_dataset("digits"), load_dataset("digits")
    entry = CATALOGUE["digits"]
    assert (digits.views.n_samples, digits.n_classes) == (entry.n_samples, entry.n_classes)
    assert dict(zip(digits.views.names, digits.views.sizes, strict=True)) == entry.view_sizes
    np.testing.assert_array_equal(digits.views.arrays[0], images.reshape(-1, 64))
    np.testing.assert_array_equal(digits.labels, sklearn.datasets.load_digits().target)
    for one, other in zip(digits.views.arrays, again.views.arrays, strict=True):
        assert one.dtype == np.float32
        assert one.tobytes() == other.tobytes()
    assert not cache.exists()


def test_fourier_is_the_logarithm_of_spectral_magnitudes(images):
    turns = np.exp(-2j * np.pi * np.outer(np.arange(8), np.arange(8)) / 8)
    spectrum = np.abs(turns @ images @ turns)[:, :, :5]  # the other columns mirror these
    held = digits_views(images)["fourier"]
    np.testing.assert_allclose(np.expm1(held), spectrum.reshape(-1, 40), rtol=1e-4, atol=1e-3)
    shifted = digits_views(np.roll(images, (3, 5), axis=(1, 2)))["fourier"]
    np.testing.assert_allclose(np.expm1(shifted), np.expm1(held), rtol=1e-4, atol=1e-3)


def test_profiles_are_sums_and_centres_of_rows_and_columns(images):
    row_sums, row_centres, column_sums, column_centres = np.split(digits_views(images)["profiles"], 4, axis=1)
    for sums in (row_sums, column_sums):
        np.testing.assert_allclose(sums.sum(axis=1), images.sum(axis=(1, 2)))
    for i in (0, 17, 400):
        for k in range(8):
            row, column = images[i, k, :], images[i, :, k]
            assert (row_sums[i, k], column_sums[i, k]) == (row.sum(), column.sum())
            for line, centre in ((row, row_centres[i, k]), (column, column_centres[i, k])):
                middle = np.average(np.arange(8), weights=line) - 3.5 if line.any() else 0.0
                assert centre == pytest.approx(middle, abs=1e-6)


def test_gradient_histograms_share_out_the_edge_strength(images):
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1)), mode="reflect", reflect_type="odd")
    down = (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]) / 2
    right = (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]) / 2
    strength = np.sqrt(down**2 + right**2)
    held = digits_views(images)["gradients"].reshape(-1, 4, 8)
    np.testing.assert_allclose(held.sum(axis=(1, 2)), strength.sum(axis=(1, 2)), rtol=1e-5)
    quadrants = [strength[:, r : r + 4, c : c + 4].sum(axis=(1, 2)) for r in (0, 4) for c in (0, 4)]
    np.testing.assert_allclose(held.sum(axis=2), np.column_stack(quadrants), rtol=1e-5)


@pytest.mark.parametrize("bin_", range(8))
def test_edges_vote_for_their_direction(bin_):
    angle = (bin_ + 0.5) * math.pi / 4
    across, along = math.cos(angle), math.sin(angle)
    ramp = across * np.arange(8)[None, None, :] + along * np.arange(8)[None, :, None]
    held = digits_views(ramp)["gradients"].reshape(4, 8)
    np.testing.assert_allclose(held, np.where(np.arange(8) == bin_, 16.0, 0.0) * np.ones((4, 1)), atol=1e-5)


def random_mnist(n_samples=40, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, size=(n_samples, 784), dtype=np.uint8), rng.permutation(np.arange(n_samples) % 4)


def partners(noisy, images):
    """Noise only adds, so a partner is the one image that no pixel falls below."""
    above = (noisy[:, None, :] >= images[None].astype(np.float32) / 255 - 1e-6).all(axis=2)
    np.testing.assert_array_equal(above.sum(axis=1), 1)
    return above.argmax(axis=1)


def test_noisymnist_pairs_each_digit_with_another_of_its_class_once():
    given, classes = random_mnist()
    partner = partners(noisymnist_views(given, classes)["noisy"], given)
    assert sorted(partner) == list(range(len(given)))
    assert (partner != np.arange(len(given))).all()
    np.testing.assert_array_equal(classes[partner], classes)


def test_noisymnist_adds_uniform_noise_and_clips():
    given, classes = random_mnist()
    given[:, ::2] = 0
    noisy = noisymnist_views(given, classes)["noisy"]
    noise = noisy - given[partners(noisy, given)].astype(np.float32) / 255
    assert kstest(noise[:, ::2].ravel(), "uniform").pvalue > 1e-3  # on black nothing is clipped
    assert (noise[noisy < 1] >= -1e-6).all()
    expected = given[partners(noisy, given)][:, 1::2].mean() / 255 + 0.5
    assert noisy[:, 1::2].mean() < expected - 0.1  # elsewhere much is
    assert (noisy == 1).mean() == pytest.approx((given / 255).mean(), abs=0.02)


def test_noisymnist_values_and_types():
    given, classes = random_mnist()
    first, again, other = (noisymnist_views(given, classes, seed=seed) for seed in (0, 0, 1))
    assert list(first) == ["rotated", "noisy"]
    for name, array in first.items():
        assert array.dtype == np.float32
        assert array.shape == given.shape
        assert array.min() >= 0
        assert array.max() <= 1
        assert array.tobytes() == again[name].tobytes()
        assert (array != other[name]).any()


@pytest.mark.parametrize(("angle", "quarters"), [(0.0, 0), (90.0, 1), (-90.0, -1)])
def test_noisymnist_turns_the_image_by_the_angle(monkeypatch, angle, quarters):
    asked = []

    class FixedAngle(Streams):
        def numpy(self, *names):
            if names[-1] != "angle":
                return super().numpy(*names)
            return SimpleNamespace(uniform=lambda low, high, size: asked.append((low, high)) or np.full(size, angle))

    monkeypatch.setattr(builders, "Streams", FixedAngle)
    given, classes = random_mnist(8)
    turned = noisymnist_views(given, classes)["rotated"].reshape(-1, 28, 28)
    expected = np.rot90(given.reshape(-1, 28, 28), quarters, axes=(1, 2)).astype(np.float32) / 255
    # Turned corners fall on the border, where rounding decides whether they are still inside.
    np.testing.assert_allclose(turned[:, 1:-1, 1:-1], expected[:, 1:-1, 1:-1], atol=1e-5)
    assert asked == [(-45, 45)]


def test_noisymnist_turns_each_image_about_its_middle_by_at_most_45_degrees():
    spot = np.zeros((200, 28, 28), dtype=np.uint8)
    spot[:, 13:15, 22:24] = 255  # to the right of the middle
    turned = noisymnist_views(spot.reshape(200, -1), np.zeros(200, dtype=int))["rotated"].reshape(200, 28, 28)
    mass = turned.sum(axis=(1, 2))
    across = (turned.sum(axis=1) * (np.arange(28) - 13.5)).sum(axis=1) / mass
    down = (turned.sum(axis=2) * (np.arange(28) - 13.5)).sum(axis=1) / mass
    angles = np.degrees(np.arctan2(down, across))
    np.testing.assert_allclose(np.hypot(across, down), 9, atol=0.1)
    assert kstest(angles, "uniform", args=(-45, 90)).pvalue > 1e-3


def coded_garments(classes):
    """Images that spell their own position in two bytes."""
    pictures = np.zeros((len(classes), 784), dtype=np.uint8)
    pictures[:, 0], pictures[:, 1] = np.divmod(np.arange(len(classes)), 256)
    return pictures


def positions(array):
    return np.asarray(array[:, 0], dtype=int) * 256 + np.asarray(array[:, 1], dtype=int)


@pytest.mark.parametrize("names", [(0, 1, 2), (9, 3, 5)])
def test_fashion_draws_disjoint_garments_of_one_class(names):
    classes = np.random.default_rng(0).permutation(np.repeat(names, 50))
    pictures = coded_garments(classes)
    views, labels = fashion_views(pictures, classes, per_class=12)
    assert list(views) == ["view_0", "view_1", "view_2"]
    rows = [positions(view) for view in views.values()]
    for part in rows:
        assert part.shape == labels.shape == (36,)
        np.testing.assert_array_equal(classes[part], np.sort(names)[labels])
        assert len(set(part)) == 36
    assert not any(set(one) & set(other) for one, other in combinations(rows, 2))
    np.testing.assert_array_equal(np.bincount(labels), [12, 12, 12])
    again, other = (fashion_views(pictures, classes, seed=seed, per_class=12)[0] for seed in (0, 1))
    assert all((views[name] == again[name]).all() for name in views)
    assert any((views[name] != other[name]).any() for name in views)


@pytest.mark.parametrize("name", STORED)
def test_files_in_the_data_folder_are_loaded(data_folder, name):
    arrays = small_arrays(name)
    save_npz(data_folder / f"{name}.npz", arrays, labels=LABELS + 1, n_views=len(arrays))
    assert find_file(name) == data_folder / f"{name}.npz"
    assert_holds(load_dataset(name), name, arrays)


def test_caltech5v_is_loaded_from_matlab(data_folder):
    arrays = small_arrays("caltech5v")
    held = {f"X{v}": array for v, array in enumerate(arrays, start=1)}
    scipy.io.savemat(data_folder / "Caltech-5V.mat", held | {"Y": LABELS[:, None] + 1})
    assert_holds(load_dataset("caltech5v"), "caltech5v", arrays)


def test_noisymnist_is_built_from_mnist(data_folder):
    given, classes = random_mnist()
    np.savez(data_folder / "mnist.npz", images=given, labels=classes.astype(np.uint8))
    assert_holds(load_dataset("noisymnist"), "noisymnist", noisymnist_views(given, classes).values(), classes)


def test_the_data_folder_comes_before_the_cache(data_folder, cache, monkeypatch):
    arrays = small_arrays("cub")
    cache.mkdir()
    save_npz(cache / "cub.npz", [array + 1 for array in arrays], labels=LABELS)
    assert find_file("cub") == cache / "cub.npz"
    save_npz(data_folder / "cub.npz", arrays, labels=LABELS)
    assert_holds(load_dataset("cub"), "cub", arrays)
    monkeypatch.setenv("HOME", str(data_folder.parent))
    monkeypatch.setenv("ACOVA_DATA", f"~/{data_folder.name}")
    assert find_file("cub") == data_folder / "cub.npz"


@pytest.mark.parametrize(
    ("name", "held", "words"),
    [
        ("cub", {"view_0": np.ones((4, 3)), "labels": np.arange(4)}, r"widths \[1024, 300\] and labels; got.*\[3\]"),
        ("cub", {"view_0": np.ones((4, 1024)), "view_1": np.ones((4, 300))}, "does not hold 'cub'.*and labels"),
        ("caltech5v", {"view_0": np.ones((4, 40)), "labels": np.arange(4)}, "does not hold 'caltech5v'"),
        ("noisymnist", {"images": np.ones((4, 9)), "labels": np.arange(4)}, r"mnist\.npz does not hold MNIST.*784"),
        ("noisymnist", {"images": np.ones((4, 784))}, r"mnist\.npz does not hold MNIST.*and labels"),
        ("noisymnist", {"labels": np.arange(4)}, "no view was given"),
    ],
)  # fmt: skip
def test_files_with_other_content_are_refused(data_folder, name, held, words):
    np.savez(data_folder / CATALOGUE[name].files[0], **held)
    with pytest.raises(DataError, match=words):
        load_dataset(name)


@pytest.mark.parametrize("name", ["handwritten", "noisymnist"])
def test_files_that_are_no_archives_are_refused(data_folder, name):
    (data_folder / CATALOGUE[name].files[0]).write_text("404: Not Found")
    with pytest.raises(DataError, match=r"not a readable \.npz file"):
        load_dataset(name)


MFEAT = ["fourier", "factors", "karhunen", "zernike", "pixel", "morphological"]


@pytest.fixture
def openml(cache, monkeypatch):
    """OpenML as a dict of name → (data, target); remembers what was asked for."""
    tables, asked = {}, []

    def fetch_openml(name, *, version, as_frame, data_home):
        asked.append(name)
        assert (version, as_frame) == (1, False)
        assert Path(data_home).is_relative_to(cache)
        data, target = tables[name]
        return SimpleNamespace(data=data, target=np.array([str(t) for t in target], dtype=object))

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    return SimpleNamespace(tables=tables, asked=asked)


def test_handwritten_is_put_together_from_six_tables_once(openml, cache):
    classes = np.array([1, 10, 2, 3, 10, 4, 5, 6, 7, 8, 9])
    arrays = small_arrays("handwritten", len(classes))
    for kind, array in zip(MFEAT, arrays, strict=True):
        openml.tables[f"mfeat-{kind}"] = array.astype(np.float64), classes
    for _ in range(2):
        assert_holds(load_dataset("handwritten"), "handwritten", arrays, classes - 1)
    assert sorted(openml.asked) == sorted(openml.tables)
    assert [file.name for file in cache.iterdir()] == ["handwritten.npz"]


def test_handwritten_tables_in_different_orders_are_refused(openml, cache):
    for kind, array in zip(MFEAT, small_arrays("handwritten", 3), strict=True):
        openml.tables[f"mfeat-{kind}"] = array, [1, 3, 2] if kind == "pixel" else [1, 2, 3]
    with pytest.raises(DataError, match=r"could not be downloaded .*list their samples in different orders"):
        load_dataset("handwritten")
    assert not list(cache.iterdir())


def test_fashion_is_drawn_from_openml_once(openml):
    classes = np.random.default_rng(0).permutation(np.repeat([0, 1], 3100))
    openml.tables["Fashion-MNIST"] = coded_garments(classes), classes
    expected, labels = fashion_views(coded_garments(classes), classes)
    assert len(labels) == 2000
    for _ in range(2):
        assert_holds(load_dataset("fashion"), "fashion", expected.values(), labels)
    assert openml.asked == ["Fashion-MNIST"]


def test_noisymnist_gets_mnist_from_openml_once(openml, cache):
    given, classes = random_mnist()
    openml.tables["mnist_784"] = given.astype(np.float64), classes
    for _ in range(2):
        assert_holds(load_dataset("noisymnist"), "noisymnist", noisymnist_views(given, classes).values(), classes)
    assert openml.asked == ["mnist_784"]
    assert [file.name for file in cache.iterdir()] == ["mnist.npz"]


@pytest.mark.parametrize("name", DOWNLOADED)
@pytest.mark.parametrize("turned", [False, True])
def test_matlab_files_are_downloaded_once_and_checked_by_hash(cache, monkeypatch, name, turned):
    arrays, asked = small_arrays(name), []

    def retrieve(url, known_hash, path, fname):
        asked.append((url, known_hash))
        cells = np.empty((1, len(arrays)), dtype=object)
        cells[0, :] = [array.T.astype(float) if turned else array for array in arrays]
        scipy.io.savemat(path / fname, {"X": cells, "Y" if turned else "gt": LABELS[:, None] + 1})
        return str(path / fname)

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    for _ in range(2):
        assert_holds(load_dataset(name), name, arrays)
    ((url, known_hash),) = asked
    assert url.endswith(f"/{DOWNLOADED[name]}")
    assert re.search(r"/[0-9a-f]{40}/", url)  # a commit, not a branch that moves
    assert re.fullmatch("sha256:[0-9a-f]{64}", known_hash)
    assert [file.name for file in cache.iterdir()] == [f"{name}.npz"]
    assert all(array.dtype == np.float32 for array in load_dataset(name).views.arrays)


@pytest.mark.parametrize("error", [OSError("no route to host"), ValueError("SHA256 hash does not match")])
@pytest.mark.parametrize("name", ["handwritten", "scene15", "cub", "fashion", "noisymnist"])
def test_a_failed_download_names_the_way_out_and_leaves_nothing_behind(cache, monkeypatch, name, error):
    def retrieve(url, known_hash, path, fname):
        (path / fname).write_bytes(b"half a fi")
        raise error

    def fetch_openml(*args, **options):
        raise error

    monkeypatch.setattr(pooch, "retrieve", retrieve)
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    words = rf"'{name}' could not be downloaded \({error}\).*put {CATALOGUE[name].files[0]} into the folder.*ACOVA_DATA"
    with pytest.raises(DataError, match=words) as caught:
        load_dataset(name)
    assert caught.value.__cause__ is error
    assert not list(cache.iterdir())
    assert find_file(name) is None


def test_a_download_cut_off_while_storing_leaves_nothing_behind(openml, cache, monkeypatch):
    openml.tables["mnist_784"] = random_mnist()

    def savez(path, **arrays):
        path.write_bytes(b"half a fi")
        raise OSError("No space left on device")

    monkeypatch.setattr(np, "savez_compressed", savez)
    with pytest.raises(DataError, match="No space left on device"):
        load_dataset("noisymnist")
    assert not list(cache.iterdir())


def test_a_cache_that_cannot_be_written_names_the_way_out(cache, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setattr(catalogue, "_cache_folder", lambda: tmp_path / "file" / "cache")
    with pytest.raises(DataError, match=r"put cub\.npz into the folder.*ACOVA_DATA"):
        load_dataset("cub")


def test_a_damaged_file_in_the_cache_is_named_with_the_way_out(cache):
    cache.mkdir()
    save_npz(cache / "cub.npz", small_arrays("cub"), labels=LABELS)
    whole = bytearray((cache / "cub.npz").read_bytes())
    whole[500] ^= 1
    (cache / "cub.npz").write_bytes(whole)
    with pytest.raises(DataError, match=r"cub\.npz: not a readable .*CRC.*delete it, and it is downloaded again"):
        load_dataset("cub")


@pytest.mark.parametrize("kind", ["absent", "file"])
def test_a_data_folder_that_is_none_is_refused(cache, tmp_path, monkeypatch, kind):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ACOVA_DATA", str(tmp_path / kind))
    with pytest.raises(DataError, match=rf"ACOVA_DATA names '.*{kind}', which is no folder; correct or unset it"):
        load_dataset("cub")
    assert load_dataset("digits").views.n_samples == 1797


def test_a_connection_that_breaks_is_a_failed_download(cache, monkeypatch):
    def fetch_openml(*args, **options):
        raise http.client.IncompleteRead(b"half")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
    with pytest.raises(DataError, match=r"'fashion' could not be downloaded \(IncompleteRead.*ACOVA_DATA"):
        load_dataset("fashion")


def test_caltech5v_must_be_brought_along(cache):
    words = r"'caltech5v' cannot be downloaded: .*put caltech5v\.npz or Caltech-5V\.mat into the folder.*ACOVA_DATA"
    with pytest.raises(DataError, match=words):
        load_dataset("caltech5v")


def test_an_unknown_name_is_refused_with_a_hint():
    with pytest.raises(OptionError, match=r"name must be 'digits', .*; got 'scene-15'\. Did you mean 'scene15'\?"):
        load_dataset("scene-15")


def test_the_names_are_those_of_the_catalogue():
    assert dataset_names() == ["digits", "handwritten", "scene15", "cub", "fashion", "noisymnist", "caltech5v"]


def test_the_cache_is_the_users():
    assert catalogue._cache_folder() == Path(pooch.os_cache("acova"))


@pytest.mark.parametrize("name", ["handwritten", "scene15", "cub", "fashion"])
def test_published_files_are_what_the_catalogue_says(cache, monkeypatch, name):
    if not (SHARED / f"{name}.npz").is_file():
        pytest.skip(f"{SHARED} holds no {name}.npz")
    monkeypatch.setenv("ACOVA_DATA", str(SHARED))
    dataset, entry = load_dataset(name), CATALOGUE[name]
    assert dataset.views.n_samples == entry.n_samples
    assert dict(zip(dataset.views.names, dataset.views.sizes, strict=True)) == entry.view_sizes
    assert dataset.views.observed.all()
    np.testing.assert_array_equal(np.unique(dataset.labels), np.arange(entry.n_classes))
    assert dataset.n_classes == entry.n_classes
