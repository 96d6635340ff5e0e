"""Cluster the latent vectors of scvi-tools' TOTALVI, beside the fits of ``likelihoods.py`` and ``covariates.py``.

    pip install scvi-tools igraph leidenalg
    python -P benchmarks/scvi_latents.py pbmc_mosaic_counts.npz --epochs 400 --acova

(``-P``: scvi-tools imports a package with the name of ``sparse.py`` here.) The file holds raw counts of genes
(``view_0``) and surface proteins (``view_1``), ``labels`` and ``batch``. TOTALVI needs the genes of every cell, so it
gets the cells that have them, with the batch; a batch without proteins counts as missing, as TOTALVI does for zeros
throughout. Its latent means (20 dimensions, its default) are clustered by k-means with the true number of clusters, and
by Leiden on the graph of 15 neighbours at resolution 1 and at the resolution that gives the true number. A line per
clustering gives ACC, NMI and ARI. With ``--acova`` the same cells are scored in a fit of ACOVA on all cells
(``n_init=1``, ``standardize="counts"``), without and with the batch.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.cluster import KMeans

from acova.metrics import clustering_scores

_STEPS = 12
"""Halvings of the interval in which the resolution is looked for."""


def read_file(path: str) -> dict[str, np.ndarray]:
    """Return the arrays of a file."""
    with np.load(path) as stored:
        return {name: stored[name] for name in ("view_0", "view_1", "labels", "batch")}


def totalvi_latents(data: dict[str, np.ndarray], epochs: int, seed: int) -> np.ndarray:
    """Return TOTALVI's latent means of the cells."""
    import anndata
    import scvi

    scvi.settings.seed = seed
    cells = pd.DataFrame({"batch": data["batch"].astype(str)}, index=[f"c{i}" for i in range(len(data["batch"]))])
    table = anndata.AnnData(data["view_0"], obs=cells)
    table.obsm["proteins"] = np.nan_to_num(data["view_1"])
    scvi.model.TOTALVI.setup_anndata(table, batch_key="batch", protein_expression_obsm_key="proteins")
    model = scvi.model.TOTALVI(table)
    model.train(max_epochs=epochs, accelerator="cpu", devices=1, enable_progress_bar=False)
    return np.asarray(model.get_latent_representation())


def leiden(latents: np.ndarray, resolution: float, seed: int) -> np.ndarray:
    """Return Leiden's clusters of the neighbour graph of latent vectors."""
    import anndata
    import scanpy

    table = anndata.AnnData(latents)
    scanpy.pp.neighbors(table, n_neighbors=15, use_rep="X", random_state=seed)
    scanpy.tl.leiden(table, resolution, random_state=seed, flavor="igraph", n_iterations=2, directed=False)
    return table.obs["leiden"].to_numpy().astype(int)


def leiden_of_number(latents: np.ndarray, number: int, seed: int) -> np.ndarray:
    """Return Leiden's clusters at a resolution that gives this number of them, or the nearest that was found."""
    low, high, best = 0.01, 3.0, leiden(latents, 1.0, seed)
    for _ in range(_STEPS):
        found = leiden(latents, (low + high) / 2, seed)
        count = found.max() + 1
        if abs(count - number) < abs(best.max() + 1 - number):
            best = found
        if count == number:
            break
        low, high = ((low + high) / 2, high) if count < number else (low, (low + high) / 2)
    return best


def acova_labels(data: dict[str, np.ndarray], number: int, seed: int) -> dict[str, np.ndarray]:
    """Return ACOVA's clusters of all cells, without and with the batch."""
    from acova import ACOVA, Views

    views = Views.of([data["view_0"], data["view_1"]])
    batch = pd.DataFrame({"batch": data["batch"].astype(str)}, index=views.index)
    settings: dict[str, Any] = {"n_init": 1, "standardize": "counts", "random_state": seed}
    return {
        "ACOVA": ACOVA(number, **settings).fit(views).labels_,
        "ACOVA, batch": ACOVA(number, **settings).fit(views, covariates=batch).labels_,
    }


def compare(data: dict[str, np.ndarray], epochs: int, seed: int, *, with_acova: bool) -> None:
    """Print the scores of all clusterings with one seed."""
    rows = ~np.isnan(data["view_0"]).all(axis=1)
    labels = data["labels"][rows]
    number = len(np.unique(labels[labels >= 0]))
    start = time.process_time()
    latents = totalvi_latents({name: part[rows] for name, part in data.items()}, epochs, seed)
    seconds = time.process_time() - start
    found = {
        "TOTALVI, k-means": KMeans(number, n_init=10, random_state=seed).fit_predict(latents),
        "TOTALVI, Leiden": leiden(latents, 1.0, seed),
        f"TOTALVI, Leiden at {number}": leiden_of_number(latents, number, seed),
    }
    if with_acova:
        found |= {name: all_cells[rows] for name, all_cells in acova_labels(data, number, seed).items()}
    for name, clusters in found.items():
        scores = clustering_scores(labels[labels >= 0], clusters[labels >= 0])
        print(
            f"{name:22} seed {seed}  {clusters.max() + 1} clusters  acc {scores['acc']:.3f}  nmi {scores['nmi']:.3f}  "
            f"ari {scores['ari']:.3f}",
            flush=True,
        )
    print(f"TOTALVI: {epochs} epochs, {rows.sum()} cells, {seconds:.0f} s of CPU")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--acova", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for seed in given.seeds:
        compare(read_file(given.data), given.epochs, seed, with_acova=given.acova)


if __name__ == "__main__":
    main()
