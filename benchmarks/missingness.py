"""Clusters that mirror who lacks what: `missingness_check` where holes follow the class, and where they do not.

    OMP_NUM_THREADS=1 python benchmarks/missingness.py --runs 5
    OMP_NUM_THREADS=1 python benchmarks/missingness.py --runs 3 --methods "ACOVA, one run"

Made data: 400 samples, four groups, two views of 40 features that tell them and one of 10 that tells little. 40 % of
the samples lack one of the first two views. `independent`: at random; `by class`: samples of groups 0 and 1 lack the
first view six times as often as the second, the others the reverse; `two partitions`: at random, and the second view
tells another partition than the first, so that a sample without one of them cannot be placed by it; `two sites`: a
quarter of the samples, at random, comes from a site that lacks the second view and measures the others 1.5 standard
deviations off. For every method: accuracy, Cramér's V of the clusters with the whole missing pattern, that of the true
groups, the largest `by_hiding` of a view that goes with the clusters, how often the fit warned, and V and accuracy
after `refit_without_missingness`: by leaving out samples, where the fit warned, and by covariates.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

SMALL = {"hidden": (64,), "pretrain_epochs": 30, "warmup_epochs": 30, "epochs": 60}
METHODS = {
    "AgreementGraph": ("AgreementGraph", {}),
    "ACOVA, one run": ("ACOVA", {"n_init": 1, **SMALL}),
    "ACOVA, paper": ("ACOVA", {"recipe": "paper", **SMALL}),
    "KNNImpute": ("KNNImpute", {}),
    "Concat": ("Concat", {}),
}


def data(holes: str, run: int, separation: float):
    """Return views and labels."""
    from acova.data import make_views

    views = {name: {"n_features": 40, "n_informative": 20, "separation": separation} for name in ("rna", "protein")}
    views["other"] = {"n_features": 10, "n_informative": 2, "separation": separation}
    if holes == "two partitions":
        views["protein"]["partition"] = "other"
        del views["other"]
    made = make_views(400, 4, views, random_state=run)
    rng = np.random.default_rng(run)
    if holes == "two sites":
        return of_two_sites(made, rng), made.labels
    odds = np.where(made.labels < 2, 6, 1 / 6) if holes == "by class" else np.ones(400)
    lacks = rng.random(400) < 0.4
    first = rng.random(400) < odds / (1 + odds)
    observed = np.ones((400, len(views)), dtype=bool)
    observed[lacks & first, 0] = False
    observed[lacks & ~first, 1] = False
    return made.views.hide(observed), made.labels


def of_two_sites(made, rng):
    """Return views of which one is missing, and the others shifted, for the samples of a site."""
    from acova import Views

    there = rng.random(len(made.labels)) < 0.25
    arrays = [np.array(array) for array in made.views.arrays]
    for array in arrays:
        array[there] += 1.5 * array.std(axis=0) * rng.choice([-1, 1], size=array.shape[1])
    observed = np.ones((len(there), len(arrays)), dtype=bool)
    observed[there, 1] = False
    return Views.of(dict(zip(made.views.names, arrays, strict=True)), observed)


def after(model, views, labels, how: str) -> dict[str, float]:
    """Return V and accuracy of a refit; nothing where there is none."""
    from acova.base import AcovaError
    from acova.estimators._checks import WHOLE_PATTERN
    from acova.metrics import clustering_accuracy

    if not hasattr(model, "refit_without_missingness"):
        return {}
    try:
        again = model.refit_without_missingness(views, how=how)
    except AcovaError:
        return {}
    rows = views.index.get_indexer(again.index_)
    left = again.missingness_check(n_permutations=1).loc[WHOLE_PATTERN, "effect"]
    accuracy = clustering_accuracy(labels[rows], again.labels_)
    return {f"V after {how}": left, f"accuracy after {how}": accuracy}


def main() -> None:
    """Measure every method."""
    from acova.clustering.association import of_counts
    from acova.estimators import make_method
    from acova.estimators._checks import WHOLE_PATTERN
    from acova.metrics import clustering_accuracy

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--separation", type=float, default=0.6)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--holes", nargs="+", default=["independent", "by class", "two partitions", "two sites"])
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for holes in arguments.holes:
        for run in range(arguments.runs):
            views, labels = data(holes, run, arguments.separation)
            patterns = np.unique(views.observed, axis=0, return_inverse=True)[1].ravel()
            truth = of_counts(pd.crosstab(patterns, labels).to_numpy(), np.random.default_rng(0), 1).effect
            for name in arguments.methods:
                method, settings = METHODS[name]
                model = make_method(method, n_clusters=4, random_state=run, **settings).fit(views)
                table = model.missingness_check(n_permutations=999)
                warned = any("mirror" in text for text in model.warnings_)
                goes = table[(table["p_value"] <= 0.01) & (table["effect"] >= 0.2)]
                rows.append(
                    {
                        "holes": holes,
                        "method": name,
                        "accuracy": clustering_accuracy(labels, model.labels_),
                        "V": table.loc[WHOLE_PATTERN, "effect"],
                        "V of the truth": truth,
                        "by_hiding": goes["by_hiding"].max(),
                        "warned": warned,
                        **after(model, views, labels, "samples"),
                        **after(model, views, labels, "covariates"),
                    }
                )
        print(pd.DataFrame(rows).groupby(["holes", "method"], sort=False).mean().round(2).to_string(), flush=True)


if __name__ == "__main__":
    main()
