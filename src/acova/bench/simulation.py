"""Data whose views are known to have errors in common: the paper's simulation."""

import numpy as np

from acova.base import Streams
from acova.base.errors import check_number
from acova.data import Dataset, Views, load_dataset


def duplicated_fashion(noise: float = 0.0, seed: int = 0) -> Dataset:
    """Show every Fashion image twice, one of the two copies under pepper noise.

    The first copy is spoilt for a random half of the samples and the second for the others, so that no sample has two
    spoilt or two clean copies. Pepper noise sets each pixel to black with probability `noise`.

    Parameters
    ----------
    noise : float
        From 0 (two equal copies) to 1 (the spoilt copy is black).
    seed : int
    """
    check_number("duplicated_fashion", "noise", noise, minimum=0, maximum=1)
    fashion = load_dataset("fashion")
    return pepper_copies(fashion, noise, seed)


def pepper_copies(dataset: Dataset, noise: float, seed: int = 0) -> Dataset:
    """Return two copies of a data set's first view, pepper noise in exactly one copy of each sample."""
    image = np.asarray(dataset.views.arrays[0])
    streams = Streams(seed).child("pepper")
    count = len(image)
    first = np.zeros(count, dtype=bool)
    first[streams.numpy("which").permutation(count)[: count // 2]] = True
    black = streams.numpy("pixels").random(image.shape, dtype=np.float32) < noise
    copies = {
        "copy_1": np.where(black & first[:, None], 0, image),
        "copy_2": np.where(black & ~first[:, None], 0, image),
    }
    return Dataset(f"{dataset.name}, noise {noise:g}", Views.of(copies), dataset.labels)


def many_views(n_views: int = 32, n_samples: int = 1000, seed: int = 0) -> Dataset:
    """Make views of 40 columns each, as many as asked for, of four clusters: to measure time against their number.

    Parameters
    ----------
    n_views : int
    n_samples : int
    seed : int
    """
    from acova.data import make_views

    check_number("many_views", "n_views", n_views, minimum=1, integer=True)
    sizes = {f"view_{number}": {"n_features": 40, "n_informative": 10} for number in range(n_views)}
    return make_views(n_samples, 4, sizes, random_state=seed)
