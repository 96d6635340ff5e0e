"""Seconds per run and training epoch, and peak memory, for R runs at once.

    python benchmarks/speed.py scene15 fashion noisymnist --runs 1 5 20

Paper-size networks, the paper's settings for its data sets, 30 % of the samples incomplete, every run with its own mask
and seed. The time of an epoch is the median over --epochs epochs after five (the first steps are taken one by one, then
captured); it includes everything an epoch does, records on the host too. Rows go to benchmarks/results/speed.csv.
"""

import argparse
import csv
import resource
import statistics
import time
from itertools import pairwise
from pathlib import Path

import torch

from acova import ACOVA
from acova.data import load_dataset, make_observed
from acova.estimators import PRESETS
from acova.estimators.recipe import train_runs

COLUMNS = ["device", "dataset", "runs", "seconds_per_run_epoch", "peak_memory_mb"]


def measure(dataset, name: str, n_runs: int, device: str, epochs: int) -> dict:
    """Time the epochs of the training phase of `n_runs` runs."""
    views = dataset.views
    jobs = []
    for run in range(n_runs):
        settings = {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 5 + epochs}
        settings = {"n_clusters": dataset.n_classes, **PRESETS.get(name, {}), **settings}
        model = ACOVA(**settings, device=device, random_state=run)
        jobs += model._prepare(views, make_observed(len(views), views.n_views, 0.3, random_state=run)).jobs
    cuda = jobs[0].observed.is_cuda
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    marks = []
    train_runs(jobs, lambda *_: marks.append(time.perf_counter()))
    runs_at_once = n_runs if cuda else 1
    gaps = [after - before for before, after in pairwise(marks[4:])][:epochs]
    peak = (
        torch.cuda.max_memory_allocated() / 2**20 if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    )
    return {
        "device": torch.cuda.get_device_name() if cuda else f"cpu ({torch.get_num_threads()} threads)",
        "dataset": name,
        "runs": n_runs,
        "seconds_per_run_epoch": round(statistics.median(gaps) / runs_at_once, 5),
        "peak_memory_mb": round(peak),
    }


def main() -> None:
    """Measure and append to the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "speed.csv")
    arguments = parser.parse_args()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    new = not arguments.out.exists()
    with arguments.out.open("a", newline="") as file:
        table = csv.DictWriter(file, COLUMNS)
        if new:
            table.writeheader()
        for name in arguments.datasets:
            dataset = load_dataset(name)
            for n_runs in arguments.runs:
                row = measure(dataset, name, n_runs, arguments.device, arguments.epochs)
                table.writerow(row)
                file.flush()
                print("  ".join(str(value) for value in row.values()), flush=True)


if __name__ == "__main__":
    main()
