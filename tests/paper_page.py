"""Reading docs/paper.md and the stored rows that it tells of."""

import csv
import math
import re
from functools import cache
from pathlib import Path

from acova.bench import Store, paper_spec
from acova.bench.cells import Results

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text()
DATA = ["handwritten", "scene15", "cub", "fashion", "noisymnist"]
PUBLISHED = ["BSV", "Concat", "DCP", "CPSPAN", "DSIMVC", "DVIMC", "MVP", "PMIMC", "ACOVA"]
RATES = [10.0, 30.0, 50.0, 70.0]


def section(heading):
    """Return the text under a heading, up to the next one of any level."""
    return re.split(rf"\n##+ {re.escape(heading)}\n", PAGE)[1].split("\n## ")[0].split("\n### ")[0]


def tables(heading):
    """Return the tables under a heading: of each, the cells of its rows by the first one."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", section(heading), flags=re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        found.append({head[0]: head[1:]} | {cells[0].strip("`"): cells[1:] for cells in rows})
    return found


@cache
def stored(name):
    spec = paper_spec(name)
    store = Store(ROOT / "results" / f"{name}.jsonl")
    store.borrow(fit.key for fit in spec.fits())
    return Results.of(spec, store)


def accuracies(name):
    """Return the cells of a benchmark that have all their runs, by data set, method and rate."""
    cells = stored(name).cells
    cells = cells[(cells["metric"] == "acc") & (cells["runs"] == paper_spec(name).runs)]
    return cells.set_index(["dataset", "method", "missing_percent"])


def rows_of(path):
    return list(csv.DictReader(path.read_text().splitlines()))


def short(value):
    return f"{value:.3f}".removeprefix("0")


def as_written(cells, data, method):
    rows = [cells.loc[(data, method, rate)] for rate in RATES]
    return [f"{short(row['mean'])} ± {short(row['std'])} ({short(row['published_mean'])})" for row in rows]


def spread(values):
    mean = sum(values) / len(values)
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
