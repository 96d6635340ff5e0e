"""What the clusters owe to each view on the stress data, and which fits warn.

    python benchmarks/influence.py [--recipes robust shared] [--seeds 1] [--epochs 40]

One run of a fit each (``n_init=1``), with fewer epochs than the recipes have.
"""

import argparse
import warnings

from acova import ACOVA
from acova.metrics import clustering_accuracy
from stress_data import omics

BESIDE = {
    "undisturbed": {},
    "random category of 4 levels": {
        "category": {"kind": "category", "n_features": 1, "n_informative": 0, "n_levels": 4}
    },
    "2 columns of noise": {"noise": {"n_features": 2, "n_informative": 0}},
    "another true partition": {
        "batch": {"partition": "other", "n_features": 40, "n_informative": 10, "separation": 0.9}
    },
}


def main() -> None:
    """Print a line per case, recipe and seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["robust", "shared"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # they are printed
    epochs = dict.fromkeys(("pretrain_epochs", "warmup_epochs", "epochs"), given.epochs)
    print("| case | recipe | seed | ACC | support | influence | warned of |\n|---|---|---|---|---|---|---|")
    for name, beside in BESIDE.items():
        for recipe in given.recipes:
            for seed in range(given.seeds):
                made = omics(beside, random_state=seed)
                settings = {"recipe": recipe, "n_init": 1, "random_state": seed, "device": "cpu", **epochs}
                model = ACOVA.from_settings(4, **settings).fit(made.views)
                accuracy = clustering_accuracy(made.labels, model.labels_)
                columns = [
                    " ".join(f"{value:.2f}" for value in part) for part in (model.view_support_, model.view_influence_)
                ]
                culprit = [
                    text.split(" alone")[0].split("those of ")[1] for text in model.warnings_ if "those of" in text
                ]
                print(f"| {name} | {recipe} | {seed} | {accuracy:.3f} | {' | '.join(columns)} | {', '.join(culprit)} |")


if __name__ == "__main__":
    main()
