"""How far stated confidence can be believed: means over the data sets of a store of benchmark rows.

    python benchmarks/confidence.py results/real.jsonl "ACOVA, default"

Prints the mean over data sets of confidence minus accuracy, and of the AUROC, right against wrong labels, of the
confidence and of the agreement of the runs; the data sets with the least and the largest difference; and how many fits
warned.
"""

import argparse
import json
from pathlib import Path

import pandas as pd

MEASURES = ("overconfidence", "auroc_confidence", "auroc_agreement", "warned")


def table_of(store: Path, method: str) -> pd.DataFrame:
    """Return what a method's rows say of their own results, one line per data set, averaged over the runs."""
    rows = [row for row in map(json.loads, store.read_text().splitlines()) if row["method"] == method]
    found = [{"data": row["dataset"], **row["records"]["result"]} for row in rows if "failed" not in row]
    return pd.DataFrame(found).reindex(columns=["data", *MEASURES]).groupby("data").mean()


def main() -> None:
    """Print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("method")
    arguments = parser.parse_args()
    table = table_of(arguments.store, arguments.method)
    print(table.mean().drop("warned").to_string(float_format="{:+.3f}".format))
    gaps = table["overconfidence"].sort_values()
    print(f"least {gaps.index[0]} {gaps.iloc[0]:+.3f}, largest {gaps.index[-1]} {gaps.iloc[-1]:+.3f}")
    print(f"warnings per fit: {table['warned'].mean():.3f}")


if __name__ == "__main__":
    main()
