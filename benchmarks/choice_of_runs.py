"""Which of several runs to keep: compare ways to choose among ten runs without looking at classes.

Half of the samples of complete data lack views; incomplete data are taken as they are. What is reported is the accuracy
of the run that a rule chooses, averaged over masks and seeds, beside that of the mean run (chance) and of the best one
(the classes choose). Rows are appended to a file as they come, and a second call goes on from there::

    OMP_NUM_THREADS=1 python benchmarks/choice_of_runs.py choice.jsonl

The rules: the objective without neighbours and with the recipe's weights (`plain`), the objective as trained
(`trained`), the evidence bound (`bound`), and the mean adjusted Rand index with the other runs (`agreement`).
`CHOICE` are the data sets that the rule was chosen on, `REPORT` those it is reported on.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.metrics import adjusted_rand_score

from acova import ACOVA, Views
from acova.base import Streams
from acova.data import load_dataset, make_observed
from acova.metrics import clustering_accuracy
from acova.training.inference import mean_objective

CHOICE, REPORT = ("iris", "wine", "webkb", "digits"), ("cancer", "nci60", "basicmotions", "tcga_brca_mixomics")
RUNS, MASKS = 10, (0, 1, 2)
QUICK = {"hidden": (64,), "pretrain_epochs": 20, "warmup_epochs": 50, "epochs": 30, "device": "cpu"}
RULES = ("plain", "trained", "bound", "agreement")
REAL = Path(__file__).resolve().parents[2] / "shared" / "datasets" / "real"


def load(name: str) -> tuple[Views, np.ndarray]:
    """Return views and classes."""
    small = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}
    if name in small:
        table, labels = small[name](return_X_y=True)
        return Views.of(np.array_split(table, 2 if table.shape[1] < 5 else 3, axis=1)), labels
    if name == "digits":
        dataset = load_dataset("digits")
        return dataset.views.take(slice(0, 300)), dataset.labels[:300]
    with np.load(REAL / f"{name}.npz", allow_pickle=False) as file:
        labels = np.unique(file["labels"], return_inverse=True)[1]
        views = {key: file[key].astype(np.float64) for key in file.files if file[key].ndim == 2 and key != "observed"}
    return Views.of({key: view[:, np.nanstd(view, axis=0) > 0] for key, view in views.items()}), labels


def measured(name: str, mask: int) -> dict:
    """Fit ten runs and return their accuracies and what every rule says of them; the highest is chosen."""
    views, labels = load(name)
    complete = views.observed.all()
    hidden = views.hide(make_observed(len(views), views.n_views, 0.5, random_state=mask)) if complete else views
    seeds = range(RUNS * mask, RUNS * (mask + 1))
    models = [ACOVA.from_settings(len(set(labels)), random_state=seed, **QUICK).fit(hidden) for seed in seeds]
    pairs = [[adjusted_rand_score(one.labels_, other.labels_) for other in models] for one in models]
    scores = {
        "plain": [-objective(model, hidden, neighbours=False) for model in models],
        "trained": [-objective(model, hidden, neighbours=True) for model in models],
        "bound": [model.score(hidden) for model in models],
        "agreement": np.mean(pairs, axis=1).tolist(),
    }
    accuracy = [clustering_accuracy(labels, model.labels_) for model in models]
    return {"dataset": name, "mask": mask, "accuracy": accuracy, **scores}


def objective(model: ACOVA, views: Views, *, neighbours: bool) -> float:
    """Return the final objective, by the same draws for all runs: as trained, or without neighbours."""
    job = model._prepare(views, None).jobs[0]
    batch, loss = job.data.batch(), job.method.objective(model.network_, job.settings)
    if not neighbours:
        batch, loss = batch._replace(targets=()), model.network_.loss
    samples = lambda start, stop: batch.rows(slice(start, stop))  # noqa: E731
    return mean_objective(model.network_, loss, samples, len(views), Streams(0))["total"]


def table(rows: list[dict], names: tuple[str, ...]) -> str:
    """Return accuracies of chosen runs in Markdown."""
    lines = ["| data | mean run | " + " | ".join(RULES) + " | best run |", "|---" * (len(RULES) + 3) + "|"]
    means = []
    for name in names:
        masks = [row for row in rows if row["dataset"] == name]
        if not masks:
            continue
        chosen = [[row["accuracy"][int(np.argmax(row[rule]))] for row in masks] for rule in RULES]
        spread = [np.mean([row["accuracy"] for row in masks]), *map(np.mean, chosen)]
        means.append([*spread, np.mean([max(row["accuracy"]) for row in masks])])
        lines.append(f"| {name} | " + " | ".join(f"{value:.3f}" for value in means[-1]) + " |")
    lines.append("| mean | " + " | ".join(f"{value:.3f}" for value in np.mean(means, axis=0)) + " |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is left, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("store", type=Path)
    parser.add_argument("--masks", type=int, default=len(MASKS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = [json.loads(line) for line in options.store.read_text().splitlines()] if options.store.exists() else []
    done = {(row["dataset"], row["mask"]) for row in rows}
    for mask in range(options.masks):
        for name in (*CHOICE, *REPORT):
            if (name, mask) not in done:
                rows.append(measured(name, mask))
                with options.store.open("a") as stream:
                    stream.write(json.dumps(rows[-1]) + "\n")
    for names in (CHOICE, REPORT):
        print(table(rows, names), end="\n\n")


if __name__ == "__main__":
    main()
