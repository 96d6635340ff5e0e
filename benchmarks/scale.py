"""Millions of samples from disk: seconds and peak memory, which must not grow with the samples.

    python benchmarks/scale.py --samples 1500000 5000000

Two views of 32 features in .npy files (256 bytes per sample and view set), a tenth of the second view missing, a small
network (64 hidden units, batches of 4096), one epoch of pretraining, of warm-up and of training, then prediction. Every
size is fitted in a process of its own, so that its peak is its own. Rows go to results/scale.csv.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

COLUMNS = ["samples", "gigabytes_on_disk", "seconds_to_fit", "seconds_to_predict", "peak_memory_mb", "acc"]
WIDTHS, CLUSTERS, BLOCK = (32, 32), 5, 100_000


def write(folder: Path, n_samples: int) -> None:
    """Write clusters seen through two noisy linear views, block by block."""
    rng = np.random.default_rng(0)
    centres, maps = 4 * rng.normal(size=(CLUSTERS, 8)), [rng.normal(size=(8, width)) for width in WIDTHS]
    shapes = [(n_samples, width) for width in WIDTHS]
    files = [np.lib.format.open_memmap(folder / f"view_{v}.npy", "w+", "f4", shape) for v, shape in enumerate(shapes)]
    labels = np.lib.format.open_memmap(folder / "labels.npy", "w+", "i1", (n_samples,))
    for start in range(0, n_samples, BLOCK):
        rows = slice(start, min(start + BLOCK, n_samples))
        labels[rows] = rng.integers(CLUSTERS, size=rows.stop - start)
        latent = centres[labels[rows]] + 0.3 * rng.normal(size=(rows.stop - start, 8))
        for v, (file, matrix) in enumerate(zip(files, maps, strict=True)):
            part = latent @ matrix + 0.2 * rng.normal(size=(len(latent), matrix.shape[1]))
            part[(v == 1) & (rng.random(len(latent)) < 0.1)] = np.nan
            file[rows] = part


def fit(folder: Path) -> dict:
    """Fit and predict in this process, and tell what it took."""
    from acova import ACOVA, Training
    from acova.data import StoredViews
    from acova.metrics import clustering_accuracy

    stored = StoredViews.of(folder)
    training = Training(pretrain_epochs=1, warmup_epochs=1, learning_rate=3e-3)
    settings = {"hidden": (64,), "epochs": 1, "batch_size": 4096, "device": "cpu", "random_state": 0}
    model = ACOVA(CLUSTERS, **settings, training=training)
    start = time.perf_counter()
    model.fit(stored)
    middle = time.perf_counter()
    predicted = model.predict(stored)
    end = time.perf_counter()
    lines = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return {
        "samples": len(stored),
        "gigabytes_on_disk": round(stored.nbytes / 1e9, 3),
        "seconds_to_fit": round(middle - start, 1),
        "seconds_to_predict": round(end - middle, 1),
        "peak_memory_mb": round(peak),
        "acc": round(clustering_accuracy(np.load(folder / "labels.npy"), np.asarray(predicted)), 4),
    }


def main() -> None:
    """Write the data, fit each size, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[1_500_000, 5_000_000])
    parser.add_argument("--folder", type=Path, help="where the data go; a temporary folder by default")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "scale.csv")
    parser.add_argument("--fit", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(fit(arguments.fit)))
        return
    rows = []
    for n_samples in arguments.samples:
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            write(Path(folder), n_samples)
            command = [sys.executable, __file__, "--fit", folder]
            rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(rows[-1], flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    with arguments.out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
