"""From latent vectors to points in the plane."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import OptionError
from acova.base.errors import check_choice

MAPS = ("t-SNE", "PCA", "UMAP")
_LEAST = 10
"""Distinct latent vectors below which only PCA makes sense."""


def map_points(who: str, latent: NDArray[Any], method: str, random_state: int = 0) -> tuple[NDArray[np.float64], str]:
    """Return points (n, 2) for latent vectors (n, D), and the name of the method that made them.

    Fewer than ten distinct latent vectors, and a single latent dimension, are always mapped by PCA: t-SNE and UMAP need
    neighbours at some distance. Vectors that are not finite get NaN. `who` speaks in errors.

    See Also
    --------
    LatentDisplay : Draws the map.
    """
    check_choice(who, "method", method, MAPS)
    latent = np.asarray(latent)
    finite = np.isfinite(latent).all(axis=1)
    points = np.full((len(latent), 2), np.nan)
    known = latent[finite]
    if method != "PCA" and (latent.shape[1] == 1 or len(_distinct(known)) < _LEAST):
        method = "PCA"
    if len(known):
        points[finite] = _MADE_BY[method](who, known, random_state)
    return points, method


def t_sne(vectors: NDArray[Any], random_state: int = 0) -> NDArray[Any]:
    """Return points (n, 2) for vectors (n, D) by t-SNE from their principal components."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    return np.asarray(TSNE(perplexity=perplexity, init="pca", random_state=random_state).fit_transform(vectors))


def _distinct(latent: NDArray[Any]) -> NDArray[Any]:
    return np.unique(_unit_scale(latent)[0].astype(np.float32), axis=0)


def _unit_scale(latent: NDArray[Any]) -> tuple[NDArray[np.float64], int]:
    """Return vectors of sizes up to 1, whose squares do not overflow, and the power of two they were divided by."""
    latent = latent.astype(np.float64)
    exponent = int(np.frexp(np.abs(latent).max(initial=0.0))[1])
    return np.ldexp(latent, -exponent), exponent


def _tsne(who: str, latent: NDArray[Any], random_state: int) -> NDArray[np.float64]:
    return t_sne(_unit_scale(latent)[0].astype(np.float32), random_state)


def _pca(who: str, latent: NDArray[Any], random_state: int) -> NDArray[np.float64]:
    from sklearn.decomposition import PCA

    count, dim = latent.shape
    points = np.zeros((count, 2))
    if (latent != latent[0]).any():  # scikit-learn divides by the variance
        axes, (scaled, exponent) = min(2, count, dim), _unit_scale(latent)
        points[:, :axes] = np.ldexp(PCA(axes, random_state=random_state).fit_transform(scaled), exponent)
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


_MADE_BY = {"t-SNE": _tsne, "PCA": _pca, "UMAP": _umap}
