r"""Training that does not need a lucky seed: every cell of docs/robustness.md.

    python benchmarks/robustness.py run recipes --datasets handwritten scene15 cub fashion noisymnist
    python benchmarks/robustness.py run ingredients correlation --datasets handwritten scene15 cub --missing 30 70 \
        --runs 10
    python benchmarks/robustness.py tables

`paper` has the paper's settings of each data set. `robust` and `consensus` take only what describes the data from them
(scaling, likelihood, batch, latent dimension) and have one α and one set of learning rates for all; `default` has no
setting for any data set.

Run r has mask seed = training seed = r; the final model counts; labels serve the scores alone. All cells of a data set
and variant train together (`fit_many`). Rows go to results/robustness.jsonl with settings, versions and commit; cells
that are there are not repeated. `tables` writes results/robustness.csv and prints the tables in Markdown, with the
published figures where --published names the folder of the paper's tables, and the peers of results/peers.jsonl. Other
settings for all variants (--set) go to another file (--out).
"""

import argparse
import json
import platform
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy import stats

import acova
from acova import ACOVA
from acova.data import load_dataset, make_observed
from acova.estimators import PRESETS, RECIPES, fit_many
from acova.metrics import clustering_scores
from rows import ROOT, commit, rows_of, settings_of

ROWS, TABLE, PEERS = (ROOT / "results" / name for name in ("robustness.jsonl", "robustness.csv", "peers.jsonl"))
METRICS = ("acc", "nmi", "ari", "purity")
OF_THE_DATA = ("latent_dim", "batch_size", "likelihood", "standardize")
TOGETHER = {"consensus": True, "n_init": 10}
STUDIES: dict[str, dict[str, dict[str, Any]]] = {
    "recipes": {
        "paper": {"recipe": "paper"},
        "robust": {},
        "consensus": TOGETHER,
        "default": {**TOGETHER, "preset": False},
    },
    "ingredients": {
        "robust": {},
        **{
            f"robust, {name}={value!r}": {name: value}
            for name, value in RECIPES["paper"].items()
            if value != RECIPES["robust"][name]
        },
        "robust, neighbor_weight=1": {"neighbor_weight": 1.0},
        "robust, balance=1": {"balance": 1.0},
        "robust, cluster_start='neighbors'": {"cluster_start": "neighbors"},
        "robust, assignment='exact'": {"assignment": "exact"},
        "robust, epochs=0": {"epochs": 0},
    },
    "correlation": {
        "robust": {},
        "robust, R = I": {"correlation": "identity"},
        **{f"robust, ρ = {rho}": {"correlation": rho} for rho in (0.1, 0.3, 0.5, 0.7)},
        "robust, marginal": {"missing": "marginal"},
    },
}


def fitted(dataset: Any, cells: list[tuple[int, int]], given: dict[str, Any], device: str) -> tuple[list[Any], float]:
    """Fit all (missing percent, run) cells of one variant together; return the models and seconds per fit."""
    settings = {"n_clusters": dataset.n_classes, **given}
    if settings.pop("preset", True):
        tuned = PRESETS.get(dataset.name, {})
        if settings.get("recipe") != "paper":
            tuned = {name: value for name, value in tuned.items() if name in OF_THE_DATA}
        settings = {**tuned, **settings}
    if dataset.name == "noisymnist" and settings.get("consensus"):
        settings["n_init"] = 5
    views = dataset.views
    masks = [make_observed(len(views), views.n_views, m / 100, "uniform_size", run) for m, run in cells]
    models = [ACOVA(random_state=run, device=device, **settings) for _, run in cells]
    start = time.perf_counter()
    fit_many(models, views, masks, verbose=True)
    return models, (time.perf_counter() - start) / len(cells)


def run(arguments: argparse.Namespace) -> None:
    """Train the cells that are not there yet."""
    if arguments.settings and arguments.out == ROWS:
        msg = "--set changes what the variants mean; give --out another file."
        raise SystemExit(msg)
    changed = settings_of(arguments.settings)
    done = {(row["dataset"], row["missing_percent"], row["variant"], row["run"]) for row in rows_of(arguments.out)}
    variants = {name: given for study in arguments.studies for name, given in STUDIES[study].items()}
    if arguments.variants:
        variants = {name: variants[name] for name in arguments.variants}
    for name in arguments.datasets:
        dataset = load_dataset(name)
        for variant, given in variants.items():
            cells = [(m, r) for m in arguments.missing for r in range(arguments.runs)]
            cells = [(m, r) for m, r in cells if (name, m, variant, r) not in done]
            if cells:
                models, seconds = fitted(dataset, cells, {**given, **changed}, arguments.device)
                rows = [row_of(dataset, cell, variant, model) for cell, model in zip(cells, models, strict=True)]
                with arguments.out.open("a") as file:
                    file.writelines(json.dumps({**row, "seconds": seconds}, default=str) + "\n" for row in rows)
                means = pd.DataFrame(rows).groupby("missing_percent")["acc"].agg(["mean", "std"])
                print(f"{name}, {variant}, {seconds:.1f} s per fit\n{means.round(3)}", flush=True)


def row_of(dataset: Any, cell: tuple[int, int], variant: str, model: ACOVA) -> dict[str, Any]:
    """Return the scores of one fit with what is needed to repeat it."""
    on_gpu = next(model.network_.parameters()).is_cuda
    return {
        "dataset": dataset.name,
        "missing_percent": cell[0],
        "variant": variant,
        "run": cell[1],
        **clustering_scores(dataset.labels, model.labels_),
        "objective": model.objective_,
        "agreement": float(np.mean(model.agreement_)),
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor(),
        "versions": {"acova": acova.__version__, "torch": torch.__version__},
        "commit": commit(),
        "settings": model.get_params(),
    }


def tables(arguments: argparse.Namespace) -> None:
    """Write the CSV of the recipes and print every study as Markdown."""
    frame = pd.DataFrame(rows_of(arguments.rows))
    if frame.empty:
        msg = f"{arguments.rows} has no rows yet; make some with: python benchmarks/robustness.py run recipes"
        raise SystemExit(msg)
    published = published_figures(arguments.published)
    recipes = frame[frame["variant"].isin(STUDIES["recipes"])]
    long = recipes.melt(["dataset", "missing_percent", "variant", "run"], list(METRICS), "metric")
    grouped = long.groupby(["dataset", "missing_percent", "variant", "metric"])["value"]
    table = grouped.agg(["mean", "std", "count"]).reset_index()
    table = table.rename(columns={"variant": "recipe", "count": "runs"})
    keys = zip(table["dataset"], table["missing_percent"], table["metric"], strict=True)
    table["published_mean"] = [published.get(key, (None,))[0] for key in keys]
    table.round(4).to_csv(arguments.out, index=False)
    peers = pd.DataFrame(rows_of(PEERS))
    shown = pd.concat([frame, peers.rename(columns={"method": "variant"})]) if len(peers) else frame
    for study, variants in STUDIES.items():
        wanted = [*variants, *(peers["method"].unique() if study == "recipes" and len(peers) else ())]
        print(f"\n## {study}\n")
        print_study(shown[shown["variant"].isin(wanted)], wanted, published if study == "recipes" else {})
        if study != "recipes":
            print("\nDifference to `robust`, paired by mask and seed, with 95 % confidence intervals, in points:\n")
            print_differences(frame[frame["variant"].isin(variants)], list(variants))


def print_study(
    frame: pd.DataFrame, variants: Iterable[str], published: dict[tuple[str, int, str], tuple[float, float]]
) -> None:
    """Print ACC, mean ± std, of every variant and cell."""
    cells = sorted(frame.groupby(["dataset", "missing_percent"]).groups)
    print("| | " + " | ".join(f"{name} {missing} %" for name, missing in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    for variant in variants:
        texts = []
        for name, missing in cells:
            chosen = (frame["variant"] == variant) & (frame["dataset"] == name) & (frame["missing_percent"] == missing)
            acc = frame.loc[chosen, "acc"].dropna()
            texts.append(f"{acc.mean():.3f} ± {acc.std():.3f}" if len(acc) else "–")
        print(f"| {variant} | " + " | ".join(texts) + " |")
    if published:
        pairs = [published.get((*cell, "acc"), (np.nan, np.nan)) for cell in cells]
        print("| published | " + " | ".join(f"{mean:.3f} ± {std:.3f}" for mean, std in pairs) + " |")


def print_differences(frame: pd.DataFrame, variants: list[str]) -> None:
    """Print each variant's mean difference in ACC to the first one, over runs that both have."""
    cells = sorted(frame.groupby(["dataset", "missing_percent"]).groups)
    print("| | " + " | ".join(f"{name} {missing} %" for name, missing in cells) + " |")
    print("|---" * (len(cells) + 1) + "|")
    by_run = frame.pivot_table("acc", ["dataset", "missing_percent", "run"], "variant")
    for variant in variants[1:]:
        texts = []
        for cell in cells:
            pairs = by_run.loc[cell].reindex(columns=[variants[0], variant]).dropna()
            change = 100 * (pairs[variant] - pairs[variants[0]])
            half = stats.t.ppf(0.975, len(change) - 1) * change.sem() if len(change) > 1 else np.nan
            texts.append(f"{change.mean():+.1f} ± {half:.1f}" if len(change) else "–")
        print(f"| {variant} | " + " | ".join(texts) + " |")


def published_figures(folder: Path | None) -> dict[tuple[str, int, str], tuple[float, float]]:
    """Return the paper's mean and standard deviation of each (data set, missing percent, metric)."""
    if folder is None:
        return {}
    frame = pd.read_csv(
        folder / "table1.csv", header=0, names=["dataset", "method", "missing", "metric", "mean", "std"]
    )
    frame = frame[frame["method"] == "ACOVA"]
    keys = zip(frame["dataset"], frame["missing"].astype(int), frame["metric"], strict=True)
    return dict(zip(keys, zip(frame["mean"].astype(float), frame["std"].astype(float), strict=True), strict=True))


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    train = commands.add_parser("run")
    train.add_argument("studies", nargs="+", choices=STUDIES)
    train.add_argument("--variants", nargs="+", help="only these of the studies' variants")
    train.add_argument("--datasets", nargs="+", default=["handwritten", "scene15", "cub", "fashion", "noisymnist"])
    train.add_argument("--missing", type=int, nargs="+", default=[10, 30, 50, 70], help="percent")
    train.add_argument("--runs", type=int, default=5)
    train.add_argument("--device", default="auto")
    train.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", dest="settings")
    train.add_argument("--out", type=Path, default=ROWS)
    train.set_defaults(do=run)
    show = commands.add_parser("tables")
    show.add_argument("--published", type=Path)
    show.add_argument("--rows", type=Path, default=ROWS)
    show.add_argument("--out", type=Path, default=TABLE)
    show.set_defaults(do=tables)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
