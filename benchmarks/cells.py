"""Empty cells: what ACOVA makes of them itself, beside filling them first.

    python benchmarks/cells.py                    # fits what is not in results/, then prints the table
    python benchmarks/cells.py --show
    python benchmarks/cells.py --speed OLD/src    # without empty cells: the time of a fit, beside an older checkout

Cells of observed rows are hidden at random, or in blocks: the samples fall at random into five sites, each of which
lacks a stretch of neighbouring columns in every view, as if measured with a smaller panel. Then `ACOVA` (one run of
half of the default's epochs) and `AgreementGraph` get the views as they are (``cells``), or with empty cells filled
before: by the mean of the column, by scikit-learn's KNNImputer (5 neighbours) on all views side by side, or by its
IterativeImputer view by view (10 nearest features, 3 rounds; with all features it takes minutes on wide views). Filling
leaves views that a sample lacks as they are. handwritten is cut to 500 of its 2000 samples, evenly spread. The files of
real data are those of benchmarks/real.toml. Mask seed = training seed = run. ``--jobs`` fits side by side, in processes
of one thread each.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, KNNImputer
from sklearn.preprocessing import StandardScaler

from acova import ACOVA, AgreementGraph, __version__
from acova.data import load_dataset, read_views
from acova.metrics import clustering_scores

ROOT = Path(__file__).resolve().parents[1]
REAL = Path(__file__).resolve().parent / "real"
DATASETS = ("handwritten", "tcga_brca_mixomics", "nci60")
SHARES = (0.05, 0.2, 0.5)
PATTERNS = ("random", "blocks")
SITES = 5
SAMPLES = 500
Views = list[np.ndarray]
METHODS = {
    "ACOVA": lambda n_clusters, run, device: ACOVA.from_settings(
        n_clusters, n_init=1, epochs=100, pretrain_epochs=50, warmup_epochs=50, random_state=run, device=device
    ),
    "AgreementGraph": lambda n_clusters, run, _: AgreementGraph(n_clusters, random_state=run),
}
KEYS = ["method", "dataset", "pattern", "share", "fill", "run"]


def views_of(name: str) -> tuple[Views, np.ndarray]:
    """Return the views of a data set and its classes."""
    dataset = load_dataset(name) if name == "handwritten" else read_views(REAL / f"{name}.npz")
    count = len(dataset.views)
    rows = np.arange(count) if count <= SAMPLES else np.arange(SAMPLES) * count // SAMPLES
    return [array[rows].astype(np.float64) for array in dataset.views.arrays], dataset.labels[rows]


def with_empty_cells(views: Views, share: float, pattern: str, seed: int) -> Views:
    """Return the views with this share of the cells hidden."""
    rng = np.random.default_rng(seed)
    sites = rng.integers(SITES, size=len(views[0]))
    emptied = []
    for view in views:
        if pattern == "random":
            gone = rng.random(view.shape) < share
        else:
            width = max(round(share * view.shape[1]), 1)
            # Spread, so that every column is there in some site.
            starts = rng.integers(view.shape[1]) + np.arange(SITES) * view.shape[1] // SITES
            gone = (np.arange(view.shape[1]) - starts[sites][:, None]) % view.shape[1] < width
        gone[gone.all(axis=1), 0] = False  # a row that is empty as a whole would be a missing view
        emptied.append(np.where(gone, np.nan, view))
    return emptied


def by_mean(views: Views) -> Views:
    """Fill empty cells by the means of their columns."""
    return [np.where(np.isnan(view), np.nanmean(view, axis=0), view) for view in views]


def by_neighbours(views: Views) -> Views:
    """Fill empty cells by the nearest samples in all views, columns having been brought to variance 1."""
    scaler = StandardScaler()
    filled = scaler.inverse_transform(KNNImputer().fit_transform(scaler.fit_transform(np.hstack(views))))
    return np.split(filled, np.cumsum([view.shape[1] for view in views])[:-1], axis=1)


def by_regressions(views: Views) -> Views:
    """Fill empty cells by regressions on other columns of the view."""
    filled = []
    for view in views:
        scaler, seen = StandardScaler(), ~np.isnan(view).all(axis=1)
        imputer = IterativeImputer(n_nearest_features=10, max_iter=3, random_state=0)
        whole = view.copy()
        whole[seen] = scaler.inverse_transform(imputer.fit_transform(scaler.fit_transform(view[seen])))
        filled.append(whole)
    return filled


FILLS: dict[str, Callable[[Views], Views] | None] = {
    "cells": None,
    "mean": by_mean,
    "knn": by_neighbours,
    "iterative": by_regressions,
}


def filled(views: Views, fill: str) -> Views:
    """Fill empty cells; views that a sample lacks stay missing."""
    function = FILLS[fill]
    if function is None:
        return views
    return [
        np.where(np.isnan(old).all(axis=1, keepdims=True), np.nan, new)
        for old, new in zip(views, function(views), strict=True)
    ]


def stored(path: Path) -> pd.DataFrame:
    """Return the rows of a file, one per fit."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else [*KEYS, "acc"])


def cases(
    methods: list[str], names: list[str], runs: range, fills: list[str], shares: list[float]
) -> Iterator[tuple[str, str, str, float, str, int]]:
    """Yield what there is to fit, run by run."""
    for run, method, name in product(runs, methods, names):
        yield method, name, "none", 0.0, "cells", run
        for pattern, share, fill in product(PATTERNS, shares, fills):
            yield method, name, pattern, share, fill, run


def fit_one(case: tuple[str, str, str, float, str, int], device: str) -> dict[str, object]:
    """Return the row of a fit."""
    torch.set_num_threads(1)
    method, name, pattern, share, fill, run = case
    views, labels = views_of(name)
    start = time.process_time()
    given = views if pattern == "none" else filled(with_empty_cells(views, share, pattern, run), fill)
    filling = time.process_time() - start
    start = time.process_time()
    model = METHODS[method](int(labels.max()) + 1, run, device).fit(given)
    seconds = time.process_time() - start
    scores = clustering_scores(labels[labels >= 0], model.labels_[labels >= 0])
    about = {"seconds_of_filling": filling, "seconds": seconds, "device": device, "acova": __version__}
    return dict(zip(KEYS, case, strict=True)) | scores | about


def fit_all(todo: Iterable[tuple[str, str, str, float, str, int]], path: Path, jobs: int, device: str) -> None:
    """Fit what is not in the file, and append it fit by fit."""
    done = set(map(tuple, stored(path)[KEYS].itertuples(index=False)))
    path.parent.mkdir(parents=True, exist_ok=True)
    todo = [case for case in todo if case not in done]
    for row in Parallel(jobs, return_as="generator_unordered")(delayed(fit_one)(case, device) for case in todo):
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(*(row[key] for key in KEYS), f"{row['acc']:.3f}, {row['seconds']:.1f} s", flush=True)


def table(path: Path) -> str:
    """Return the accuracies in percent, means over the runs, and how far `cells` is ahead of the best way to fill.

    Runs count that have every way to fill.
    """
    rows = stored(path)
    cell = KEYS[:4]
    accuracy = 100 * rows.pivot(index=[*cell, "run"], columns="fill", values="acc")
    accuracy = accuracy[[fill for fill in FILLS if fill in accuracy]]
    whole = accuracy.notna().all(axis=1) | (accuracy.index.get_level_values("pattern") == "none")
    found = accuracy[whole].groupby(cell, sort=False)
    means = found.mean()
    if means.shape[1] > 1:
        means["ahead"] = means["cells"] - means.drop(columns="cells").max(axis=1)
    means["runs"] = found.size()
    return means.round(1).to_string()


TIMED = """
import time
from acova import ACOVA
from acova.data import make_views
views = make_views(400, 5, random_state=0).views
fit = lambda: ACOVA.from_settings(
    5, n_init=1, random_state=0, epochs=40, pretrain_epochs=20, warmup_epochs=20, device="cpu"
).fit(views)
fit()
start = time.process_time()
model = fit()
print(time.process_time() - start, model.objective_)
"""


def speed(old: Path, repeats: int = 3) -> None:
    """Print the CPU time of a fit without empty cells, of this checkout and an older one, in turn."""
    seconds: dict[str, list[float]] = {"now": [], "before": []}
    objectives = set()
    for _ in range(repeats):
        for name, source in (("now", ROOT / "src"), ("before", old)):
            path = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
            out = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", TIMED], env=path, capture_output=True, check=True
            )
            time_of_fit, objective = out.stdout.split()
            seconds[name].append(float(time_of_fit))
            objectives.add(objective)
    now, before = min(seconds["now"]), min(seconds["before"])
    print(f"least of {repeats}: now {now:.2f} s, before {before:.2f} s, ratio {now / before:.3f}")
    print("the objectives are", "the same" if len(objectives) == 1 else sorted(objectives))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS), choices=DATASETS)
    parser.add_argument("--fills", nargs="+", default=list(FILLS), choices=list(FILLS))
    parser.add_argument("--shares", nargs="+", type=float, default=list(SHARES))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first run: the seed of mask and training")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "cells.jsonl")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--speed", type=Path, metavar="OLD/src")
    given = parser.parse_args()
    if given.speed:
        speed(given.speed)
        return
    runs = range(given.first, given.first + given.runs)
    if not given.show:
        fit_all(
            cases(given.methods, given.datasets, runs, given.fills, given.shares), given.out, given.jobs, given.device
        )
    print(table(given.out))


if __name__ == "__main__":
    main()
