"""Peak memory of fitting a large sparse matrix, and that the result is the one of the dense matrix.

    python benchmarks/sparse.py
    python benchmarks/sparse.py --samples 20000 --features 5000 --dense

A second view of 50 dense features stands beside the matrix, whose filled cells are counts that depend on ten groups.
Networks are not pretrained, and training has one epoch: memory does not depend on their number. Each kind of matrix
has a process of its own, whose largest memory is shown before and after the fit. ``--dense`` also fits the same matrix
written dense to a file of rows, which is read by windows as the sparse one is, and compares the two results.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

GROUPS = 10
BLOCK = 500


def made(samples: int, features: int, filled: float) -> tuple[csr_array, np.ndarray]:
    """Return counts, sparse, with groups in them, and a dense view of the same samples."""
    rng = np.random.default_rng(0)
    groups = rng.integers(GROUPS, size=samples)
    rates = rng.gamma(2.0, size=(GROUPS, features))
    rates = np.minimum(rates * filled / rates.mean(), 1.0).astype(np.float32)
    cells = np.empty(
        round(1.1 * filled * samples * features) + features, np.float32
    )  # pages not written to cost nothing
    places, ends = np.empty(len(cells), np.int32), np.zeros(samples + 1, np.int64)
    for start in range(0, samples, BLOCK):
        own = groups[start : start + BLOCK]
        rows, columns = np.nonzero(rng.random((len(own), features), dtype=np.float32) < rates[own])
        ends[start + 1 : start + 1 + len(own)] = ends[start] + np.cumsum(np.bincount(rows, minlength=len(own)))
        span = slice(ends[start], ends[start + len(own)])
        places[span], cells[span] = columns, 1 + rng.poisson(1.0, size=len(columns))
    matrix = csr_array((cells[: ends[-1]], places[: ends[-1]], ends), shape=(samples, features))
    beside = rng.normal(size=(GROUPS, 50))[groups] + rng.normal(size=(samples, 50))
    return matrix, beside.astype(np.float32)


def measure(arguments: argparse.Namespace) -> None:
    """Fit one kind of matrix in this process, print its memory, and keep its result."""
    import acova.estimators._base as base
    from acova import ACOVA

    matrix, beside = made(arguments.samples, arguments.features, arguments.filled)
    if arguments.here == "dense":
        matrix = _stored(matrix, arguments.result)
    base._IN_MEMORY = 0  # both are read by windows, however small they are
    held = _peak()
    start = time.perf_counter()
    settings = {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 1, "n_init": 1, "random_state": 0, "verbose": False}
    model = ACOVA.from_settings(GROUPS, **settings).fit({"counts": matrix, "beside": beside})
    seconds = time.perf_counter() - start
    print(
        f"{arguments.here}: {arguments.samples:,} x {arguments.features:,}, {arguments.filled:.0%} filled; peak "
        f"{held:.2f} GB before the fit, {_peak():.2f} GB after it; {seconds:.0f} s",
        flush=True,
    )
    if arguments.result:
        np.savez(arguments.result, probabilities=model.probabilities_, objective=model.objective_)


def _stored(matrix: csr_array, result: str) -> Path:
    """Write the matrix dense to a file of rows, which is read by windows, too."""
    path = Path(result).with_suffix(".npy")
    rows = np.lib.format.open_memmap(path, "w+", np.float32, matrix.shape)
    for start in range(0, len(rows), BLOCK):
        rows[start : start + BLOCK] = matrix[start : start + BLOCK].toarray()
    rows.flush()
    return path


def _peak() -> float:
    """Return the largest memory of this process in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def main() -> None:
    """Read the arguments, and measure each kind of matrix in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=20_000)
    parser.add_argument("--filled", type=float, default=0.05)
    parser.add_argument("--dense", action="store_true", help="compare with the same matrix on disk, dense")
    parser.add_argument("--here", choices=("sparse", "dense"), help=argparse.SUPPRESS)
    parser.add_argument("--result", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        measure(arguments)
        return
    sizes = [f"--{name}={getattr(arguments, name)}" for name in ("samples", "features", "filled")]
    with tempfile.TemporaryDirectory() as folder:
        kinds = ("sparse", "dense") if arguments.dense else ("sparse",)
        files = {kind: f"{folder}/{kind}.npz" for kind in kinds}
        for kind, file in files.items():
            subprocess.run([sys.executable, __file__, *sizes, "--here", kind, "--result", file], check=True)
        if arguments.dense:
            first, second = (np.load(file) for file in files.values())
            apart = np.abs(first["probabilities"] - second["probabilities"]).max()
            print(f"cluster probabilities differ by at most {apart:.1e}")


if __name__ == "__main__":
    main()
