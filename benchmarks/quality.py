"""Accuracy of ACOVA under the honest protocol: mask seed = training seed = run index, final model, all runs counted.

    python benchmarks/quality.py handwritten --missing 0.3 --runs 5
    python benchmarks/quality.py handwritten --missing 0.3 --runs 5 --set warmup_epochs=100

Settings and recipe are the paper's for its data sets and ACOVA's defaults for others, unless replaced by --set. Every
run is appended as one JSON line, with what is needed to repeat it, to the file that --out names. Mean-filled k-means on
the same mask stands beside it.
"""

import argparse
import json
import platform
import time
from pathlib import Path

import numpy as np
import torch

import acova
from acova import ACOVA
from acova.cli.bench import settings_of
from acova.data import PATTERNS, load_dataset, make_observed
from acova.estimators import PRESETS, Concat, fit_many
from acova.metrics import clustering_scores


def all_runs(dataset, arguments, settings: dict) -> list[dict]:
    """Train the runs together and score them; labels are used for the scores alone."""
    views = dataset.views
    recipe = "paper" if arguments.dataset in PRESETS else "robust"
    settings = {"n_clusters": dataset.n_classes, "recipe": recipe, **PRESETS.get(arguments.dataset, {}), **settings}
    masks = [
        make_observed(len(views), views.n_views, arguments.missing, arguments.pattern, run)
        for run in range(arguments.runs)
    ]
    models = [
        ACOVA.from_settings(random_state=run, device=arguments.device, **settings) for run in range(arguments.runs)
    ]
    start = time.perf_counter()
    fit_many(models, views, masks, verbose=True)
    seconds = (time.perf_counter() - start) / arguments.runs
    return [_row(dataset, arguments, run, model, masks[run], seconds) for run, model in enumerate(models)]


def _row(dataset, arguments, run: int, model: ACOVA, observed: np.ndarray, seconds: float) -> dict:
    baseline = Concat(dataset.n_classes, random_state=run).fit_predict(dataset.views.hide(observed))
    return {
        "dataset": arguments.dataset,
        "missing_rate": arguments.missing,
        "pattern": arguments.pattern,
        "run": run,
        **clustering_scores(dataset.labels, model.labels_),
        "kmeans_acc": clustering_scores(dataset.labels, baseline)["acc"],
        "objective": model.objective_,
        "correlation_distance": float(model.history_["correlation_distance"].iloc[-1]),
        "seconds": seconds,
        "device": torch.cuda.get_device_name() if next(model.network_.parameters()).is_cuda else platform.processor(),
        "versions": {"acova": acova.__version__, "torch": torch.__version__, "numpy": np.__version__},
        "settings": {key: value for key, value in model.get_settings().items() if key not in ("verbose", "device")},
    }


def main() -> None:
    """Run the protocol and print the mean and standard deviation of every metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--missing", type=float, default=0.3)
    parser.add_argument("--pattern", choices=PATTERNS, default="uniform_size")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", dest="settings")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    settings = settings_of(arguments.settings)
    dataset = load_dataset(arguments.dataset)
    rows = all_runs(dataset, arguments, settings)
    for row in rows:
        print(f"run {row['run']}: acc {row['acc']:.4f}  nmi {row['nmi']:.4f}  {row['seconds']:.1f} s")
    if arguments.out:
        with arguments.out.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    for metric in ("acc", "nmi", "ari", "purity", "kmeans_acc"):
        values = np.array([row[metric] for row in rows])
        print(f"{metric:10s} {values.mean():.4f} ± {values.std(ddof=1) if len(values) > 1 else 0:.4f}")


if __name__ == "__main__":
    main()
