"""Simple methods that a user could pick instead, for benchmarks: clustering of the KNN-imputed table."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.cluster import KMeans, SpectralClustering

from acova.training.neighbours import fill_by_nearest


def imputed_table(views: Sequence[NDArray[np.float64]], n_neighbors: int = 5) -> NDArray[np.float64]:
    """Return the views side by side, hidden rows filled as `KNNImpute` and scikit-learn's `KNNImputer` do."""
    observed = torch.from_numpy(np.column_stack([~np.isnan(view).all(axis=1) for view in views]))
    tables = [torch.from_numpy(np.nan_to_num(view)) for view in views]
    return np.hstack([table.numpy() for table in fill_by_nearest(tables, observed, tables, observed, n_neighbors)])


class KNNSpectral(ClusterMixin, BaseEstimator):
    """Spectral clustering of the KNN-imputed table, on a graph of nearest neighbours (scikit-learn's settings).

    Parameters
    ----------
    n_clusters : int
    n_neighbors : int
        Neighbours in the graph.
    random_state : int or None
    """

    def __init__(self, n_clusters: int = 8, n_neighbors: int = 10, random_state: int | None = None) -> None:
        self.n_clusters = n_clusters
        self.n_neighbors = n_neighbors
        self.random_state = random_state

    def fit_predict(self, X: Sequence[NDArray[np.float64]], y: None = None) -> NDArray[np.int64]:
        """Return the clusters of views whose hidden rows are NaN."""
        model = SpectralClustering(
            self.n_clusters,
            affinity="nearest_neighbors",
            n_neighbors=self.n_neighbors,
            random_state=self.random_state,
        )
        return model.fit_predict(imputed_table(X))


class KNNUMAP(ClusterMixin, BaseEstimator):
    """k-means on a UMAP embedding of the KNN-imputed table; needs umap-learn (``pip install 'acova[umap]'``).

    Parameters
    ----------
    n_clusters : int
    n_components : int
        Dimensions of the embedding.
    n_neighbors : int
        Neighbours of UMAP.
    random_state : int or None
    """

    def __init__(
        self, n_clusters: int = 8, n_components: int = 10, n_neighbors: int = 15, random_state: int | None = None
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.n_neighbors = n_neighbors
        self.random_state = random_state

    def fit_predict(self, X: Sequence[NDArray[np.float64]], y: None = None) -> NDArray[np.int64]:
        """Return the clusters of views whose hidden rows are NaN."""
        from umap import UMAP

        table = imputed_table(X)
        embedding = UMAP(
            n_components=self.n_components,
            n_neighbors=min(self.n_neighbors, len(table) - 1),
            min_dist=0.0,
            random_state=self.random_state,
        )
        points = embedding.fit_transform(table)
        return KMeans(self.n_clusters, n_init=10, random_state=self.random_state).fit_predict(points)
