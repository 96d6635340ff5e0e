"""What a user would pick instead of ACOVA, on the same masks: KNN-imputed k-means, NEMO, EEIMVC, PIMVC.

    python benchmarks/peers.py handwritten scene15 cub --runs 5

Every run r hides views with mask seed r and clusters with seed r. Features are z-scored on observed rows and every view
is divided by the root of its width, so that all views weigh the same. KNN-imputed k-means is scikit-learn's
`KNNImputer` (5 neighbours) and `KMeans` (10 restarts); the others come from the package imml (`pip install
'acova[bench]'`) with their default settings. A method that fails, or takes longer than --limit seconds,
leaves a row with the reason. Rows are appended to results/peers.jsonl; runs that are there are not repeated.
"""

import argparse
import json
import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer

from acova.base.version import __version__
from acova.data import Scaling, load_dataset, make_observed
from acova.metrics import clustering_scores

METHODS = ("knn_kmeans", "NEMO", "EEIMVC", "PIMVC")
OUT = Path(__file__).resolve().parents[1] / "results" / "peers.jsonl"


def scaled_views(views, observed) -> list[np.ndarray]:
    """Return z-scored views of equal weight, NaN where hidden."""
    hidden = views.hide(observed)
    arrays = Scaling.fit(hidden, ("zscore",) * views.n_views).transform(hidden)
    roots = [np.sqrt(array.shape[1]) for array in arrays]
    return [np.where(observed[:, [v]], array / roots[v], np.nan) for v, array in enumerate(arrays)]


def cluster(method: str, views: list[np.ndarray], n_clusters: int, seed: int) -> np.ndarray:
    """Return the labels that a method gives."""
    if method == "knn_kmeans":
        filled = KNNImputer(n_neighbors=5).fit_transform(np.hstack(views))
        return KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(filled)
    import imml.cluster

    return getattr(imml.cluster, method)(n_clusters=n_clusters, random_state=seed).fit_predict(views)


def one_run(task: dict[str, Any], pipe: Any) -> None:
    """Send the scores of one method on one mask, or why there are none."""
    warnings.simplefilter("ignore")
    dataset = load_dataset(task["dataset"])
    observed = make_observed(
        len(dataset.views), dataset.views.n_views, task["missing_percent"] / 100, "uniform_size", task["run"]
    )
    views = scaled_views(dataset.views, observed)
    start = time.perf_counter()
    try:
        labels = cluster(task["method"], views, dataset.n_classes, task["run"])
    except Exception as error:  # a peer may fail in any way; the row says how
        pipe.send({"failed": f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"})
        return
    seconds = time.perf_counter() - start
    pipe.send({**clustering_scores(dataset.labels, np.asarray(labels)), "seconds": round(seconds, 2)})


def limited(task: dict[str, Any], limit: float) -> dict[str, Any]:
    """Run one task in a process of its own, ended at the limit."""
    mine, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.Process(target=one_run, args=(task, theirs))
    process.start()
    theirs.close()
    try:
        result = mine.recv() if mine.poll(limit) else {"failed": f"not done after {limit:g} s"}
    except EOFError:
        result = {"failed": "the process was killed (out of memory?)"}
    process.kill()
    process.join()
    return {**task, **result, "versions": {"acova": __version__, "sklearn": sklearn.__version__}}


def main() -> None:
    """Run what is missing and print a line per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--missing", type=int, nargs="+", default=[10, 30, 50, 70], help="percent")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--limit", type=float, default=600, help="seconds for one fit")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    keys = ("dataset", "missing_percent", "method", "run")
    lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    done = {tuple(row[key] for key in keys) for row in map(json.loads, lines)}
    arguments.out.parent.mkdir(exist_ok=True)
    for dataset in arguments.datasets:
        for method in arguments.methods:
            for missing in arguments.missing:
                for run in range(arguments.runs):
                    task = dict(zip(keys, (dataset, missing, method, run), strict=True))
                    if tuple(task.values()) in done:
                        continue
                    row = limited(task, arguments.limit)
                    with arguments.out.open("a") as file:
                        file.write(json.dumps(row) + "\n")
                    print(
                        dataset,
                        missing,
                        method,
                        run,
                        row.get("failed") or f"{row['acc']:.3f} {row['seconds']} s",
                        flush=True,
                    )
                    if "failed" in row:
                        break  # the next mask of this cell would take as long


if __name__ == "__main__":
    main()
