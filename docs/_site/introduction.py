"""Draw the bar figure of the paper's introduction from stored rows: ``python docs/_site/introduction.py``.

It needs the rows of ``acova paper table2`` in ``results/``, and prints the paired differences beside the figure.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt

from acova.bench import Store, paper_spec
from acova.bench.cells import Results
from acova.bench.statistics import interval

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / "docs" / "images" / "introduction.svg"
DATA, RATES = "scene15", (30, 70)
METHODS = {"without correlation": "R = I", "learned R": "learned R"}
COLOURS = ("#d55e00", "#0072b2")


def stored() -> Results:
    """Return the stored rows of Table 2, with R = I as the reference of differences."""
    spec = replace(paper_spec("table2"), reference="without correlation")
    store = Store(ROOT / "results" / "table2.jsonl")
    store.borrow(fit.key for fit in spec.fits())
    return Results.of(spec, store)


def difference(results: Results, data: str, rate: float) -> tuple[float, float]:
    """Return how far learned R is above R = I, in points of ACC, with the half width of its 95 % interval."""
    mean, half = interval(100 * results.differences("acc", data, float(rate), "learned R"))
    return mean, half


def accuracies(results: Results, method: str, rate: float) -> list[float]:
    """Return the ACC of every run in per cent."""
    runs = range(results.spec.runs)
    return [100 * results.rows[DATA, float(rate), method, run]["acc"] for run in runs]


def published(results: Results, method: str, rate: float) -> tuple[float, float]:
    """Return the published mean and deviation in per cent."""
    cells = results.cells.set_index(["dataset", "missing_percent", "method", "metric"])
    found = cells.loc[(DATA, float(rate), method, "acc")]
    return 100 * found["published_mean"], 100 * found["published_std"]


def drawn(results: Results) -> Any:
    """Return the figure: published bars, and ours with one dot per run."""
    figure, panes = plt.subplots(1, 2, figsize=(7.2, 3.0), sharey=True, layout="constrained")
    for pane, title in zip(panes, ("published", "ours: mask seed = training seed = run"), strict=True):
        for place, rate in enumerate(RATES):
            for side, (method, colour) in enumerate(zip(METHODS, COLOURS, strict=True)):
                x = place + 0.36 * (side - 0.5)
                runs = [] if title == "published" else accuracies(results, method, rate)
                mean = sum(runs) / len(runs) if runs else published(results, method, rate)[0]
                label = METHODS[method] if place == 0 else None
                pane.bar(x, mean, 0.32, color=colour, alpha=0.55, edgecolor=colour, label=label)
                pane.plot([x] * len(runs), runs, "o", color=colour, markersize=3.5)
                pane.annotate(f"{mean:.1f}", (x, 1), ha="center", va="bottom", fontsize=8)
        pane.set_title(title, fontsize=9)
        pane.set(xticks=range(len(RATES)), xlabel="share of incomplete samples", ylim=(0, 62))
        pane.set_xticklabels([f"{rate} %" for rate in RATES])
        pane.spines[["top", "right"]].set_visible(False)
    panes[0].set_ylabel("ACC on scene15 in %")
    panes[0].legend(frameon=False, fontsize=8, ncols=2, loc="upper left")
    return figure


def main() -> None:
    """Write the figure and print the differences."""
    results = stored()
    with mpl.rc_context({"svg.hashsalt": "acova"}):
        drawn(results).savefig(TARGET, metadata={"Date": None})
    for data in ("handwritten", "scene15"):
        for rate in (10, 30, 50, 70):
            mean, half = difference(results, data, rate)
            print(f"{data:12s} {rate} %  learned R minus R = I: {mean:+.1f} ± {half:.1f} points of ACC")


if __name__ == "__main__":
    main()
