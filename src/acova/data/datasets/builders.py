"""How the data sets that have to be made are made: deterministic functions of arrays and a seed."""

import numpy as np
from numpy.typing import NDArray

from acova.base import Streams

ViewArrays = dict[str, NDArray[np.float32]]


def digits_views(images: NDArray[np.floating]) -> ViewArrays:
    """Describe 8×8 grey images in four ways.

    Parameters
    ----------
    images : array of shape (n_samples, 8, 8)

    Returns
    -------
    dict
        ``pixels`` (64), ``fourier`` (40 magnitudes of the two-dimensional spectrum), ``profiles`` (32:
        sums and centres of mass of rows and columns), ``gradients`` (32: histograms of 8 edge
        orientations in the four quadrants, weighted by edge strength).
    """
    count = len(images)
    spectrum = np.abs(np.fft.rfft2(images)).reshape(count, -1)
    profiles = np.hstack([_profile(images), _profile(images.transpose(0, 2, 1))])
    views = {
        "pixels": images.reshape(count, -1),
        "fourier": np.log1p(spectrum),
        "profiles": profiles,
        "gradients": _orientations(images),
    }
    return {name: array.astype(np.float32) for name, array in views.items()}


def _profile(images: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return each row's sum and centre of mass (the middle for an empty row)."""
    mass = images.sum(axis=2)
    places = np.arange(images.shape[2]) - (images.shape[2] - 1) / 2
    centre = (images * places).sum(axis=2) / np.where(mass > 0, mass, 1.0)
    return np.hstack([mass, centre])


def _orientations(images: NDArray[np.floating], bins: int = 8) -> NDArray[np.floating]:
    vertical, horizontal = np.gradient(images, axis=(1, 2))
    strength = np.hypot(vertical, horizontal)
    angle = np.mod(np.arctan2(vertical, horizontal), 2 * np.pi)
    which = np.minimum((angle / (2 * np.pi) * bins).astype(int), bins - 1)
    votes = strength[..., None] * (which[..., None] == np.arange(bins))
    half = images.shape[1] // 2
    quadrants = [votes[:, r : r + half, c : c + half].sum(axis=(1, 2)) for r in (0, half) for c in (0, half)]
    return np.hstack(quadrants)


def fashion_views(
    images: NDArray[np.uint8], classes: NDArray[np.integer], seed: int = 0, per_class: int = 1000
) -> tuple[dict[str, NDArray[np.uint8]], NDArray[np.int64]]:
    """Pair different garments of one class as three views of one item.

    Per class, three disjoint draws of `per_class` images (without replacement, seeded) become the three
    views.

    Returns
    -------
    views : dict of three uint8 arrays of shape (n_classes * per_class, 784)
    labels : array of shape (n_classes * per_class,)
    """
    labels = np.unique(classes)
    streams = Streams(seed)
    drawn = [
        streams.numpy("fashion", label).permutation(np.flatnonzero(classes == label))[: 3 * per_class].reshape(3, -1)
        for label in labels
    ]
    rows = np.hstack(drawn)
    views = {f"view_{v}": images[rows[v]] for v in range(3)}
    return views, np.repeat(np.arange(len(labels)), [part.shape[1] for part in drawn])


def noisymnist_views(images: NDArray[np.uint8], classes: NDArray[np.integer], seed: int = 0) -> ViewArrays:
    """Make the two views of NoisyMNIST from digit images.

    Returns
    -------
    dict
        ``rotated``: the image turned by an angle from U(-45°, 45°); ``noisy``: another image of the same
        class plus U(0, 1) noise per pixel, clipped to [0, 1]. Values lie in [0, 1].
    """
    from scipy.ndimage import rotate

    streams = Streams(seed)
    square = images.reshape(-1, 28, 28).astype(np.float32) / 255
    angles = streams.numpy("noisymnist", "angle").uniform(-45, 45, len(square))
    turned = np.stack(
        [rotate(image, angle, reshape=False, order=1) for image, angle in zip(square, angles, strict=True)]
    )
    # Along a random cycle through the class every image meets another one, and is used once.
    partner = np.empty(len(square), dtype=np.int64)
    for label in np.unique(classes):
        cycle = streams.numpy("noisymnist", "partner", label).permutation(np.flatnonzero(classes == label))
        partner[cycle] = np.roll(cycle, 1)
    noise = streams.numpy("noisymnist", "noise").random((len(square), 784), dtype=np.float32)
    noisy = np.clip(square.reshape(-1, 784)[partner] + noise, 0.0, 1.0)
    return {"rotated": np.clip(turned.reshape(-1, 784), 0.0, 1.0), "noisy": noisy}
