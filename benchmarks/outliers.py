"""Planted outliers: AUROC of ACOVA and AgreementGraph beside IsolationForest and LocalOutlierFactor; false positives.

    OMP_NUM_THREADS=1 python benchmarks/outliers.py --runs 2

Made data of five groups in three views, and real data; half of the samples of complete data are incomplete. One class
and a fifth of the other samples are kept from training. A half of this fifth is scored as it is, the other half becomes
`foreign` (samples of the class that training did not see), `shuffled` (each view from another sample) or `noise`
(normal numbers with the mean and spread of each column). `false` is the share of the untouched samples with p ≤ 0.05.
IsolationForest and LocalOutlierFactor get the KNN-imputed table. ACOVA is one run with half of the default epochs, and
as many for each of five folds. What it measures was chosen on run 0 of two sets, so report others.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

PLANTED = ("foreign", "shuffled", "noise")
SHORT = {"n_init": 1, "consensus": False, "pretrain_epochs": 50, "warmup_epochs": 50, "epochs": 100}


def data(name: str, run: int):
    """Return arrays, labels and mask."""
    from acova.data import make_observed, make_views

    if name == "made":
        sizes = {"n_features": 20, "separation": 0.8}
        found = make_views(600, 5, dict.fromkeys(("a", "b", "c"), sizes), random_state=run)
        arrays, labels = list(found.views.arrays), found.labels
    else:
        from cluster_number import read

        views, labels = read(name, run)
        return [np.array(array) for array in views.arrays], labels, views.observed
    return arrays, labels, make_observed(len(labels), len(arrays), 0.5, random_state=run)


def planted(arrays, labels, observed, kind: str, run: int):
    """Return views for training, views to score, and which of these are outliers."""
    from acova import Views

    rng = np.random.default_rng(run)
    foreign = np.unique(labels)[run % len(np.unique(labels))]
    own = rng.permutation(np.flatnonzero(labels != foreign))
    count = len(own) // 10
    clean, changed, train = own[:count], own[count : 2 * count], own[2 * count :]
    if kind == "foreign":
        changed = rng.permutation(np.flatnonzero(labels == foreign))[:count]
    tested = np.concatenate([clean, changed])
    mask = observed[tested].copy()
    if kind == "shuffled":  # contradictions need views
        mask = ~np.column_stack([np.isnan(array[tested]).any(axis=1) for array in arrays])
    scored = [array[tested].copy() for array in arrays]
    for v, array in enumerate(scored):
        if kind == "shuffled":
            array[count:] = array[count:][rng.permutation(len(changed))]
            mask[count:, v] = ~np.isnan(array[count:]).any(axis=1)
        elif kind == "noise":
            known = arrays[v][train][observed[train, v]]
            array[count:] = rng.normal(known.mean(axis=0), known.std(axis=0), size=array[count:].shape)
    keep = mask.any(axis=1)
    views = Views.of([array[keep] for array in scored], mask[keep])
    return Views.of([a[train] for a in arrays], observed[train]), views, (np.arange(len(tested)) >= count)[keep]


def fitted(train, n_clusters: int, run: int, *, with_acova: bool = True):
    """Return a function from views to their oddness by method, and to p-values of the two methods that give some."""
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor

    from acova import ACOVA, AgreementGraph, KNNImpute

    graph = AgreementGraph(n_clusters, random_state=run).fit(train)
    models = {"AgreementGraph": graph}
    if with_acova:
        deep = ACOVA.from_settings(n_clusters, random_state=run, **SHORT).fit(train).calibrate_outliers(train)
        models = {"ACOVA": deep, **models}
    imputer = KNNImpute(n_clusters, standardize="auto", n_init=1, random_state=run).fit(train)
    known = np.hstack(imputer._filled(train))
    forest = IsolationForest(random_state=run).fit(known)
    factor = LocalOutlierFactor(20, novelty=True).fit(known)

    def scores(test):
        new = np.hstack(imputer._filled(test))
        p_values = {name: model.outliers(test)["p_value"].to_numpy() for name, model in models.items()}
        others = {"IsolationForest": -forest.score_samples(new), "LOF": -factor.score_samples(new)}
        return {**{name: -values for name, values in p_values.items()}, **others}, p_values

    return scores


def main() -> None:
    """Measure."""
    from sklearn.metrics import roc_auc_score

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--first", type=int, default=1, help="number of the first run")
    parser.add_argument("--without-acova", action="store_true", help="leave out what takes longest")
    parser.add_argument("--data", nargs="+", default=["made", "handwritten", "snareseq", "tcga_brca_mixomics"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for name in arguments.data:
        for run in range(arguments.first, arguments.first + arguments.runs):
            arrays, labels, observed = data(name, run)
            train = planted(arrays, labels, observed, PLANTED[0], run)[0]
            scores = fitted(train, len(np.unique(labels)) - 1, run, with_acova=not arguments.without_acova)
            for kind in PLANTED:
                _, test, odd = planted(arrays, labels, observed, kind, run)  # trained on the same samples
                found, p_values = scores(test)
                aurocs = {method: roc_auc_score(odd, score) for method, score in found.items()}
                false = {f"false {method}": (values[~odd] <= 0.05).mean() for method, values in p_values.items()}
                rows.append({"data": name, "planted": kind, **aurocs, **false})
        print(pd.DataFrame(rows).groupby(["data", "planted"], sort=False).mean().round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
