"""Clusters that follow labels of some samples: accuracy on the others against the number of labels per class.

    OMP_NUM_THREADS=1 python benchmarks/semi_supervised.py --runs 3

Samples are drawn to be labelled, as many of each class. Half of the samples of complete data are incomplete. ACOVA is
one run with half of the default epochs. Unlabelled samples count: without labels, clusters are matched to classes by
the Hungarian method; with labels, cluster k is class k. `neighbours` is what labels alone give: the
class of the nearest labelled sample in the KNN-imputed table.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd

SHORT = {"n_init": 1, "consensus": False, "pretrain_epochs": 50, "warmup_epochs": 50, "epochs": 100}
PER_CLASS = (0, 1, 2, 5, 10, 20)


def draw(labels, per_class: int, run: int):
    """Return labels of which as many of each class are kept and the others are -1."""
    rng = np.random.default_rng([run, 17])
    shuffled = rng.permutation(len(labels))  # the same for all numbers, so that more labels include fewer
    y = np.full(len(labels), -1)
    for one in np.unique(labels):
        rows = shuffled[labels[shuffled] == one][:per_class]
        y[rows] = one
    return y


def accuracy(model, y, labels) -> float:
    """Return the accuracy on unlabelled samples."""
    from acova.metrics import clustering_accuracy

    left = y < 0
    if left.all():
        return clustering_accuracy(labels, model.labels_)
    return float((model.classes_[model.labels_[left]] == labels[left]).mean())


def by_neighbour(views, y, labels, run: int) -> float:
    """Return the accuracy of the nearest labelled sample's class in the KNN-imputed table."""
    from sklearn.neighbors import KNeighborsClassifier

    from acova import KNNImpute

    left = y < 0
    if left.all():
        return np.nan
    model = KNNImpute(len(np.unique(labels)), standardize="auto", n_init=1, random_state=run).fit(views)
    table = np.hstack(model._filled(views))
    return KNeighborsClassifier(1).fit(table[~left], y[~left]).score(table[left], labels[left])


def main() -> None:
    """Measure."""
    from acova import ACOVA, AgreementGraph
    from cluster_number import read

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--data", nargs="+", default=["tcga_brca_mixomics", "handwritten"])
    parser.add_argument("--per-class", nargs="+", type=int, default=PER_CLASS)
    parser.add_argument("--methods", nargs="+", default=["AgreementGraph", "ACOVA"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.data:
        rows = []
        for run in range(arguments.runs):
            views, labels = read(name, run)
            for per_class in arguments.per_class:
                y, n_clusters, row = draw(labels, per_class, run), len(np.unique(labels)), {}
                for method in arguments.methods:
                    start = time.process_time()
                    model = (
                        AgreementGraph(n_clusters, random_state=run)
                        if method == "AgreementGraph"
                        else ACOVA.from_settings(n_clusters, random_state=run, **SHORT)
                    )
                    row[method] = accuracy(model.fit(views, y), y, labels)
                    row[f"{method} s"] = time.process_time() - start
                rows.append({"per class": per_class, **row, "neighbours": by_neighbour(views, y, labels, run)})
                print(name, run, rows[-1], flush=True)
        print(name, pd.DataFrame(rows).groupby("per class").mean().round(3).to_string(), sep="\n", flush=True)


if __name__ == "__main__":
    main()
