"""Threads of a small fit: one, two, all, and the engine's own choice, alone and beside a busy process.

    python benchmarks/threads.py [--epochs 10] [--repeats 3] [--hidden 64 64 256]

Prints times as ratios to one thread alone, all from one run. "Before" is a fit without the choice: it computes on as
many threads as torch is set to, which are all. Every fit has a process of its own.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

DATASETS = Path(__file__).resolve().parents[2] / "shared" / "datasets"
BUSY = "import torch\na = torch.randn(1000, 1000)\nwhile True: a @ a"


def fit(threads: str, epochs: int, hidden: Sequence[int]) -> None:
    """Print the seconds of one fit on handwritten, or on the digits where it is not at hand; the second of two."""
    from acova import ACOVA
    from acova.data import load_dataset

    if threads != "own":
        os.environ["ACOVA_THREADS"] = threads
    views = load_dataset("handwritten" if (DATASETS / "handwritten.npz").exists() else "digits").views
    settings = {"hidden": tuple(hidden), "n_init": 1, "random_state": 0}
    short = {"pretrain_epochs": 1, "warmup_epochs": 0, "epochs": 0}
    ACOVA.from_settings(10, **settings, **short).fit(views)
    start = time.perf_counter()
    ACOVA.from_settings(10, **settings, **dict.fromkeys(short, epochs)).fit(views)
    print(time.perf_counter() - start)


def seconds(threads: str, options: Sequence[str]) -> float:
    """Return the seconds of a fit in a process of its own."""
    command = [sys.executable, __file__, "--fit", threads, *options]
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_THREADS")}
    if DATASETS.is_dir():
        environment.setdefault("ACOVA_DATA", str(DATASETS))
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)


def main() -> None:
    """Measure all settings in turn, so that what else the machine does meets all alike."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=10, help="of each phase")
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64, 256])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.fit:
        fit(given.fit, given.epochs, given.hidden)
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    options = ["--epochs", str(given.epochs), "--hidden", *map(str, given.hidden)]
    choices = {"1 thread": "1"} | ({"2 threads": "2"} if cores > 2 else {})
    choices |= {f"all ({cores}), as before": str(cores), "the engine's choice": "own"}
    found: dict[tuple[str, bool], list[float]] = {(name, busy): [] for name in choices for busy in (False, True)}
    for _ in range(given.repeats):
        for busy in (False, True):
            # As many busy threads as there are cores: a fit shares each with another process.
            other = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
            try:
                for name, threads in choices.items():
                    found[name, busy].append(seconds(threads, options))
            finally:
                if other is not None:
                    other.kill()
                    other.wait()
    unit = median(found["1 thread", False])
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{cores} cores{load}; 1 thread alone: {unit:.1f} s; medians of {given.repeats}\n")
    print("| | alone | beside a busy process |\n|---|---|---|")
    for name in choices:
        print(f"| {name} | {median(found[name, False]) / unit:.2f} | {median(found[name, True]) / unit:.2f} |")


if __name__ == "__main__":
    main()
