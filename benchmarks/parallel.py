"""A consensus with its runs one after the other and side by side in processes: seconds, ratio, and the same bits.

    python benchmarks/parallel.py [--runs 4] [--epochs 40] [--jobs 1 2] [--repeats 3]

Fits the digits with the default network, half of the samples incomplete. Ratios are to one process, in one run of this
script; the first fit with more processes starts them, the others find them there. Run it on a machine that does
nothing else.
"""

import argparse
import os
import time
from statistics import median

import torch
from joblib import parallel_config

from acova import ACOVA
from acova.data import load_dataset, make_observed
from acova.training import schedule


def fit(jobs: int, runs: int, epochs: int) -> tuple[ACOVA, float]:
    """Return a consensus and its seconds."""
    views = load_dataset("digits").views
    views = views.hide(make_observed(len(views), views.n_views, 0.5, random_state=0))
    settings = dict.fromkeys(("pretrain_epochs", "warmup_epochs", "epochs"), epochs)
    model = ACOVA.from_settings(10, n_init=runs, consensus=True, device="cpu", random_state=0, **settings)
    start = time.perf_counter()
    with parallel_config(n_jobs=jobs):
        model.fit(views)
    return model, time.perf_counter() - start


def same(model: ACOVA, other: ACOVA) -> bool:
    """Tell whether two models agree in every bit."""
    pairs = zip(model._ensemble.networks, other._ensemble.networks, strict=True)
    states = [(one.state_dict(), two.state_dict()) for one, two in pairs]
    return (model.probabilities_ == other.probabilities_).all() and all(
        torch.equal(value, theirs[name]) for ours, theirs in states for name, value in ours.items()
    )


def main() -> None:
    """Measure all numbers of processes in turn, so that what else the machine does meets all alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=40, help="of each phase")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2], help="numbers of processes")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    schedule._WORTH_PROCESSES = 0.0
    load = f"load {os.getloadavg()[0]:.1f} before" if hasattr(os, "getloadavg") else ""
    print(f"{os.cpu_count()} cores, {load}; {given.runs} runs of 3 × {given.epochs} epochs")
    found: dict[int, list[float]] = {jobs: [] for jobs in given.jobs}
    reference = None
    for _ in range(given.repeats):
        for jobs in given.jobs:
            model, seconds = fit(jobs, given.runs, given.epochs)
            reference = reference or model
            assert same(model, reference), f"{jobs} processes give another result"
            found[jobs].append(seconds)
    unit = median(found[given.jobs[0]])
    print("\n| processes | first fit, s | median, s | ratio |\n|---|---|---|---|")
    for jobs, seconds in found.items():
        print(f"| {jobs} | {seconds[0]:.1f} | {median(seconds):.1f} | {median(seconds) / unit:.2f} |")
    print("\nAll results are the same in every bit.")


if __name__ == "__main__":
    main()
