"""Compare the likelihoods of views, on files with labels and on data made for them.

    python benchmarks/likelihoods.py pbmc_mosaic_counts.npz --likelihoods auto negative_binomial --seeds 0 1 2
    python benchmarks/likelihoods.py pbmc_mosaic_counts.npz --likelihoods gaussian --standardize counts
    python benchmarks/likelihoods.py made --seeds 0 1 2
    python benchmarks/likelihoods.py made --kinds counts --likelihoods gaussian --standardize counts

A file is an ``.npz`` with ``view_0``, ``view_1``, … (rows of NaN where a sample lacks a view) and ``labels`` (-1:
none). Complete views lose a view in half of the samples, by the seed. ``made`` draws counts, categories, shares and
measurements with outliers around three clusters, and fits each kind with "auto" and with the likelihoods made for it.
Every fit is one run (``n_init=1``) with the default settings otherwise. Scores are those of the samples with a label;
a line per fit gives seed, ACC, NMI, ARI and seconds.
"""

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from acova import ACOVA, Views
from acova.base import AcovaError
from acova.data import make_observed
from acova.metrics import clustering_scores

MADE = {
    "counts": ("auto", "poisson", "negative_binomial", "zero_inflated_negative_binomial"),
    "categories": ("gaussian", "bernoulli", "categorical"),
    "shares": ("auto", "gaussian", "beta"),
    "outliers": ("auto", "laplace", "gaussian_learned", "student_t"),
}
SIZES = (200, 60, 40)
"""Samples of the three made clusters."""


def read_file(path: str, seed: int) -> tuple[Views, np.ndarray]:
    """Return the views and labels of a file; complete ones lose a view in half of the samples."""
    with np.load(path) as stored:
        arrays = [stored[f"view_{v}"] for v in range(int(stored["n_views"]))]
        labels = stored["labels"]
    views = Views.of(arrays)
    if views.complete.all():
        views = views.hide(make_observed(len(views), views.n_views, 0.5, random_state=seed))
    return views, labels


def make_data(kind: str, seed: int) -> tuple[Any, np.ndarray]:
    """Return two views of one kind, a third of the samples without one of them, and the true clusters."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(len(SIZES)), SIZES))
    frames = {}
    for v, (name, width) in enumerate((("first", 40), ("second", 25))):
        cells = _CELLS[kind](rng, labels, width)
        kept = (np.arange(len(labels)) % 6) != v
        columns = [f"c{j}" for j in range(width)]
        table = pd.DataFrame(cells, index=[f"s{i}" for i in range(len(labels))], columns=columns)
        frames[name] = table[kept]
    order = Views.of(frames).index
    return frames, labels[[int(name[1:]) for name in order]]


def _counts(rng: np.random.Generator, labels: np.ndarray, width: int) -> np.ndarray:
    """Return overdispersed counts of rows whose sums differ tenfold."""
    rates = np.exp(rng.normal(0, 1.5, width) + rng.normal(0, 0.5, (len(SIZES), width)))
    shares = rates / rates.sum(axis=1, keepdims=True)
    means = shares[labels] * np.exp(rng.normal(np.log(3 * width), 0.8, len(labels)))[:, None]
    return rng.negative_binomial(2.0, 2.0 / (2.0 + means)).astype(float)


def _categories(rng: np.random.Generator, labels: np.ndarray, width: int) -> np.ndarray:
    """Return words of 2 to 8 categories, whose shares differ between clusters in a third of the columns."""
    columns = []
    for column in range(width):
        count = int(rng.integers(2, 9))
        shares = np.tile(rng.dirichlet(np.ones(count)), (len(SIZES), 1))
        if column % 3 == 0:
            shares = rng.dirichlet(np.ones(count), len(SIZES))
        below = shares.cumsum(axis=1)[labels, :-1]
        columns.append((rng.random((len(labels), 1)) > below).sum(axis=1))
    return np.array([[f"w{cell}" for cell in row] for row in np.stack(columns, 1)], dtype=object)


def _shares(rng: np.random.Generator, labels: np.ndarray, width: int) -> np.ndarray:
    """Return beta distributed shares, most of them near 0 or 1."""
    logits = rng.choice([-2.5, 2.0], width) + rng.normal(0, 0.35, (len(SIZES), width))
    means, precision = 1 / (1 + np.exp(-logits[labels])), rng.uniform(5, 40, width)
    return rng.beta(means * precision, (1 - means) * precision)


def _outliers(rng: np.random.Generator, labels: np.ndarray, width: int) -> np.ndarray:
    """Return normal cells of which one in thirty is ten times as far from its mean."""
    noise = rng.normal(size=(len(labels), width)) * np.where(rng.random((len(labels), width)) < 1 / 30, 10, 1)
    return rng.normal(0, 0.5, (len(SIZES), width))[labels] + noise


_CELLS = {"counts": _counts, "categories": _categories, "shares": _shares, "outliers": _outliers}


def fit_one(name: str, views: Any, labels: np.ndarray, seed: int, settings: dict[str, Any]) -> None:
    """Fit once and print the scores."""
    known = labels >= 0
    began = time.perf_counter()
    words = " ".join(f"{option}={value}" for option, value in settings.items())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = ACOVA.from_settings(len(set(labels[known])), **settings, n_init=1, random_state=seed).fit(views)
        except AcovaError as error:
            print(f"{name:20} {words:60} seed {seed}  {error}", flush=True)
            return
    scores = clustering_scores(labels[known], model.labels_[known])
    seconds = time.perf_counter() - began
    numbers = "  ".join(f"{score} {scores[score]:.3f}" for score in ("acc", "nmi", "ari"))
    print(f"{name:20} {words:60} seed {seed}  {numbers}  {seconds:.0f} s", flush=True)


def main() -> None:
    """Fit every likelihood to every data set with every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+", help="files, or 'made'")
    parser.add_argument("--likelihoods", nargs="+", help="default: 'auto', and for made data those of MADE")
    parser.add_argument("--standardize", help="default: what the recipe says")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--kinds", nargs="+", default=list(MADE), help="of made data")
    given = parser.parse_args()
    common = {} if given.standardize is None else {"standardize": given.standardize}
    for data in given.data:
        for seed in given.seeds:
            if data == "made":
                for kind in given.kinds:
                    made = make_data(kind, seed)
                    for likelihood in given.likelihoods or MADE[kind]:
                        fit_one(f"made {kind}", *made, seed, {**common, "likelihood": likelihood})
                continue
            read = read_file(data, seed)
            for likelihood in given.likelihoods or ["auto"]:
                fit_one(Path(data).stem, *read, seed, {**common, "likelihood": likelihood})


if __name__ == "__main__":
    main()
