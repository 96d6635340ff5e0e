"""Compare fits with and without a batch as covariate, on made data and on files with batches.

    python benchmarks/covariates.py made --seeds 0 1 2
    python benchmarks/covariates.py pbmc_mosaic_counts.npz --standardize counts --seeds 0 1

``made`` draws three Gaussian clusters in two views and adds a shift of every feature for each of two batches: none, the
same in all clusters, or one of which a third differs from cluster to cluster; once where both batches hold the same
clusters and once where clusters are up to four times as frequent in one. A file is an ``.npz`` with ``view_0``,
``view_1``, …, ``labels`` and ``batch``. Every fit is one run (``n_init=1``) with default settings otherwise, without
the batch and with it by every word of ``--uses`` (values of ``covariate_use``). A line per fit gives ACC, NMI, and two
measures of how well batches mix in the latent space: the silhouette of the batches (0: mixed, 1: apart), and how much
more frequent a sample's own batch is among its 30 nearest neighbours than among all samples (0: mixed), averaged within
true clusters.
"""

import argparse
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from sklearn.metrics import silhouette_score
from sklearn.neighbors import NearestNeighbors

from acova import ACOVA, Views
from acova.metrics import clustering_scores

Data = tuple[Views, np.ndarray, np.ndarray]
KINDS: dict[str, Any] = {
    "no effect": {"shift": 0.0},
    "shift": {"shift": 1.0},
    "shift by cluster": {"shift": 0.9, "differs": 0.5},
}
USES = ("without", "adjust", "decode", "encode", "both")


def read_file(path: str) -> Data:
    """Return views, labels and batches of a file."""
    with np.load(path) as stored:
        arrays = [stored[f"view_{v}"] for v in range(int(stored["n_views"]))]
        return Views.of(arrays), stored["labels"], stored["batch"].astype(str)


def make_data(shift: float, seed: int, *, balanced: bool, differs: float = 0.0) -> Data:
    """Return 300 samples of three clusters in two batches."""
    rng = np.random.default_rng(seed)
    batch = np.repeat(["a", "b"], 150)
    first = [50, 50, 50] if balanced else [80, 50, 20]
    labels = np.concatenate([np.repeat(np.arange(3), first), np.repeat(np.arange(3), first[::-1])])
    arrays = []
    for v, width in enumerate((40, 25)):
        table = rng.normal(0, 0.6, (3, width))[labels] + rng.normal(size=(300, width))
        table += shift * rng.normal(size=(2, width))[(batch == "b").astype(int)]
        if differs:
            table += differs * rng.normal(size=(3, width))[labels] * (batch == "b")[:, None]
        table[np.arange(300) % 6 == v] = np.nan
        arrays.append(table)
    return Views.of(arrays), labels, batch


def mixing(latent: np.ndarray, labels: np.ndarray, batch: np.ndarray) -> tuple[float, float]:
    """Return the silhouette of the batches and the excess of own neighbours, averaged within true clusters."""
    found = []
    for label in np.unique(labels[labels >= 0]):
        rows = labels == label
        points, names = latent[rows], batch[rows]
        if min(np.unique(names, return_counts=True)[1]) < 2 or len(np.unique(names)) < 2:
            continue
        near = NearestNeighbors(n_neighbors=min(30, len(points) - 1)).fit(points).kneighbors(return_distance=False)
        own = (names[near] == names[:, None]).mean()
        expected = np.mean([(names == name).sum() - 1 for name in names]) / (len(names) - 1)
        found.append((silhouette_score(points, names), own - expected))
    silhouette, excess = np.mean(found, axis=0)
    return float(silhouette), float(excess)


def scores_of(name: str, data: Data, seed: int, use: str, settings: dict[str, Any]) -> str:
    """Fit without the batch or with it, and return the line of the scores."""
    torch.set_num_threads(1)
    views, labels, batch = data
    known = labels >= 0
    told = {} if use == "without" else {"covariate_use": use}
    model = ACOVA.from_settings(len(set(labels[known])), **settings, **told, n_init=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(views, covariates=pd.DataFrame({"batch": batch}, index=views.index) if told else None)
    scores = clustering_scores(labels[known], model.labels_[known])
    silhouette, excess = mixing(np.asarray(model.latent_), labels, batch)
    return (
        f"{name:34} {use:7} seed {seed}  acc {scores['acc']:.3f}  nmi {scores['nmi']:.3f}  silhouette of batches "
        f"{silhouette:+.3f}  own neighbours {excess:+.3f}"
    )


def data_sets(source: str, seed: int) -> Iterator[tuple[str, Data]]:
    """Yield what there is to fit, by name: a file, or what is made."""
    if source != "made":
        yield Path(source).stem, read_file(source)
        return
    for (kind, sizes), balanced in product(KINDS.items(), (True, False)):
        name = f"made, {kind}, {'balanced' if balanced else 'confounded'}"
        yield name, make_data(seed=seed, balanced=balanced, **sizes)


def main() -> None:
    """Compare on every data set with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="files, or 'made'")
    parser.add_argument("--standardize", help="default: what the recipe says")
    parser.add_argument("--uses", nargs="+", choices=USES, default=list(USES), help="default: all")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    settings = {"device": given.device} | ({} if given.standardize is None else {"standardize": given.standardize})
    tasks = (
        delayed(scores_of)(name, data, seed, use, settings)
        for source, seed in product(given.data, given.seeds)
        for name, data in data_sets(source, seed)
        for use in given.uses
    )
    for line in Parallel(given.jobs, return_as="generator")(tasks):
        print(line, flush=True)


if __name__ == "__main__":
    main()
