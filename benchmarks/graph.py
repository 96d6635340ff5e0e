"""AgreementGraph beside other methods without a network: accuracy, seconds, and memory on many samples.

    OMP_NUM_THREADS=1 python benchmarks/graph.py accuracy --out graph.csv
    python benchmarks/graph.py accuracy nci60 digits --runs 1
    python benchmarks/graph.py size --samples 100000

Accuracy: the sets of ../shared/datasets/real where that folder is there, then handwritten, digits and cub. Of complete
data half of the samples are incomplete, another mask in each run; data that are incomplete stay as they are, and runs
differ by their seed. Labels are used for the scores alone; seconds are those of the CPU. Size: two views of 20
features, half of the samples incomplete, ten clusters, one process per size.
"""

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd

REAL = Path(__file__).resolve().parents[2] / "shared" / "datasets" / "real"
PUBLIC = ("handwritten", "digits", "cub")
METHODS = {
    "AgreementGraph": ("AgreementGraph", {}),
    "AgreementGraph, equal weights": ("AgreementGraph", {"view_weights": "equal"}),
    "KNNImpute": ("KNNImpute", {"standardize": "auto"}),
    "Concat": ("Concat", {"standardize": "auto", "balance": True}),
}


def read_real(name: str):
    """Return arrays, the mask as it came or None, and labels, of the samples that have a view and, if few, a label."""
    with np.load(REAL / f"{name}.npz") as file:
        arrays = [file[f"view_{v}"] for v in range(int(file["n_views"]))]
        labels, observed = file["labels"], file["observed"].astype(bool) if "observed" in file else None
    rows = np.ones(len(labels), bool) if observed is None else observed.any(axis=1)
    rows &= labels >= 0
    return [array[rows] for array in arrays], None if observed is None else observed[rows], labels[rows]


def read(name: str):
    """Return arrays, the mask as it came or None, and labels of a data set."""
    if name in PUBLIC:
        from acova.data import load_dataset

        data = load_dataset(name)
        return list(data.views.arrays), None, np.asarray(data.labels)
    return read_real(name)


def accuracy(names: list[str], runs: int) -> pd.DataFrame:
    """Return accuracy and CPU seconds, one row per data set, method and run."""
    from acova import Views
    from acova.data import make_observed
    from acova.estimators import make_method
    from acova.metrics import clustering_accuracy

    rows = []
    for name in names:
        arrays, mask, labels = read(name)
        for run in range(runs):
            observed = make_observed(len(labels), len(arrays), 0.5, random_state=run) if mask is None else mask
            views = Views.of(arrays, observed)
            for variant, (method, settings) in METHODS.items():
                model = make_method(method, n_clusters=len(np.unique(labels)), random_state=run, **settings)
                start = time.process_time()
                model.fit(views)
                seconds = time.process_time() - start
                score = clustering_accuracy(labels, model.labels_)
                rows.append({"data": name, "method": variant, "run": run, "acc": score, "seconds": seconds})
        table = pd.DataFrame(rows).query("data == @name").groupby("method", sort=False)
        print(name, table[["acc", "seconds"]].mean().round(3).to_dict("index"), flush=True)
    return pd.DataFrame(rows)


def as_markdown(results: pd.DataFrame) -> str:
    """Return mean and spread of the accuracy, and the mean seconds, one line per data set."""
    lines = ["| | " + " | ".join(METHODS) + " |", "|---" * (len(METHODS) + 1) + "|"]
    for name, rows in results.groupby("data", sort=False):
        found = rows.groupby("method").agg(mean=("acc", "mean"), std=("acc", "std"), seconds=("seconds", "mean"))
        cells = [
            f"{found.loc[m, 'mean']:.3f} ± {found.loc[m, 'std']:.3f} ({found.loc[m, 'seconds']:.1f} s)" for m in METHODS
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines).replace(" 0.", " .")


def measure(n_samples: int) -> None:
    """Fit and predict in this process; print seconds and peak memory."""
    from acova import AgreementGraph, Views
    from acova.data import make_observed
    from acova.metrics import clustering_accuracy

    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=n_samples)
    latent = 1.5 * rng.normal(size=(10, 8))[labels] + 0.6 * rng.normal(size=(n_samples, 8))
    arrays = [latent @ rng.normal(size=(8, 20)) + 0.5 * rng.normal(size=(n_samples, 20)) for _ in range(2)]
    views = Views.of(arrays, make_observed(n_samples, 2, 0.5, random_state=0))
    AgreementGraph(10, random_state=0).fit(views.take(slice(0, 500)))  # loads the libraries
    before, start, busy = _peak(), time.perf_counter(), time.process_time()
    model = AgreementGraph(10, random_state=0).fit(views)
    fitted, busy = time.perf_counter(), time.process_time() - busy
    model.predict(views.take(slice(0, 1000)))
    predicted = time.perf_counter()
    seconds = f"{fitted - start:.0f} s (CPU {busy:.0f} s), predict 1000 {predicted - fitted:.1f} s"
    print(
        f"{n_samples} samples: fit {seconds}, peak {_peak():.0f} "
        f"MB, of which {before:.0f} MB before the fit; ACC {clustering_accuracy(labels, model.labels_):.3f}",
        flush=True,
    )


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("accuracy", "size"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--samples", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.what == "accuracy":
        results = accuracy(
            arguments.names or [*sorted(path.stem for path in REAL.glob("*.npz")), *PUBLIC], arguments.runs
        )
        print(as_markdown(results))
        if arguments.out:
            results.to_csv(arguments.out, index=False)
    elif arguments.one:
        measure(arguments.one)
    else:
        for count in arguments.samples:
            subprocess.run([sys.executable, __file__, "size", "--one", str(count)], check=True)


if __name__ == "__main__":
    main()
