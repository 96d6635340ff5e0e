"""A method of your own in a benchmark, without touching the library.

    python examples/add_a_method.py

Any class with `fit_predict(views)` can take part: `views` is a list of arrays, a row of NaN where a sample lacks the
view; `n_clusters` and `random_state` are passed to the constructor if it takes them. In a TOML file for `acova bench`
the same is ``use = "add_a_method:SharedNeighbours"``, this file lying beside it.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.metrics.pairwise import nan_euclidean_distances

from acova.bench import BenchSpec, Store, run_bench
from acova.bench.cells import Results
from acova.bench.tables import show


class SharedNeighbours:
    """Spectral clustering of similarities that are averaged over the views that two samples share."""

    def __init__(self, n_clusters: int, random_state: int = 0, n_neighbors: int = 10) -> None:
        self.n_clusters, self.random_state, self.n_neighbors = n_clusters, random_state, n_neighbors

    def fit_predict(self, views: list[np.ndarray]) -> np.ndarray:
        """Return the cluster of each sample."""
        distances = [nan_euclidean_distances(view) for view in views]
        scales = [np.nanmean(np.sort(far, axis=1)[:, self.n_neighbors]) for far in distances]
        near = np.array([np.exp(-np.square(far / scale)) for far, scale in zip(distances, scales, strict=True)])
        shared = np.maximum((~np.isnan(near)).sum(axis=0), 1)
        graph = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=self.random_state)
        return graph.fit_predict(np.nan_to_num(near).sum(axis=0) / shared)


if __name__ == "__main__":
    mine = {"name": "SharedNeighbours", "use": "add_a_method:SharedNeighbours", "scale": "zscore"}
    held = {"name": "own", "data": ["digits"], "methods": ["Concat", mine], "missing": [30, 70], "runs": 1}
    spec = BenchSpec.from_dict(held, folder=str(Path(__file__).parent))
    with TemporaryDirectory() as folder:  # a path of your own would keep the rows, and never repeat a fit
        store = Store(Path(folder) / "own.jsonl")
        run_bench(spec, store, n_jobs=1, verbose=True)
        show(Results.of(spec, store), ["acc"])
