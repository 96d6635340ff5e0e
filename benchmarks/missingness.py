"""Clusters that mirror who lacks what: `missingness_check` where holes follow the class, and where they do not.

    OMP_NUM_THREADS=1 python benchmarks/missingness.py --runs 5

Made data: 400 samples, four groups, two views of 40 features that tell them and one of 10 that tells little. 40 % of
the samples lack one of the first two views. `independent`: at random; `by class`: samples of groups 0 and 1 lack the
first view six times as often as the second, the others the reverse; `two partitions`: at random, and the second view
tells another partition than the first, so that a sample without one of them cannot be placed by it. For every method:
accuracy, Cramér's V of the clusters with the whole missing pattern, that of the true groups, the largest `by_hiding` of
a view that goes with the clusters, how often the fit warned, and, of those fits, V after a fit without the samples that
lack the view it named.
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
    odds = np.where(made.labels < 2, 6, 1 / 6) if holes == "by class" else np.ones(400)
    lacks = rng.random(400) < 0.4
    first = rng.random(400) < odds / (1 + odds)
    observed = np.ones((400, len(views)), dtype=bool)
    observed[lacks & first, 0] = False
    observed[lacks & ~first, 1] = False
    return made.views.hide(observed), made.labels


def main() -> None:
    """Measure every method."""
    from acova.clustering.association import of_counts
    from acova.estimators import make_method
    from acova.estimators._checks import WHOLE_PATTERN
    from acova.metrics import clustering_accuracy

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--separation", type=float, default=0.6)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for holes in ("independent", "by class", "two partitions"):
        for run in range(arguments.runs):
            views, labels = data(holes, run, arguments.separation)
            patterns = np.unique(views.observed, axis=0, return_inverse=True)[1].ravel()
            truth = of_counts(pd.crosstab(patterns, labels).to_numpy(), np.random.default_rng(0), 1).effect
            for name, (method, settings) in METHODS.items():
                model = make_method(method, n_clusters=4, random_state=run, **settings).fit(views)
                table = model.missingness_check(n_permutations=999)
                warned = any("mirror" in text for text in model.warnings_)
                after = np.nan
                if warned:
                    named = int(table["effect"].iloc[:-1].to_numpy().argmax())
                    again = make_method(method, n_clusters=4, random_state=run, **settings)
                    again.fit(views.take(np.flatnonzero(views.observed[:, named])))
                    after = again.missingness_check(n_permutations=1).loc[WHOLE_PATTERN, "effect"]
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
                        "V without them": after,
                    }
                )
        print(pd.DataFrame(rows).groupby(["holes", "method"], sort=False).mean().round(2).to_string(), flush=True)


if __name__ == "__main__":
    main()
