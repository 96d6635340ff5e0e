"""Are the authors' training seeds lucky? Their seed beside twenty others, each with masks 1 to 5, recipe="paper".

    python benchmarks/seeds.py handwritten scene15 cub --missing 30
    python benchmarks/seeds.py --show

The authors' program sets one training seed per data set and varies the mask. A number means other initial weights here
than there, so this tells how much a seed decides, and how far the best of 21 is from their mean; it cannot repeat their
run. Every run is a line of ``results/seeds.jsonl`` (--out); what is there is not run again. ``--show`` prints the
table and draws ``seeds.png`` and ``.svg`` beside it.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd

from acova import ACOVA, __version__
from acova.bench import paper_spec
from acova.bench.cells import published_values
from acova.data import load_dataset, make_observed
from acova.estimators import fit_many
from acova.metrics import clustering_scores

AUTHORS = {"handwritten": 19, "scene15": 1, "fashion": 2, "noisymnist": 10, "cub": 42}
MASKS = (1, 2, 3, 4, 5)
OTHERS = 20
ROOT = Path(__file__).resolve().parents[1]


def seeds_of(name: str, others: int = OTHERS) -> list[int]:
    """Return the authors' seed of a data set, then the first numbers that are another one."""
    return [AUTHORS[name], *(seed for seed in range(others + 1) if seed != AUTHORS[name])][: others + 1]


def stored(path: Path) -> pd.DataFrame:
    """Return the rows of a file, one per run."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return pd.DataFrame(rows, columns=list(rows[0]) if rows else ["dataset", "missing_percent", "seed", "mask", "acc"])


def run(name: str, missing: float, others: int, path: Path, device: str, settings: dict) -> None:
    """Train what is not in the file, the seeds of one mask together, and append it mask by mask."""
    dataset = load_dataset(name)
    views = dataset.views
    rows = stored(path)
    done = set(zip(rows["dataset"], rows["missing_percent"], rows["seed"], rows["mask"], strict=True))
    for mask in MASKS:
        seeds = [seed for seed in seeds_of(name, others) if (name, missing, seed, mask) not in done]
        if not seeds:
            continue
        observed = make_observed(len(views), views.n_views, missing / 100, random_state=mask)
        models = [
            ACOVA.from_settings(
                **{**ACOVA.presets[name], "recipe": "paper", "random_state": seed, "device": device, **settings}
            )
            for seed in seeds
        ]
        fit_many(models, views, [observed] * len(models))
        with path.open("a") as file:
            for seed, model in zip(seeds, models, strict=True):
                row = {"dataset": name, "missing_percent": missing, "seed": seed, "mask": mask}
                scores = clustering_scores(dataset.labels, model.labels_)
                about = {**model.provenance_, "acova": __version__, "changed": settings}
                file.write(json.dumps({**row, **scores, "objective": model.objective_, "about": about}, default=str))
                file.write("\n")
        print(f"{name} {missing:g} %, mask {mask}: {len(seeds)} seeds", flush=True)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Return a row per data set and rate: the authors' seed, the others, the best, and what was published."""
    known = published_values(paper_spec("table1"))
    lines = []
    for (name, missing), cell in rows.groupby(["dataset", "missing_percent"], sort=False):
        means = cell.groupby("seed")["acc"].mean()
        own = means[AUTHORS[str(name)]]
        others = means.drop(AUTHORS[str(name)])
        lines.append(
            {
                "dataset": name,
                "missing_percent": missing,
                "seeds": len(means),
                "masks": int(cell.groupby("seed").size().min()),
                "authors": own,
                "others": others.mean(),
                "others_std": others.std(),
                "best": others.max(),
                "better": int((others > own).sum()),
                "published": known[str(name), "ACOVA", f"{missing:g}", "acc"][0],
            }
        )
    return pd.DataFrame(lines)


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw the mean over masks of every seed, the authors' own and the published mean, a panel per data set."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    table = summary(rows)
    names = [name for name in AUTHORS if name in set(table["dataset"])]
    with mpl.rc_context({"svg.hashsalt": "acova"}):
        figure, panes = plt.subplots(
            1, len(names), figsize=(2.7 * len(names) + 0.6, 3.4), squeeze=False, layout="constrained"
        )
        for pane, name in zip(panes[0], names, strict=True):
            cells = table[table["dataset"] == name].sort_values("missing_percent").reset_index(drop=True)
            for place, cell in cells.iterrows():
                runs = rows[(rows["dataset"] == name) & (rows["missing_percent"] == cell["missing_percent"])]
                means = runs.groupby("seed")["acc"].mean()
                others = means.drop(AUTHORS[name]).to_numpy()
                aside = np.linspace(-0.16, 0.16, len(others)) if len(others) > 1 else np.zeros(len(others))
                label = place == 0
                pane.plot(place + aside, others, "o", color="0.6", markersize=4, label="other seeds" if label else None)
                own = means[AUTHORS[name]]
                pane.plot(place, own, "D", color="#0072b2", markersize=7, label="authors' seed" if label else None)
                pane.plot(
                    [place - 0.3, place + 0.3], [cell["published"]] * 2, color="#d55e00",
                    label="published mean" if label else None,
                )  # fmt: skip
            pane.set_xticks(range(len(cells)), [f"{rate:g} %" for rate in cells["missing_percent"]])
            pane.set(title=name, xlim=(-0.6, len(cells) - 0.4), xlabel="share of incomplete samples")
            pane.spines[["top", "right"]].set_visible(False)
        panes[0][0].set_ylabel("ACC, mean over masks 1 to 5")
        handles, labels = panes[0][0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        figure.savefig(path.with_suffix(".png"), dpi=150)
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        plt.close(figure)


def main() -> None:
    """Run the seeds that are asked for, then print and draw what is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*", choices=[*AUTHORS, []], metavar="DATASET")
    parser.add_argument("--missing", type=float, nargs="+", default=[30.0], metavar="PERCENT")
    parser.add_argument("--others", type=int, default=OTHERS, help="how many other seeds")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--epochs", type=int, help="for a trial: as many epochs in each phase")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "seeds.jsonl")
    parser.add_argument("--show", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    settings = {} if arguments.epochs is None else dict.fromkeys(("pretrain_epochs", "epochs"), arguments.epochs)
    for missing in () if arguments.show else arguments.missing:
        for name in arguments.datasets:
            run(name, missing, arguments.others, arguments.out, arguments.device, settings)
    rows = stored(arguments.out)
    if rows.empty:
        msg = f"seeds.py: {arguments.out} has no rows; name a data set to run."
        raise SystemExit(msg)
    print(summary(rows).round(4).to_string(index=False))
    if arguments.show:
        draw(rows, arguments.out)


if __name__ == "__main__":
    main()
