"""Do two stores of results differ? The same fits (equal keys), by method and data set.

    git show 04d71ab:results/robustness.jsonl > before.jsonl
    python benchmarks/paired.py before.jsonl results/robustness.jsonl --methods robust consensus

Prints the mean difference in ACC points, second store minus first, with its 95 % confidence interval.
"""

import argparse
from pathlib import Path

import pandas as pd
from scipy.stats import t


def main() -> None:
    """Print a line for every method, over all data sets and for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--methods", nargs="+")
    arguments = parser.parse_args()
    first, second = (pd.read_json(path, lines=True).set_index("key") for path in (arguments.first, arguments.second))
    both = first.join(second[["acc", "commit"]], rsuffix="_second", how="inner").dropna(subset=["acc", "acc_second"])
    if arguments.methods:
        both = both[both["method"].isin(arguments.methods)]
    both = both[both["commit"] != both["commit_second"]]
    if both.empty:
        msg = "paired.py: the stores share no fit that was made twice; give two of one benchmark, of different commits."
        raise SystemExit(msg)
    points = 100 * (both["acc_second"] - both["acc"])
    for method, rows in both.groupby("method", sort=False):
        for name, index in [("all", rows.index), *rows.groupby("dataset", sort=False).groups.items()]:
            part = points[index]
            half = t.ppf(0.975, len(part) - 1) * part.std() / len(part) ** 0.5
            print(f"{method:12s} {name:12s} {len(part):4d} fits {part.mean():+6.2f} ± {half:.2f} points")


if __name__ == "__main__":
    main()
