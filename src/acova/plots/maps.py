"""From latent vectors to points in the plane."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import OptionError, check_choice

MAPS = ("t-SNE", "PCA", "UMAP")
_LEAST = 10
"""Samples below which only PCA makes sense."""


def map_points(who: str, latent: NDArray[Any], method: str, random_state: int = 0) -> tuple[NDArray[np.float64], str]:
    """Return points (n, 2) for latent vectors (n, D), and the name of the method that made them.

    Fewer than ten samples, and a single latent dimension, are always mapped by PCA. `who` speaks in errors.
    """
    check_choice(who, "method", method, MAPS)
    count, dim = latent.shape
    latent = np.asarray(latent, dtype=np.float32)
    if method == "PCA" or count < _LEAST or dim == 1:
        return _pca(latent, random_state), "PCA"
    if method == "UMAP":
        return _umap(who, latent, random_state), "UMAP"
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (count - 1) / 3)
    return TSNE(perplexity=perplexity, init="pca", random_state=random_state).fit_transform(latent), "t-SNE"


def _pca(latent: NDArray[Any], random_state: int) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    count, dim = latent.shape
    points = np.zeros((count, 2))
    if count > 1:
        axes = min(2, count, dim)
        points[:, :axes] = PCA(axes, random_state=random_state).fit_transform(latent)
    return points


def _umap(who: str, latent: NDArray[Any], random_state: int) -> NDArray[np.float64]:
    try:
        from umap import UMAP
    except ImportError:
        msg = f"{who}: method='UMAP' needs the package umap-learn; install it with: pip install 'acova[umap]'"
        raise OptionError(msg) from None
    neighbors = min(15, len(latent) - 1)
    # One thread is what umap-learn takes for a given seed; saying so spares its warning.
    return np.asarray(UMAP(n_neighbors=neighbors, random_state=random_state, n_jobs=1).fit_transform(latent))
