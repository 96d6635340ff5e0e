"""The data sets of the field: where they are, how to get them, how they are put together.

A data set rests on one file. It is looked for in the folder that the environment variable ``ACOVA_DATA``
names, then in the user's cache; where it can be downloaded, it is downloaded into the cache once.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import DataError
from acova.base.errors import check_choice
from acova.data.datasets.builders import digits_views, fashion_views, noisymnist_views
from acova.data.files.formats import Dataset, read_views
from acova.data.views import Views

_SCENE15_URL = "https://github.com/XLearning-SCU/2021-CVPR-Completer/raw/ad37110046234341dab63b0ed0c862680a69e27a/data/Scene-15.mat"
_CUB_URL = (
    "https://github.com/zmxu196/ACOVA/raw/6828f723298feb798ac19a57d661b6ee5a26f606/data/cub_googlenet_doc2vec_c10.mat"
)


@dataclass(frozen=True)
class Entry:
    """What the catalogue knows about a data set."""

    n_samples: int
    n_classes: int
    view_sizes: dict[str, int]
    licence: str
    about: str
    files: tuple[str, ...] = ()
    """Any one of these holds the data; none for an embedded set."""
    fetch: Callable[[Path], None] | None = None
    """Writes ``files[0]`` to the given path; None where the user must bring the file."""
    build: Callable[[Path], tuple[Any, NDArray[Any]]] | None = None
    """Makes views and labels from the file; None where the file holds them."""


def dataset_names() -> list[str]:
    """Return the names `load_dataset` knows.

    See Also
    --------
    load_dataset : Loads one of them.
    """
    return list(CATALOGUE)


def load_dataset(name: str) -> Dataset:
    """Load a data set of the catalogue, complete (hide views with `make_observed` and `Views.hide`).

    Parameters
    ----------
    name : str
        See `dataset_names`, or ``acova datasets`` on the command line.

    Returns
    -------
    Dataset
        Views (unscaled, as published) and labels.

    See Also
    --------
    dataset_names : All names.
    make_views : Simulated data with known clusters.
    """
    check_choice("load_dataset", "name", name, CATALOGUE)
    entry = CATALOGUE[name]
    if not entry.files:
        views, labels = _embedded_digits()
    else:
        build = entry.build or partial(_as_stored, name)
        file = find_file(name) or _fetched(name)
        try:
            views, labels = build(file)
        except DataError as error:
            if entry.fetch is None or file.parent != _cache_folder():
                raise
            msg = f"{error} This is a file of the cache: delete it, and it is downloaded again."
            raise DataError(msg) from error
    return Dataset(name, Views.of(views), np.asarray(labels).astype(np.int64))


def find_file(name: str) -> Path | None:
    """Return the file that holds a data set on this machine, or None."""
    for folder in _folders():
        for file in CATALOGUE[name].files:
            if (folder / file).is_file():
                return folder / file
    return None


def _folders() -> Iterator[Path]:
    named = os.environ.get("ACOVA_DATA")
    if named:
        folder = Path(named).expanduser()
        if not folder.is_dir():
            msg = f"the environment variable ACOVA_DATA names {named!r}, which is no folder; correct or unset it."
            raise DataError(msg)
        yield folder
    yield _cache_folder()


def _cache_folder() -> Path:
    import pooch

    return Path(str(pooch.os_cache("acova")))


def _fetched(name: str) -> Path:
    entry = CATALOGUE[name]
    place = f"put {' or '.join(entry.files)} into the folder that the environment variable ACOVA_DATA names"
    if entry.fetch is None:
        msg = f"{name!r} cannot be downloaded: {entry.about} To use it, {place}."
        raise DataError(msg)
    target = _cache_folder() / entry.files[0]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent) as scratch:
            part = Path(scratch) / target.name
            entry.fetch(part)
            part.replace(target)
    except Exception as error:  # connections that break raise errors of many kinds
        msg = f"{name!r} could not be downloaded ({error}). Check the network, or {place}."
        raise DataError(msg) from error
    return target


def _as_stored(name: str, path: Path) -> tuple[dict[str, NDArray[Any]], NDArray[Any]]:
    sizes, dataset = CATALOGUE[name].view_sizes, read_views(path)
    if dataset.views.sizes != tuple(sizes.values()) or dataset.labels is None:
        msg = (
            f"{path} does not hold {name!r}: expected views of widths {list(sizes.values())} and labels; "
            f"got widths {list(dataset.views.sizes)}."
        )
        raise DataError(msg)
    return dict(zip(sizes, dataset.views.arrays, strict=True)), dataset.labels


def _embedded_digits() -> tuple[dict[str, NDArray[np.float32]], NDArray[np.int64]]:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits_views(digits.images), digits.target


def _download(url: str, sha256: str) -> Callable[[Path], None]:
    """Return a function that downloads a .mat file, checks its hash and stores it as .npz."""

    def fetch(target: Path) -> None:
        import pooch

        source = pooch.retrieve(url, known_hash=f"sha256:{sha256}", path=target.parent, fname="source.mat")
        dataset = read_views(source)
        arrays = {f"view_{v}": array.astype(np.float32) for v, array in enumerate(dataset.views.arrays)}
        _save(target, arrays, dataset.labels)

    return fetch


def _openml(name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    from sklearn.datasets import fetch_openml

    table = fetch_openml(name, version=1, as_frame=False, data_home=str(_cache_folder() / "openml"))
    return np.asarray(table.data), np.asarray(table.target).astype(np.int64)


def _fetch_handwritten(target: Path) -> None:
    tables = [
        _openml(f"mfeat-{kind}") for kind in ("fourier", "factors", "karhunen", "zernike", "pixel", "morphological")
    ]
    classes = tables[0][1]
    if any(not np.array_equal(classes, other) for _, other in tables):
        msg = "the six mfeat tables list their samples in different orders"
        raise ValueError(msg)
    arrays = {f"view_{v}": data.astype(np.float32) for v, (data, _) in enumerate(tables)}
    _save(target, arrays, np.unique(classes, return_inverse=True)[1])


def _fetch_fashion(target: Path) -> None:
    images, classes = _openml("Fashion-MNIST")
    views, labels = fashion_views(images.astype(np.uint8), classes)
    _save(target, views, labels)


def _fetch_mnist(target: Path) -> None:
    images, labels = _openml("mnist_784")
    np.savez_compressed(target, images=images.astype(np.uint8), labels=labels.astype(np.uint8))


def _build_noisymnist(path: Path) -> tuple[dict[str, NDArray[np.float32]], NDArray[Any]]:
    dataset = read_views(path)
    if dataset.views.sizes != (784,) or dataset.labels is None:
        msg = f"{path} does not hold MNIST: expected images (n_samples, 784) and labels; got {dataset.views!r}."
        raise DataError(msg)
    return noisymnist_views(dataset.views.arrays[0].astype(np.uint8), dataset.labels), dataset.labels


def _save(target: Path, arrays: dict[str, NDArray[Any]], labels: Any) -> None:
    np.savez_compressed(target, labels=np.asarray(labels), **arrays)  # type: ignore[arg-type]


CATALOGUE = {
    "digits": Entry(
        1797, 10, {"pixels": 64, "fourier": 40, "profiles": 32, "gradients": 32},
        "CC BY 4.0", "Optical digits that come with scikit-learn, described in four ways; needs no network.",
    ),
    "handwritten": Entry(
        2000, 10, {"fou": 76, "fac": 216, "kar": 64, "zer": 47, "pix": 240, "mor": 6},
        "CC BY 4.0", "UCI Multiple Features, from OpenML's six mfeat tables.",
        ("handwritten.npz",), _fetch_handwritten,
    ),
    "scene15": Entry(
        4485, 15, {"view_0": 20, "view_1": 59, "view_2": 40},
        "not stated", "Scene-15, three visual descriptors as published with COMPLETER.",
        ("scene15.npz",),
        _download(_SCENE15_URL, "ec33b5e1f53eea04ccacc8b7bdfc6091ed490b04214eb41fd83c05a0a173221f"),
    ),
    "cub": Entry(
        600, 10, {"image": 1024, "text": 300},
        "not stated", "CUB birds, GoogLeNet image and doc2vec caption features as published with ACOVA.",
        ("cub.npz",),
        _download(_CUB_URL, "3003523c47747d9a4da3afb967a72e0c5b841363d92465db0917c945789a6bdc"),
    ),
    "fashion": Entry(
        10000, 10, {"view_0": 784, "view_1": 784, "view_2": 784},
        "MIT", "Fashion-MNIST: three different garments of one class are the views of one item.",
        ("fashion.npz",), _fetch_fashion,
    ),
    "noisymnist": Entry(
        70000, 10, {"rotated": 784, "noisy": 784},
        "CC BY-SA 3.0", "MNIST: a rotated digit, and another digit of its class under noise.",
        ("mnist.npz",), _fetch_mnist, _build_noisymnist,
    ),
    "caltech5v": Entry(
        1400, 7, {"wm": 40, "centrist": 254, "hog": 1984, "gist": 512, "lbp": 928},
        "not stated", "Caltech-7, five visual descriptors (matrices X1 … X5 and Y, or view_0 … view_4 and labels).",
        ("caltech5v.npz", "Caltech-5V.mat"),
    ),
}  # fmt: skip
