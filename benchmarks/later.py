"""A view that comes later: a fitted model that grows, against a fit from scratch.

    OMP_NUM_THREADS=1 python benchmarks/later.py run --out benchmarks/results/later.jsonl
    python benchmarks/later.py table --out benchmarks/results/later.jsonl

Data: handwritten, cub and tcga_brca_mixomics (../shared/datasets), of each at most a random 400 samples. Of the first
two, half of the samples lack some views, by another mask in each of three runs; the last is incomplete as it comes, and
its runs differ in the seed alone. ACOVA trains once (n_init=1). The last view comes
later:

- "before": fitted on the other views, of the samples that have one of them;
- "frozen": this model after `add_view`;
- "together": after ``add_view(freeze=False)``;
- "scratch": a fit on all views.

Accuracy is that of all samples that have another view than the last, so it is of the same ones in all four; "with" is
that of the samples among them that have the last view, "without" of the others, and "alone" that of predictions from
the last view alone. Seconds are of one thread, for the
growth or the fit alone.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

REAL = Path(__file__).resolve().parents[2] / "shared" / "datasets" / "real"
CLUSTERS = {"handwritten": 10, "cub": 10, "tcga_brca_mixomics": 3}
MOST = 400


def read(name: str) -> tuple[list[np.ndarray], np.ndarray]:
    """Return views and classes."""
    if name == "tcga_brca_mixomics":
        with np.load(REAL / f"{name}.npz") as file:
            arrays = [file[f"view_{v}"].astype(float) for v in range(int(file["n_views"]))]
            classes = file["labels"]
    else:
        from acova.data import load_dataset

        data = load_dataset(name)
        arrays, classes = [np.asarray(array, float) for array in data.views.arrays], data.labels
    rows = np.sort(np.random.default_rng(0).permutation(len(classes))[:MOST])
    return [array[rows] for array in arrays], np.asarray(classes)[rows]


def measured(name: str, run: int) -> list[dict]:
    """Return a row for each of the four models."""
    from copy import deepcopy

    from acova import ACOVA, Views
    from acova.data import make_observed
    from acova.metrics import clustering_accuracy

    arrays, classes = read(name)
    observed = np.column_stack([~np.isnan(array).all(axis=1) for array in arrays])
    if observed.all():
        observed = make_observed(len(classes), len(arrays), 0.5, random_state=run)
    some = observed[:, :-1].any(axis=1)
    views = Views.of([array[some] for array in arrays], observed[some])
    classes, has = classes[some], observed[some, -1]
    last = views.names[-1]
    old = views.without([last])
    new = views.arrays[-1]
    rows = []

    def note(what: str, model: ACOVA, start: float) -> None:
        seconds, labels = time.process_time() - start, model.labels_
        parts = {"acc": np.ones_like(has), "with": has, "without": ~has}
        scores: dict[str, float] = {
            part: clustering_accuracy(classes[which], labels[which]) for part, which in parts.items()
        }
        if last in model.view_names_:
            scores["alone"] = clustering_accuracy(classes[has], model.predict({last: new[has]}))
        rows.append({"data": name, "run": run, "model": what, **scores, "seconds": seconds})
        print(name, run, what, {k: round(v, 3) for k, v in scores.items()}, round(seconds, 1), flush=True)

    def fitted(data: Views) -> ACOVA:
        return ACOVA(CLUSTERS[name], n_init=1, random_state=run).fit(data)

    start = time.process_time()
    before = fitted(old)
    note("before", before, start)
    for what, freeze in (("frozen", True), ("together", False)):
        model, start = deepcopy(before), time.process_time()
        model.add_view(new, old, name=last, freeze=freeze)
        note(what, model, start)
    start = time.process_time()
    note("scratch", fitted(views), start)
    return rows


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a file, none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(path: Path) -> None:
    """Print means over the runs, and the spread of the accuracy."""
    by = pd.DataFrame(rows_of(path)).groupby(["data", "model"], sort=False)
    means = by[["acc", "with", "without", "alone", "seconds"]].mean()
    print(means.assign(std=by["acc"].std(), runs=by["run"].count()).round(3).to_string())


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("names", nargs="*", default=list(CLUSTERS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "table":
        table(given.out)
        return
    done = {(row["data"], row["run"]) for row in rows_of(given.out)}
    for name in given.names or list(CLUSTERS):
        for run in range(given.runs):
            if (name, run) not in done:
                with given.out.open("a") as stream:
                    stream.writelines(json.dumps(row) + "\n" for row in measured(name, run))


if __name__ == "__main__":
    main()
