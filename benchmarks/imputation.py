"""How well missing views are imputed, and how many values fall into the stated intervals.

    OMP_NUM_THREADS=1 python benchmarks/imputation.py run --out benchmarks/results/imputation.jsonl
    python benchmarks/imputation.py run nci60 --runs 3 --out rows.jsonl
    python benchmarks/imputation.py table --out benchmarks/results/imputation.jsonl

Data: handwritten, scene15 and, of ../shared/datasets/real, tcga_brca_mixomics, nci60 and pbmc_mosaic_counts; of sets
with more than 600 samples a random 600. Of complete data half of the samples are incomplete, another mask in each
run; of data that are incomplete, three tenths of the samples that have every view lose one of them as well. Only
entries that are hidden so, and that no method sees, are scored.

Error: root mean squared error in units of each feature's standard deviation over observed entries, the mean over the
views. ACOVA is one run (n_init=1); "decoder" is before `calibrate_imputation`, "imputed" after it, "identity" the same
with correlation="identity" (only with --methods acova identity, which fits six times more). KNN is scikit-learn's
KNNImputer (5 neighbours) on z-scored views side by side, "iterative" its IterativeImputer (BayesianRidge) with at most
50 predictors a column and 5 rounds. "MOFA" (with --methods mofa, where mofapy2 can be imported) is MOFA+ with Gaussian
likelihoods on z-scored views and its defaults but 15 factors; its intervals are normal with the variances it imputes
with. Rows that the output file has already are not computed again.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

REAL = Path(__file__).resolve().parents[2] / "shared" / "datasets" / "real"
CLUSTERS = {"handwritten": 10, "scene15": 15, "tcga_brca_mixomics": 3, "nci60": 9, "pbmc_mosaic_counts": 8}
NOMINAL = (50, 80, 90, 95)
_MOST = 600
Arrays = list[np.ndarray]


def read(name: str) -> Arrays:
    """Return the views of a data set, with NaN in rows that are missing as it comes."""
    if name in ("handwritten", "scene15"):
        from acova.data import load_dataset

        arrays = [np.asarray(array, float) for array in load_dataset(name).views.arrays]
    else:
        with np.load(REAL / f"{name}.npz") as file:
            arrays = [file[f"view_{v}"].astype(float) for v in range(int(file["n_views"]))]
    rows = np.random.default_rng(0).permutation(len(arrays[0]))[:_MOST]
    return [array[np.sort(rows)] for array in arrays]


def hidden_entries(arrays: Arrays, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what is observed (N, V), and which of the entries that are there are hidden."""
    from acova.data import make_observed

    there = np.column_stack([~np.isnan(array).all(axis=1) for array in arrays])
    observed = there.copy()
    if there.all():
        observed = make_observed(*there.shape, 0.5, random_state=run)
    else:
        numbers = np.random.default_rng(run)
        complete = np.flatnonzero(there.all(axis=1))
        lose = numbers.permutation(complete)[: round(0.3 * len(complete))]
        observed[lose, numbers.integers(there.shape[1], size=len(lose))] = False
    return observed, there & ~observed


def errors(arrays: Arrays, filled: Arrays, observed: np.ndarray, hidden: np.ndarray) -> list[float]:
    """Return each view's root mean squared error over hidden entries, in standard deviations of observed ones."""
    found = []
    for v, (array, values) in enumerate(zip(arrays, filled, strict=True)):
        spread = array[observed[:, v]].std(axis=0)
        gap = (values - array)[hidden[:, v]][:, spread > 0] / spread[spread > 0]
        found.append(float(np.sqrt(np.square(gap).mean())))
    return found


def of_acova(
    views: Arrays, arrays: Arrays, hidden: np.ndarray, clusters: int, run: int, *, identity: bool
) -> dict[str, dict]:
    """Return what ACOVA imputes, before and after calibration, the coverage of its intervals and seconds."""
    from acova import ACOVA

    results = {}
    for name, correlation in (("imputed", "learned"), ("identity", "identity"))[: 1 + identity]:
        start = time.process_time()
        model = ACOVA(clusters, n_init=1, correlation=correlation, random_state=run).fit(views)
        fitted = time.process_time() - start
        if name == "imputed":
            results["decoder"] = {"filled": model.impute(views), "seconds": fitted}
        start = time.process_time()
        model.calibrate_imputation(views)
        levels = [(1 + sign * nominal / 100) / 2 for nominal in NOMINAL for sign in (-1, 1)]
        filled, quantiles = model.impute(views, quantiles=levels)
        covered: dict[str, list[float]] = {}
        for number, nominal in enumerate(NOMINAL):
            low, high = quantiles[2 * number], quantiles[2 * number + 1]
            covered[str(nominal)] = [
                float(((a <= x) & (x <= b))[hidden[:, v]].mean())
                for v, (a, x, b) in enumerate(zip(low, arrays, high, strict=True))
            ]
        report = model.imputation_report()
        stated = {str(nominal): report[f"coverage_{nominal}"].tolist() for nominal in NOMINAL}
        weights = {view: row.drop(labels=report.columns[:7]).round(3).to_dict() for view, row in report.iterrows()}
        more = {"coverage": covered, "stated": stated, "weights": weights}
        results[name] = {"filled": filled, "seconds": fitted + time.process_time() - start, **more}
    return results


def by_scikit_learn(imputer: Callable[[], object]) -> Callable[[Arrays], Arrays]:
    """Return a function that imputes z-scored views side by side with an imputer of scikit-learn."""

    def imputed(views: Arrays) -> Arrays:
        means, spreads = [np.nanmean(view, axis=0) for view in views], [np.nanstd(view, axis=0) for view in views]
        spreads = [np.where(spread > 0, spread, 1.0) for spread in spreads]
        table = np.hstack([(view - mean) / spread for view, mean, spread in zip(views, means, spreads, strict=True)])
        filled = imputer().fit_transform(table)  # type: ignore[attr-defined]
        parts = np.split(filled, np.cumsum([view.shape[1] for view in views])[:-1], axis=1)
        return [part * spread + mean for part, mean, spread in zip(parts, means, spreads, strict=True)]

    return imputed


def of_mofa(views: Arrays, arrays: Arrays, hidden: np.ndarray) -> dict:
    """Return what MOFA imputes, the coverage of its intervals and seconds."""
    from contextlib import redirect_stdout
    from io import StringIO

    from mofapy2.run.entry_point import entry_point
    from scipy.stats import norm

    means, spreads = [np.nanmean(view, axis=0) for view in views], [np.nanstd(view, axis=0) for view in views]
    varies = [spread > 0 for spread in spreads]  # MOFA refuses features without variance
    start = time.process_time()
    with redirect_stdout(StringIO()):
        model = entry_point()
        model.set_data_options()
        parts = zip(views, means, spreads, varies, strict=True)
        model.set_data_matrix([[((view - mean) / spread)[:, some]] for view, mean, spread, some in parts])
        model.set_model_options(factors=15)
        model.set_train_options(iter=1000, convergence_mode="fast", seed=0, quiet=True)
        model.build()
        model.run()
        model.impute(mask_outliers=False)
    filled, covered = [], {str(nominal): [] for nominal in NOMINAL}
    for v, (mean, variance) in enumerate(zip(*model.imputed_data.values(), strict=True)):
        whole = np.tile(means[v], (len(mean), 1))
        whole[:, varies[v]] += mean * spreads[v][varies[v]]
        filled.append(whole)
        gap = np.abs(whole - arrays[v])[hidden[:, v]]
        std = np.zeros_like(whole)
        std[:, varies[v]] = np.sqrt(variance) * spreads[v][varies[v]]
        for nominal in NOMINAL:
            reach = norm.ppf((1 + nominal / 100) / 2) * std[hidden[:, v]]
            covered[str(nominal)].append(float((gap <= reach).mean()))
    return {"filled": filled, "coverage": covered, "seconds": time.process_time() - start}


def others() -> dict[str, Callable[[Arrays], Arrays]]:
    """Return the imputers to compare with, by name."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer, KNNImputer, SimpleImputer

    iterative = {"n_nearest_features": 50, "max_iter": 5, "random_state": 0}
    return {
        "mean": by_scikit_learn(SimpleImputer),
        "KNN": by_scikit_learn(KNNImputer),
        "iterative": by_scikit_learn(lambda: IterativeImputer(**iterative)),
    }


def run(names: list[str], runs: int, out: Path, methods: list[str]) -> None:
    """Append a row per data set, run and method."""
    done = {(row["data"], row["run"], row["method"]) for row in rows_of(out)}
    for name in names:
        arrays = read(name)
        for number in range(runs):
            observed, hidden = hidden_entries(arrays, number)
            views = [np.where(observed[:, [v]], array, np.nan) for v, array in enumerate(arrays)]

            def write(method: str, found: dict) -> None:
                error = errors(arrays, found.pop("filled"), observed, hidden)  # noqa: B023
                row = {"data": name, "run": number, "method": method, "error": error, **found}  # noqa: B023
                with out.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
                print(name, number, method, np.round(np.mean(error), 4), flush=True)  # noqa: B023

            for method, imputed in others().items():
                if method in methods and (name, number, method) not in done:
                    start = time.process_time()
                    write(method, {"filled": imputed(views), "seconds": time.process_time() - start})
            if "mofa" in methods and (name, number, "MOFA") not in done:
                write("MOFA", of_mofa(views, arrays, hidden))
            if "acova" in methods and (name, number, "imputed") not in done:
                identity = "identity" in methods
                found_of = of_acova(views, arrays, hidden, CLUSTERS[name], number, identity=identity)
                for method, found in found_of.items():
                    write(method, found)


def rows_of(path: Path) -> list[dict]:
    """Return the rows of a file, none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(path: Path) -> None:
    """Print errors and coverages, the mean over runs and views."""
    rows = rows_of(path)
    frame = pd.DataFrame([{**row, "error": np.mean(row["error"])} for row in rows])
    print(frame.pivot_table(index="data", columns="method", values="error").round(3).to_string(), "\n")
    print(frame.pivot_table(index="data", columns="method", values="seconds").round(0).to_string(), "\n")
    print(frame[frame["method"] == "imputed"].groupby("data")["run"].count().to_string(), "\n")
    covered = [
        {"data": row["data"], "method": row["method"], "nominal": int(k), "share": 100 * np.mean(v)}
        for row in rows
        for k, v in row.get("coverage", {}).items()
    ]
    print(pd.DataFrame(covered).pivot_table(index=["data", "method"], columns="nominal", values="share").round(1))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "table"))
    parser.add_argument("names", nargs="*", default=list(CLUSTERS))
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--methods", nargs="*", default=["mean", "KNN", "iterative", "acova"])
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.what == "table":
        table(arguments.out)
    else:
        run(arguments.names or list(CLUSTERS), arguments.runs, arguments.out, arguments.methods)


if __name__ == "__main__":
    main()
