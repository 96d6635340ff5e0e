"""One table in four languages: the terminal's, Markdown, LaTeX and CSV."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from acova.base.files import file_errors, write_whole
from acova.bench.cells import Results
from acova.bench.spec import CALIBRATION, LOSSES, TIMES
from acova.bench.statistics import Comparison, compare, interval
from acova.console import count, plain, terminal

if TYPE_CHECKING:
    from rich.table import Table

NAMES = {
    "acc": "ACC",
    "nmi": "NMI",
    "ari": "ARI",
    "purity": "purity",
    "seconds": "seconds",
    "seconds_per_epoch": "seconds per epoch",
    "brier": "Brier score",
    "ece": "calibration error",
    "auroc": "AUROC of the confidence",
    "brier_drawn": "Brier score over draws",
    "ece_drawn": "calibration error over draws",
    "auroc_drawn": "AUROC of the confidence over draws",
    "auroc_latent": "AUROC of the latent variance",
    "coverage": "coverage of the latent 90 % interval",
    "surer": "share surer with fewer views",
    "confidence": "mean confidence",
    "overconfidence": "mean confidence minus ACC",
    "auroc_confidence": "AUROC of the confidence given",
    "auroc_agreement": "AUROC of the agreement of the runs",
    "warned": "warnings",
}
_LESS_IS_BETTER = (*TIMES, *LOSSES)
_UNORDERED = ("coverage", "surer", "confidence", "overconfidence", "warned")
"""What should be near a value, so that neither the largest nor the least is best."""
EMPTY = "–"
_TEX_SIGNS = {
    **{sign: f"\\{sign}" for sign in "%_&{}#$"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"±": r"$\pm$", "–": "--", "ρ": r"$\rho$", "−": "$-$", "α": r"$\alpha$"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "[": "{[}", "]": "{]}"},
}
PAIRED = "Differences are paired by mask and seed: mean ± half of the 95 % confidence interval over the runs.\n"


@dataclass(frozen=True)
class Cell:
    """A text, and whether it is the best (1) or second best (2) of its column."""

    text: str
    place: int = 0
    note: int = 0
    """Number of the note that says why the cell is empty or short."""


@dataclass(frozen=True)
class ScoreTable:
    """Methods in rows, rates in columns."""

    title: str
    columns: list[str]
    rows: list[tuple[str, list[Cell]]]
    notes: list[str]

    # --- languages ------------------------------------------------------------------------------

    def markdown(self) -> str:
        """Return the table in Markdown: best in bold, second best underlined."""
        marks = {0: "{}", 1: "**{}**", 2: "<u>{}</u>"}
        lines = [
            f"### {_md(self.title)}",
            "",
            "| | " + " | ".join(self.columns) + " |",
            "|---" * (len(self.columns) + 1) + "|",
        ]
        lines += [
            f"| {_md(name)} | "
            + " | ".join(marks[c.place].format(c.text) + _noted(c, "<sup>{}</sup>") for c in cells)
            + " |"
            for name, cells in self.rows
        ]
        return "\n".join([*lines, *self._notes("", "<sup>{}</sup> ", _md)]) + "\n"

    def latex(self) -> str:
        """Return the table in LaTeX, for the package booktabs."""
        marks = {0: "{}", 1: r"\textbf{{{}}}", 2: r"\underline{{{}}}"}
        lines = [rf"\begin{{tabular}}{{l{'c' * len(self.columns)}}}", r"\toprule"]
        lines.append(" & ".join([_tex(self.title), *map(_tex, self.columns)]) + r" \\")
        lines.append(r"\midrule")
        for name, cells in self.rows:
            shown = [marks[c.place].format(_tex(c.text)) + _noted(c, r"\textsuperscript{{{}}}") for c in cells]
            lines.append(" & ".join([_tex(name), *shown]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += self._notes("% ", "({}) ", _tex)
        return "\n".join(lines) + "\n"

    def rich(self) -> "Table":
        """Return the table for a terminal."""
        from rich.table import Table
        from rich.text import Text

        notes = "\n".join(self._notes("", "{}: "))
        title, caption = Text(self.title, style="table.title"), Text(notes, style="table.caption") if notes else None
        table = Table("", *self.columns, title=title, caption=caption)
        styles = {0: "", 1: "bold green", 2: "underline"}
        for name, cells in self.rows:
            table.add_row(Text(name), *(Text(c.text + _noted(c, "({})"), style=styles[c.place]) for c in cells))
        return table

    def _notes(self, start: str, mark: str, escape: Callable[[str], str] = str) -> list[str]:
        lines = [f"{start}{mark.format(number)}{escape(note)}" for number, note in enumerate(self.notes, 1)]
        return ["", *_apart(lines)] if lines and not start else lines


def _apart(lines: list[str]) -> list[str]:
    return [line + "  " for line in lines[:-1]] + lines[-1:]


def _noted(cell: Cell, mark: str) -> str:
    return mark.format(cell.note) if cell.note else ""


def _md(text: str) -> str:
    """Return a name as Markdown shows it."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*\[\]|$~]|\b_|_\b)", r"\\\1", text)


def _tex(text: str) -> str:
    """Return a name as LaTeX shows it."""
    return "".join(_TEX_SIGNS.get(sign, sign) for sign in text)


# --- from results to tables ---------------------------------------------------------------------


def score_tables(results: Results, metric: str, *, published_alone: bool = True) -> list[ScoreTable]:
    """Return a table per data set: mean ± deviation, then published mean and the difference in points.

    Data sets without a result are left out, or shown with what was published.
    """
    made = []
    cells = results.cells[results.cells["metric"] == metric]
    for data in results.spec.data:
        of_data = cells[cells["dataset"] == data.name]
        if (of_data["runs"] > 0).any() or (published_alone and of_data["published_mean"].notna().any()):
            rates = list(map(float, results.spec.rates(data)))
            made.append(_score_table(results, of_data, f"{data.name}, {NAMES[metric]}", metric, rates))
    return made


def _score_table(results: Results, cells: pd.DataFrame, title: str, metric: str, rates: Sequence[float]) -> ScoreTable:
    better, timed = metric not in _LESS_IS_BETTER, metric in TIMES
    notes: list[str] = []
    ranks = {rate: cells[cells["missing_percent"] == rate].set_index("method")["mean"] for rate in rates}
    places = {rate: means.rank(ascending=not better, method="min") for rate, means in ranks.items()}
    complete = pd.DataFrame(ranks).dropna(how="all")
    if metric in _UNORDERED:
        places, complete = {rate: pd.Series(dtype=float) for rate in ranks}, complete.iloc[:0]
    average = complete.rank(ascending=not better).mean(axis=1)
    rows = []
    for method in results.spec.methods:
        of_method = cells[cells["method"] == method.name].set_index("missing_percent")
        shown = [_cell(of_method.loc[rate], places[rate].get(method.name), notes, timed=timed) for rate in rates]
        rank = average.get(method.name)
        rows.append((method.name, [*shown, Cell(EMPTY if rank is None or pd.isna(rank) else f"{rank:.1f}")]))
    return ScoreTable(title, [*(f"{rate:g} %" for rate in rates), "average rank"], rows, notes)


def difference_tables(results: Results) -> list[ScoreTable]:
    """Return a table per data set: what each method is above or below the reference, in points, with its interval."""
    spec = results.spec
    others = [method.name for method in spec.methods if method.name != spec.reference]
    made = []
    shown = [metric for metric in spec.metrics if metric in CALIBRATION or metric == spec.metrics[0]]
    wanted = [metric for metric in shown if metric not in TIMES] if spec.reference else []
    for metric, data in product(wanted, spec.data):
        rates = list(map(float, spec.rates(data)))
        rows = [
            (name, [_difference(results.differences(metric, data.name, r, name)) for r in rates]) for name in others
        ]
        rows = [(name, cells) for name, cells in rows if any(cell.text != EMPTY for cell in cells)]
        if rows:
            title = f"{data.name}, {NAMES[metric]} minus that of {spec.reference}, in points"
            made.append(ScoreTable(title, [f"{rate:g} %" for rate in rates], rows, []))
    return made


def _difference(changes: pd.Series) -> Cell:
    mean, half = interval(100 * changes)
    if pd.isna(mean):
        return Cell(EMPTY)
    return Cell(f"{mean:+.1f}" + ("" if pd.isna(half) else f" ± {half:.1f}"))


def _cell(cell: Any, place: float | None, notes: list[str], *, timed: bool) -> Cell:
    number = seconds if timed else score
    note = 0
    if cell["reason"]:
        if cell["reason"] not in notes:
            notes.append(cell["reason"])
        note = notes.index(cell["reason"]) + 1
    known = cell["published_mean"]
    if not cell["runs"]:
        return Cell(EMPTY if pd.isna(known) else f"{EMPTY} ({number(known)})", note=note)
    text = number(cell["mean"]) + (f" ± {number(cell['std'])}" if cell["runs"] > 1 else "")
    if not pd.isna(known):
        change = f", {100 * (cell['mean'] - known):+.1f}" if not timed else ""
        text += f" ({number(known)}{change})"
    first = int(place) if place is not None and not pd.isna(place) and place <= 2 else 0
    return Cell(text, first, note)


def score(value: float) -> str:
    """Return ``.936``."""
    return f"{value:.3f}".replace("0.", ".", 1) if 0 <= value < 1 else f"{value:.3f}"


def seconds(value: float) -> str:
    """Return three digits."""
    return f"{value:.3g}"


def comparison(results: Results) -> Comparison | None:
    """Compare the methods over all cells by the benchmark's first metric, and the reference, or the best, with each."""
    metric = results.spec.metrics[0]
    return compare(
        results.means(metric), higher_is_better=metric not in _LESS_IS_BETTER, against=results.spec.reference
    )


def comparison_markdown(results: Results, found: Comparison) -> str:
    """Return ranks and tests in Markdown."""
    name, one = NAMES[results.spec.metrics[0]], str(found.wilcoxon.index.name)
    lines = [
        f"### Comparison over {count(found.n_cells, 'cell')}, {name}",
        "",
        ("" if pd.isna(found.friedman) else f"Friedman: p = {found.friedman:.2g}. ")
        + f"Average ranks that differ by less than {found.critical_difference:.2f} "
        f"are no different at the 5 % level (Nemenyi). Wilcoxon's signed-rank test of {_md(one)} against "
        "each other method, p corrected by Holm's procedure.",
        "",
        f"| | average rank | {_md(one)} minus it, median | p | p, Holm |",
        "|---|---|---|---|---|",
    ]
    for method, rank in found.ranks.items():
        shown = "| | |"
        if method != one:
            test: Any = found.wilcoxon.loc[str(method)]
            shown = f"{test['difference']:+.3f} | {test['p']:.2g} | {test['p_holm']:.2g} |"
        lines.append(f"| {_md(str(method))} | {rank:.2f} | {shown}")
    if found.left_out:
        lines += ["", f"Left out, having too few cells: {', '.join(map(_md, found.left_out))}."]
    return "\n".join(lines) + "\n"


def write_tables(results: Results, folder: Path) -> list[Path]:
    """Write ``<name>.csv``, ``.md`` and ``.tex``; each appears as a whole. Return their paths."""
    spec = results.spec
    every = [table for metric in spec.metrics for table in score_tables(results, metric)]
    found = comparison(results)
    head = f"# {_md(spec.title or spec.name)}\n\n" + (f"{_md(spec.about.strip())}\n\n" if spec.about else "")
    head += _key(spec.runs)
    paired = difference_tables(results)
    compared = [comparison_markdown(results, found)] if found else []
    compared += [PAIRED, *(table.markdown() for table in paired)] if paired else []
    texts = {
        "md": head + "\n" + "\n".join([*compared, *(table.markdown() for table in every)]),
        "tex": "% needs \\usepackage{booktabs}\n" + "\n".join(table.latex() for table in [*paired, *every]),
    }
    paths = [folder / f"{spec.name}.{suffix}" for suffix in ("csv", *texts)]
    with file_errors(f"making the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    results.to_csv(paths[0])
    for path, text in zip(paths[1:], texts.values(), strict=True):
        write_whole(path, text.encode())
    return paths


def _key(runs: int) -> str:
    return (
        f"Mean ± standard deviation over {runs} runs; in brackets the published mean and the difference to it in "
        "points. Mask seed = training seed = run index, the final model, all runs counted. Best in bold, second best "
        "underlined.\n"
    )


def show_tables(results: Results, metrics: Iterable[str]) -> None:
    """Print the tables to standard output."""
    console = terminal(160)
    for metric in metrics:
        for table in score_tables(results, metric, published_alone=False):
            console.print(table.rich())
    for table in difference_tables(results):
        console.print(table.rich())
    absent = [data.name for data in results.spec.data if not any(place[0] == data.name for place in results.rows)]
    if absent:
        console.print(plain(f"No results yet: {', '.join(absent)}."))
    found = comparison(results)
    if found:
        ranks = ", ".join(f"{name} {rank:.2f}" for name, rank in found.ranks.items())
        text = (
            f"Average ranks over {count(found.n_cells, 'cell')} ({NAMES[results.spec.metrics[0]]}): {ranks}. "
            + ("" if pd.isna(found.friedman) else f"Friedman p = {found.friedman:.2g}; ")
            + f"critical difference {found.critical_difference:.2f}."
        )
        console.print(plain(text))
