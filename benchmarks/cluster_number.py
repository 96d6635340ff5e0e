"""The number of clusters by `select_n_clusters` and by other rules, and how often structure is claimed without any.

    OMP_NUM_THREADS=1 python benchmarks/cluster_number.py sets --out sets.csv
    OMP_NUM_THREADS=1 python benchmarks/cluster_number.py made --out made.csv
    OMP_NUM_THREADS=1 python benchmarks/cluster_number.py none --runs 20 --out none.csv
    OMP_NUM_THREADS=1 python benchmarks/cluster_number.py model --out model.csv
    OMP_NUM_THREADS=1 python benchmarks/cluster_number.py cost handwritten
    python benchmarks/cluster_number.py table sets.csv

`sets`: labelled data, those of ../shared/datasets where that folder is there; half of the samples of complete data are
incomplete, those of incomplete data are as they come. Of more than 2,000 samples 2,000 are drawn. `made`: 1 to 20
Gaussian clusters in three views, half of the samples incomplete, balanced or with sizes from 1 to 8. `none`: data
without clusters. Labels are used for the comparison alone. Mask, draw and seed are the run's number; the rule of
`select_n_clusters` was chosen on run 0, so report others.

`model`: rules that need a network for every candidate, on sets that are small enough. ACOVA, one run with half of the
default epochs for each of 2 to 12 clusters, is trained on four fifths of the samples. `bound` is the largest `score` of
the others; `silhouette_z` and `gap_z` are the largest silhouette and gap statistic (5 uniform references) of the
clusters, in the latent space of the fit that found them. `cost`: seconds of `select_n_clusters` and of the default fit,
of which one run is timed and counted five times.

Other rules, all with the candidates 2 to 15 (made data: 2 to 25): `stability`, the largest adjusted Rand index between
clusters of all samples and of 80 %; `eigengap`, the largest gap of the random walk's eigenvalues on the graph of all
views with equal weights, and `nemo`, the same times the number of clusters, as NEMO chooses; `silhouette` and `gap`,
the largest silhouette of k-means and the gap statistic (Tibshirani et al., 2001; 10 uniform references, one standard
error) on the KNN-imputed table, in its first 50 principal components.
"""

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

SHARED = Path(__file__).resolve().parents[2] / "shared" / "datasets"
SETS = (
    *("iris", "wine", "cancer", "digits", "handwritten", "cub", "scene15", "nci60", "snareseq", "pbmc_mosaic_counts"),
    *("tcga_brca_mixomics", "tcga_acc_all", "3sources416", "reuters600", "webkb", "basicmotions"),
)
NUMBERS = (1, 2, 3, 5, 8, 12, 20)
KINDS = ("gaussian", "one factor", "independent", "wide", "elliptical t", "t errors", "uniform", "skew")
MOST = 2_000
MODEL_SETS = ("iris", "wine", "nci60", "basicmotions", "tcga_acc_all", "tcga_brca_mixomics", "webkb", "3sources416")
MODEL_CANDIDATES = tuple(range(2, 13))
SHORT = {"n_init": 1, "consensus": False, "pretrain_epochs": 50, "warmup_epochs": 50, "epochs": 100}


def read(name: str, run: int):
    """Return the views and labels of a data set."""
    from acova import Views
    from acova.data import load_dataset, make_observed

    observed = None
    if name in ("iris", "wine", "cancer"):
        import small_data

        tables, labels = getattr(small_data, name)()
        arrays = list(tables.values())
    elif name == "digits":
        data = load_dataset(name)
        arrays, labels = list(data.views.arrays), np.asarray(data.labels)
    else:
        path = next(folder / f"{name}.npz" for folder in (SHARED / "real", SHARED) if (folder / f"{name}.npz").exists())
        with np.load(path) as file:
            arrays, labels = [file[f"view_{v}"] for v in range(int(file["n_views"]))], file["labels"].ravel()
            observed = file["observed"].astype(bool) if "observed" in file else None
    rows = np.flatnonzero((labels >= 0) & (True if observed is None else observed.any(axis=1)))
    if len(rows) > MOST:
        rows = np.sort(np.random.default_rng(run).permutation(rows)[:MOST])
    mask = make_observed(len(rows), len(arrays), 0.5, random_state=run) if observed is None else observed[rows]
    return Views.of([np.asarray(array[rows], dtype=np.float64) for array in arrays], mask), labels[rows]


def made(number: int, balanced: bool, run: int):
    """Return views and labels of Gaussian clusters seen through three linear maps."""
    from acova import Views
    from acova.data import make_observed

    rng = np.random.default_rng([run, number, balanced])
    count, width = max(300, 40 * number), int(np.clip(number, 6, 10))
    shares = np.ones(number) if balanced else np.geomspace(1, 8, number)
    labels = rng.choice(number, count, p=shares / shares.sum())
    centers = 3 * np.sqrt(3 / width) * rng.normal(size=(number, width))
    latent = centers[labels] * (number > 1) + rng.normal(size=(count, width))
    arrays = [1.5 * latent @ rng.normal(size=(width, p)) / np.sqrt(width) for p in (30, 15, 8)]
    arrays = [array + rng.normal(size=array.shape) for array in arrays]
    return Views.of(arrays, make_observed(count, 3, 0.5, random_state=run)), labels


def without_clusters(kind: str, run: int):
    """Return views of data that have no clusters."""
    from acova import Views
    from acova.data import make_observed

    rng = np.random.default_rng([run, KINDS.index(kind)])
    count, widths, width = 300, (30, 15, 8), 1 if kind == "one factor" else 6
    if kind == "wide":
        count, widths = 120, (300, 200)
    latent = rng.normal(size=(count, width)) * np.sqrt(np.linspace(2, 0.3, width))
    if kind == "uniform":
        latent = rng.uniform(-1.7, 1.7, size=(count, width))
    if kind == "skew":
        latent = np.exp(0.7 * latent)
    strength = 0 if kind == "independent" else 1.5 / np.sqrt(width)
    arrays = [strength * latent @ rng.normal(size=(width, p)) for p in widths]
    heavy = kind == "t errors"
    arrays = [a + (rng.standard_t(2, size=a.shape) if heavy else rng.normal(size=a.shape)) for a in arrays]
    if kind == "elliptical t":
        arrays = [array * np.sqrt(3 / rng.chisquare(3, size=count))[:, None] for array in arrays]
    return Views.of(arrays, make_observed(count, len(widths), 0.5, random_state=run))


def eigengaps(views, candidates):
    """Return the gaps after each number of eigenvalues of the graph whose views count alike."""
    from acova.clustering.graphs import combined_graph, view_graphs
    from acova.clustering.spectral import walk_eigenvectors
    from acova.data import Scaling
    from acova.training.extremes import scaled

    tables = scaled(views, Scaling.fit(views, ("auto",) * views.n_views))
    graphs = view_graphs(tables, views.observed, 8)
    graph = combined_graph(graphs, views.observed, np.ones(views.n_views))
    values = walk_eigenvectors(graph, max(candidates) + 1)[0][::-1]
    return np.array([values[k - 1] - values[k] for k in candidates])


def imputed_table(views, run: int):
    """Return the KNN-imputed table in its first 50 principal components."""
    from sklearn.decomposition import PCA

    from acova import KNNImpute

    model = KNNImpute(2, standardize="auto", n_init=1, random_state=run).fit(views)
    table = np.hstack(model._filled(views))
    return PCA(min(50, *table.shape), random_state=0).fit_transform(table)


def by_table(table, candidates, run: int) -> dict[str, int]:
    """Return what silhouette and gap statistic choose for k-means on a table."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    def fits(rows):
        return [KMeans(k, n_init=3, random_state=run).fit(rows) for k in (1, *candidates)]

    rng = np.random.default_rng(run)
    found = fits(table)
    silhouettes = [
        silhouette_score(table, fit.labels_, sample_size=min(1000, len(table)), random_state=0) for fit in found[1:]
    ]
    low, high = table.min(axis=0), table.max(axis=0)
    logs = np.log([[fit.inertia_ for fit in fits(rng.uniform(low, high, size=table.shape))] for _ in range(10)])
    gap = logs.mean(axis=0) - np.log([fit.inertia_ for fit in found])
    error = logs.std(axis=0) * np.sqrt(1 + 1 / len(logs))
    numbers = [1, *candidates]
    enough = [i for i in range(len(gap) - 1) if gap[i] >= gap[i + 1] - error[i + 1]]
    return {"silhouette": candidates[int(np.argmax(silhouettes))], "gap": numbers[enough[0] if enough else -1]}


def choices(views, largest: int, run: int, *, others: bool = True) -> dict[str, float]:
    """Return the number that each rule chooses."""
    from acova import select_n_clusters

    candidates = range(2, min(largest, len(views) // 3) + 1)
    start = time.process_time()
    found = select_n_clusters(views, candidates, random_state=run)
    seconds = time.process_time() - start
    table = found.table
    row = {
        "ours": found.n_clusters,
        "largest gain": int(table["gain"].idxmax()),
        "gain_": table["gain"].max(),
        "p_": found.p_value,
        "seconds_": seconds,
        "stability": int(table["stability"].idxmax()),
    }
    if others:
        gaps = eigengaps(views, candidates)
        row |= {"eigengap": candidates[int(gaps.argmax())], "nemo": candidates[int((gaps * candidates).argmax())]}
        row |= by_table(imputed_table(views, run), candidates, run)
    return row


def by_model(views, run: int) -> dict[str, int]:
    """Return what the model's bound of held-out samples, and its latent space, choose."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    from acova import ACOVA

    rng = np.random.default_rng(run)
    order = rng.permutation(len(views))
    cut = len(order) // 5
    held, train = views.take(np.sort(order[:cut])), views.take(np.sort(order[cut:]))
    rows = []
    for k in MODEL_CANDIDATES:
        model = ACOVA.from_settings(k, random_state=run, **SHORT).fit(train)
        latent, labels = np.asarray(model.latent_, dtype=np.float64), model.labels_
        within = sum(np.square(latent[labels == c] - latent[labels == c].mean(axis=0)).sum() for c in np.unique(labels))
        low, high = latent.min(axis=0), latent.max(axis=0)
        drawn = [rng.uniform(low, high, size=latent.shape) for _ in range(5)]
        reference = np.mean([np.log(KMeans(k, n_init=1, random_state=0).fit(rows).inertia_) for rows in drawn])
        silhouette = silhouette_score(latent, labels) if len(np.unique(labels)) > 1 else -1.0
        rows.append((model.score(held), silhouette, reference - np.log(within)))
    best = np.argmax(rows, axis=0)
    return {name: MODEL_CANDIDATES[at] for name, at in zip(("bound", "silhouette_z", "gap_z"), best, strict=True)}


def cost(name: str, run: int) -> None:
    """Print what choosing costs beside what is fitted then."""
    from acova import ACOVA, select_n_clusters

    views, labels = read(name, run)
    start = time.process_time()
    select_n_clusters(views, range(2, 16), random_state=run)
    chosen = time.process_time() - start
    start = time.process_time()
    ACOVA.from_settings(len(np.unique(labels)), n_init=1, consensus=False, random_state=run).fit(views)
    fit = 5 * (time.process_time() - start)
    print(f"{name}: choosing {chosen:.0f} s, default fit of five runs {fit:.0f} s, ratio {(chosen + fit) / fit:.2f}")


def jobs(what: str, names: list[str], run: int):
    """Yield name, true number, views, largest candidate and whether other rules are asked."""
    if what in ("sets", "model"):
        for name in names or (SETS if what == "sets" else MODEL_SETS):
            views, labels = read(name, run)
            yield name, len(np.unique(labels)), views, 15, True
    elif what == "made":
        for number in NUMBERS:
            for balanced in (True, False) if number > 1 else (True,):
                views, labels = made(number, balanced, run)
                yield f"{number} {'balanced' if balanced else 'unequal'}", number, views, 25, True
    else:
        for kind in names or KINDS:
            yield kind, 1, without_clusters(kind, run), 15, False


def as_markdown(rows: pd.DataFrame) -> str:
    """Return the numbers by rule, one line per data set, and the mean errors; several runs are separated by commas."""
    rules = [column for column in rows.columns[3:] if not column.endswith("_") and rows[column].notna().any()]
    lines = ["| | true | " + " | ".join(rules) + " |", "|---" * (len(rules) + 2) + "|"]
    for name, some in rows.groupby("data", sort=False):
        cells = [", ".join(f"{value:.0f}" for value in some[rule]) for rule in rules]
        lines.append(f"| {name} | {some['true'].iloc[0]} | " + " | ".join(cells) + " |")
    several = rows[rows["true"] > 1]
    if len(several):
        error = np.abs(np.log2(several[rules].div(several["true"], axis=0)))
        exact = several[rules].eq(several["true"], axis=0)
        lines.append(
            "| mean error in doublings | | " + " | ".join(f"{error[rule].mean():.2f}" for rule in rules) + " |"
        )
        lines.append("| exact | | " + " | ".join(f"{exact[rule].mean():.0%}" for rule in rules) + " |")
    none = rows[rows["true"] == 1]
    if len(none):
        lines.append(f"\n{(none['ours'] > 1).sum()} of {len(none)} data sets without clusters get more than one.")
    return "\n".join([*lines, f"\nSeconds of one core: {rows['seconds_'].min():.0f} to {rows['seconds_'].max():.0f}."])


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("sets", "made", "none", "model", "cost", "table"))
    parser.add_argument("names", nargs="*", help="data sets, kinds, or the csv files of a table")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--first", type=int, default=1, help="number of the first run")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "table":
        print(as_markdown(pd.concat([pd.read_csv(name) for name in arguments.names])))
        return
    warnings.simplefilter("ignore")
    if arguments.what == "cost":
        for name in arguments.names:
            cost(name, arguments.first)
        return
    rows: list[dict[str, object]] = []
    for run in range(arguments.first, arguments.first + arguments.runs):
        for name, true, views, largest, others in jobs(arguments.what, arguments.names, run):
            found = choices(views, largest, run, others=others and arguments.what != "model")
            found |= by_model(views, run) if arguments.what == "model" else {}
            rows.append({"data": name, "run": run, "true": true, **found})
            print(rows[-1], flush=True)
            if arguments.out:
                pd.DataFrame(rows).to_csv(arguments.out, index=False)
    print(as_markdown(pd.DataFrame(rows)))


if __name__ == "__main__":
    main()
