r"""Every method of the paper's table on the same masks, beside the published figures.

    python benchmarks/methods.py run BSV Concat KNNImpute --datasets handwritten scene15 cub
    python benchmarks/methods.py run DVIMC MVP CoDE MoE WeightedFusion ACOVA --device cuda
    python benchmarks/methods.py run DCP DSIMVC CPSPAN PMIMC --device cuda
    python benchmarks/methods.py run "DCP, last batch dropped" "CPSPAN, hidden cells read" --device cuda
    python benchmarks/methods.py table --published FOLDER

Run r has mask seed = training seed = r, `uniform_size` masks, the final model; labels serve the scores alone (and, in
the row "BSV", the choice of the view, which is how the papers define it). Settings are each method's `preset` of the
data set; members of ACOVA's family follow `recipe="paper"`. All cells of a method and data set that train a network
train together (`fit_many`). Rows go to results/methods.jsonl with settings, versions, device, seconds and commit; cells
that are there are not repeated. Rows like "DCP, last batch dropped" show what the authors' program does otherwise;
`run QUIRKS` runs all of them. `--set` replaces settings and becomes part of the row's name. `table` prints Markdown:
ACC, the published ACC in brackets, seconds per run, and the cells further than 5 points from the published figure;
FOLDER holds the paper's table1.csv and ablation.csv.
"""

import argparse
import json
import platform
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import sklearn
import torch

import acova
from acova.data import load_dataset, make_observed
from acova.estimators import fit_many
from acova.estimators.registry import METHODS
from acova.metrics import clustering_scores
from rows import ROOT, commit, rows_of, settings_of

ROWS = ROOT / "results" / "methods.jsonl"
PAPER = {"recipe": "paper"}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "BSV": ("BSV", {}),
    "BSV, view chosen without labels": ("BSV", {}),
    "Concat": ("Concat", {}),
    "Concat, z-scored": ("Concat", {"standardize": True}),
    "Concat, rows normalised": ("Concat", {"standardize": True, "normalize_rows": True}),
    "KNNImpute": ("KNNImpute", {}),
    "DVIMC": ("DVIMC", {}),
    "MVP": ("MVP", {}),
    "CoDE": ("CoDE", {"rho": 0.3, **PAPER}),
    "MoE": ("MoE", PAPER),
    "WeightedFusion": ("WeightedFusion", PAPER),
    "ACOVA": ("ACOVA", PAPER),
    "DCP": ("DCP", {}),
    "DCP, last batch dropped": ("DCP", {"drop_last": True}),
    "DSIMVC": ("DSIMVC", {}),
    "DSIMVC, filled anew every 20 steps": ("DSIMVC", {"refresh_every": 20}),
    "CPSPAN": ("CPSPAN", {}),
    "CPSPAN, released prototypes": ("CPSPAN", {"prototypes": "released"}),
    "CPSPAN, hidden cells read": ("CPSPAN", {"prototypes": "released", "drop_last": True, "oracle_leak": True}),
    "CPSPAN, one donor for all": ("CPSPAN", {"prototypes": "released", "drop_last": True, "impute": "zero_code"}),
    "PMIMC": ("PMIMC", {}),
    "PMIMC, released prototypes": ("PMIMC", {"prototypes": "released"}),
    "PMIMC, hidden cells read": ("PMIMC", {"prototypes": "released", "drop_last": True, "oracle_leak": True}),
    "PMIMC, one donor for all": ("PMIMC", {"prototypes": "released", "drop_last": True, "impute": "zero_code"}),
}
"""Row name → method and the settings that replace those of its preset."""
QUIRKS = [name for name in VARIANTS if name.startswith(("DCP,", "DSIMVC,", "CPSPAN,", "PMIMC,"))]
PUBLISHED = {"BSV": "BSV", "Concat": "CONCAT", "DVIMC": "DVIMC", "MVP": "MVP", "ACOVA": "ACOVA", "CoDE": "rho=0.3"}
PUBLISHED |= {name: name for name in ("DCP", "DSIMVC", "CPSPAN", "PMIMC")}
PUBLISHED |= {name: name.split(",", maxsplit=1)[0] for name in QUIRKS}
METRICS = ("acc", "nmi", "ari", "purity")

Cell = tuple[int, int]
"""Missing percent, run."""


def fitted(name: str, dataset: Any, cells: list[Cell], changed: dict[str, Any], device: str) -> Iterator[tuple]:
    """Yield a cell, its fitted model and seconds; networks train together, the others one after the other."""
    method, given = VARIANTS[name]
    cls = METHODS[method]
    settings = {**cls.presets.get(dataset.name, {"n_clusters": dataset.n_classes}), **given, **changed}
    if "device" in cls().get_params():
        settings["device"] = device
    views = dataset.views
    masks = [make_observed(len(views), views.n_views, m / 100, "uniform_size", run) for m, run in cells]
    models = [cls(**settings, random_state=run) for _, run in cells]
    if "device" not in settings:
        for cell, model, mask in zip(cells, models, masks, strict=True):
            start = time.perf_counter()
            model.fit(views, observed=mask)
            yield cell, model, time.perf_counter() - start
        return
    start = time.perf_counter()
    fit_many(models, views, masks, verbose=True)
    seconds = (time.perf_counter() - start) / len(cells)
    yield from ((cell, model, seconds) for cell, model in zip(cells, models, strict=True))


def row_of(name: str, dataset: Any, cell: Cell, model: Any, seconds: float) -> dict[str, Any]:
    """Return the scores of one fit with what is needed to repeat it."""
    on_gpu = hasattr(model, "network_") and next(model.network_.parameters()).is_cuda
    labels = model.oracle_labels(dataset.labels) if name.split(";", maxsplit=1)[0] == "BSV" else model.labels_
    return {
        "dataset": dataset.name,
        "missing_percent": cell[0],
        "method": name,
        "run": cell[1],
        **clustering_scores(dataset.labels, labels),
        "seconds": round(seconds, 2),
        "device": torch.cuda.get_device_name() if on_gpu else platform.processor() or platform.machine(),
        "versions": {"acova": acova.__version__, "torch": torch.__version__, "sklearn": sklearn.__version__},
        "commit": commit(),
        "settings": model.get_params(),
    }


def run(arguments: argparse.Namespace) -> None:
    """Fit the cells that are not there yet."""
    changed = settings_of(arguments.settings)
    done = {(row["dataset"], row["missing_percent"], row["method"], row["run"]) for row in rows_of(arguments.out)}
    arguments.out.parent.mkdir(exist_ok=True)
    methods = [name for asked in arguments.methods for name in (QUIRKS if asked == "QUIRKS" else [asked])]
    for dataset in map(load_dataset, arguments.datasets):
        for variant in methods:
            name = "; ".join([variant, *arguments.settings])
            cells = [(m, r) for m in arguments.missing for r in range(arguments.runs)]
            cells = [(m, r) for m, r in cells if (dataset.name, m, name, r) not in done]
            for cell, model, seconds in fitted(variant, dataset, cells, changed, arguments.device) if cells else ():
                row = row_of(name, dataset, cell, model, seconds)
                with arguments.out.open("a") as file:
                    file.write(json.dumps(row, default=str) + "\n")
                print(f"{dataset.name} {cell[0]} % {name} run {cell[1]}: {row['acc']:.3f} {seconds:.1f} s", flush=True)


def table(arguments: argparse.Namespace) -> None:
    """Print what was measured beside what was published."""
    frame = pd.DataFrame(rows_of(arguments.rows))
    if frame.empty:
        msg = f"{arguments.rows} has no rows yet; make some with: python benchmarks/methods.py run BSV Concat"
        raise SystemExit(msg)
    published = published_means(arguments.published)
    far = []
    for dataset, rows in frame.groupby("dataset", sort=False):
        rates = sorted(rows["missing_percent"].unique())
        print(f"\n## {dataset}\n\n| | " + " | ".join(f"{rate} %" for rate in rates) + " | seconds per run |")
        print("|---" * (len(rates) + 2) + "|")
        for name in [*VARIANTS, *(other for other in rows["method"].unique() if other not in VARIANTS)]:
            mine = rows[rows["method"] == name]
            if mine.empty:
                continue
            texts = []
            for rate in rates:
                acc = mine.loc[mine["missing_percent"] == rate, "acc"]
                known = published.get((dataset, rate, PUBLISHED.get(name)))
                text = f"{acc.mean():.3f} ± {acc.std():.3f}" if len(acc) else "–"
                texts.append(text if known is None else f"{text} ({known:.3f})")
                if known is not None and len(acc) and abs(acc.mean() - known) > 0.05:
                    far.append(f"{dataset} {rate} % {name}: {acc.mean():.3f}, published {known:.3f}")
            print(f"| {name} | " + " | ".join(texts) + f" | {mine['seconds'].mean():.1f} |")
    print("\nMore than 5 points from the published figure:\n" + "\n".join(f"- {line}" for line in far or ["none"]))


def published_means(folder: Path | None) -> dict[tuple[str, int, str], float]:
    """Return the published ACC of each (data set, missing percent, method)."""
    if folder is None:
        return {}
    table1, ablation = pd.read_csv(folder / "table1.csv"), pd.read_csv(folder / "ablation.csv")
    frame = pd.concat([table1, ablation.rename(columns={"variant": "method"})])
    frame = frame[frame["metric"] == "acc"]
    keys = zip(frame["dataset"], frame["missing_percent"].astype(int), frame["method"], strict=True)
    return dict(zip(keys, frame["mean"].astype(float), strict=True))


def main() -> None:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    train = commands.add_parser("run")
    train.add_argument("methods", nargs="+", choices=[*VARIANTS, "QUIRKS"], metavar="METHOD", help=", ".join(VARIANTS))
    train.add_argument("--datasets", nargs="+", default=["handwritten", "scene15", "cub"])
    train.add_argument("--missing", type=int, nargs="+", default=[10, 30, 50, 70], help="percent")
    train.add_argument("--runs", type=int, default=5)
    train.add_argument("--device", default="auto")
    train.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", dest="settings")
    train.add_argument("--out", type=Path, default=ROWS)
    train.set_defaults(do=run)
    show = commands.add_parser("table")
    show.add_argument("--published", type=Path)
    show.add_argument("--rows", type=Path, default=ROWS)
    show.set_defaults(do=table)
    arguments = parser.parse_args()
    arguments.do(arguments)


if __name__ == "__main__":
    main()
