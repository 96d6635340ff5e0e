"""Does a method reach its targets? Its distance to the best peer, and to the same data without a disturbance.

    python benchmarks/targets.py benchmarks/stress.toml results/stress.jsonl "ACOVA, default" --undisturbed undisturbed
    python benchmarks/targets.py benchmarks/real.toml results/real.jsonl "ACOVA, default" --peers NEMO KNNImpute Concat

Prints a line for every data set and missing rate: ACC of the method, ACC and name of the best peer, the difference in
points, and the difference to the undisturbed data. A star marks more than two points behind. A peer that lacks runs
counts with those that it has.
"""

import argparse
from pathlib import Path

import pandas as pd

from acova.bench import BenchSpec, Store
from acova.bench.cells import Results

TOLERANCE = 2.0
"""Points that a method may be behind."""


def distances(means: pd.DataFrame, method: str, peers: list[str], undisturbed: str = "") -> pd.DataFrame:
    """Return, per data set and rate, the method's score, the best peer, and how many points it is ahead of either.

    Parameters
    ----------
    means : DataFrame
        Scores: data sets and rates in rows, methods in columns, as of `Results.means`.
    method : str
    peers : list of str
    undisturbed : str
        The data set without a disturbance; none by default.
    """
    mine = means[means[method].notna() & means[peers].notna().any(axis=1)]
    best = mine[peers].max(axis=1)
    found = pd.DataFrame({"acc": mine[method], "peer": mine[peers].idxmax(axis=1), "its acc": best})
    found["ahead of it"] = 100 * (mine[method] - best)
    if undisturbed:
        without = mine.loc[undisturbed, method].groupby(level=-1).first()
        found["ahead of undisturbed"] = 100 * (mine[method] - mine.index.get_level_values(1).map(without))
    return found


def main() -> None:
    """Print the distances and how many are within the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("spec", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("method")
    parser.add_argument("--peers", nargs="+", default=["Concat", "KNNImpute", "NEMO"])
    parser.add_argument("--undisturbed", default="")
    arguments = parser.parse_args()
    spec = BenchSpec.from_toml(arguments.spec)
    store = Store(arguments.store)
    store.borrow(fit.key for fit in spec.fits())
    means = Results.of(spec, store).means("acc").reindex([data.name for data in spec.data], level=0)
    unknown = {arguments.method, *arguments.peers} - {*means.columns}
    if unknown:
        msg = f"targets.py: {spec.name} has no method {sorted(unknown)[0]!r}; it has {', '.join(means.columns)}."
        raise SystemExit(msg)
    found = distances(means, arguments.method, arguments.peers, arguments.undisturbed)
    if found.empty:
        msg = f"targets.py: {arguments.store} has no data set on which {arguments.method!r} and a peer have results."
        raise SystemExit(msg)
    marked = found.copy()
    for column in [name for name in found if name.startswith("ahead")]:
        marked[column] = found[column].map(lambda points: f"{points:+.1f}{'*' if points < -TOLERANCE else ' '}")
    print(marked.to_string(float_format="{:.3f}".format))
    for column in [name for name in found if name.startswith("ahead")]:
        print(f"{column}: at most {TOLERANCE:g} points behind in {(found[column] >= -TOLERANCE).sum()} of {len(found)}")


if __name__ == "__main__":
    main()
