"""From rows to cells: mean and deviation over runs, what was published, and why a cell is empty."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from acova.base import FileError
from acova.base.files import file_errors, write_whole
from acova.bench.checks import check_regular_file, one_line
from acova.bench.entries import MethodSpec
from acova.bench.runner import problems as find_problems
from acova.bench.spec import CALIBRATION, RESULT, BenchSpec
from acova.bench.store import Store
from acova.console import csv_safe

COLUMNS = ["dataset", "missing_percent", "method", "metric", "mean", "std", "runs", "published_mean"]
Place = tuple[str, float, str, int]
"""Data set, rate, method, run."""


@dataclass(frozen=True)
class Results:
    """What a store has of a benchmark.

    Attributes
    ----------
    spec : BenchSpec
    rows : dict
        Place → the row of the store, of fits that succeeded.
    cells : DataFrame
        One row per data set, rate, method and metric: `COLUMNS`, ``published_std`` and ``reason``, which says why
        a cell is empty or short of runs.
    """

    spec: BenchSpec
    rows: Mapping[Place, Mapping[str, Any]]
    cells: pd.DataFrame

    @classmethod
    def of(cls, spec: BenchSpec, store: Store, problems: Mapping[str, str] | None = None) -> "Results":
        """Look up every fit of a benchmark; no module of the spec is imported.

        Parameters
        ----------
        spec : BenchSpec
        store : Store
        problems : dict, optional
            Methods and data that could not take part → why, as `run_bench` found (`Outcome.problems`).
        """
        absent = {**find_problems(spec, imports=False), **(problems or {})}
        rows: dict[Place, Mapping[str, Any]] = {}
        failed: dict[tuple[str, float, str], str] = {}
        for fit in spec.fits():
            row = store.rows.get(fit.key)
            place = (fit.data.name, float(fit.missing), fit.method.name, fit.run)
            if row is not None and "failed" in row:
                failed[place[:3]] = row["failed"]
            elif row is not None:
                rows[place] = row
        return cls(spec, rows, _cells(spec, rows, failed, absent))

    def means(self, metric: str) -> pd.DataFrame:
        """Return the means of a metric: one row per data set and rate, one column per method."""
        cells = self.cells[self.cells["metric"] == metric]
        table = cells.set_index(["dataset", "missing_percent", "method"])["mean"].unstack("method")
        return table.reindex(columns=[method.name for method in self.spec.methods])

    def differences(self, metric: str, data: str, missing: float, method: str) -> pd.Series:
        """Return a method's scores minus the reference's, by run, of the runs that both have."""
        reference = self.spec.reference
        pairs = {
            run: value_of(self.rows[data, missing, method, run], metric)
            - value_of(self.rows[data, missing, reference, run], metric)
            for run in range(self.spec.runs)
            if (data, missing, method, run) in self.rows and (data, missing, reference, run) in self.rows
        }
        return pd.Series(pairs, dtype=float)

    def to_csv(self, path: Path) -> None:
        """Write the cells that have runs or a published value."""
        cells = self.cells[(self.cells["runs"] > 0) | self.cells["published_mean"].notna()]
        table = cells[COLUMNS].rename(columns={"method": csv_safe(self.spec.kind)}).round(4)
        write_whole(path, table.map(csv_safe).to_csv(index=False, lineterminator="\n").encode())


def value_of(row: Mapping[str, Any], metric: str) -> float:
    """Return a score, a time or a measure of calibration of a row; times per epoch are those of the whole fit."""
    if metric == "seconds_per_epoch":
        return float(row["seconds"]) / max(int(row.get("epochs", 1)), 1)
    if metric in CALIBRATION + RESULT:
        record = "calibration" if metric in CALIBRATION else "result"
        found = (row.get("records", {}).get(record) or {}).get(metric)
        return float("nan") if found is None else float(found)
    return float(row[metric])


def _cells(
    spec: BenchSpec,
    rows: Mapping[Place, Mapping[str, Any]],
    failed: Mapping[tuple[str, float, str], str],
    absent: Mapping[str, str],
) -> pd.DataFrame:
    published = published_values(spec)
    cells = []
    for data in spec.data:
        for method in spec.methods:
            for missing in spec.rates(data):
                place = (data.name, float(missing), method.name)
                of_place = [rows[*place, run] for run in range(spec.runs) if (*place, run) in rows]
                why = absent.get(method.name) or absent.get(data.name) or failed.get(place) or "not run yet"
                for metric in spec.metrics:
                    known = _known(published, data.name, method, missing, metric)
                    values = pd.Series([value_of(row, metric) for row in of_place], dtype=float)
                    cells.append(
                        {
                            **dict(zip(COLUMNS, (*place, metric), strict=False)),
                            "mean": values.mean(),
                            "std": values.std(),
                            "runs": len(values),
                            "published_mean": known[0],
                            "published_std": known[1],
                            "reason": "" if len(values) == spec.runs else _short(one_line(why), len(values), spec.runs),
                        }
                    )
    return pd.DataFrame(cells)


def _short(why: str, count: int, runs: int) -> str:
    return f"{count} of {runs} runs; {why}" if count else why


def published_values(spec: BenchSpec) -> dict[tuple[str, str, str, str], tuple[float, float]]:
    """Return (data set, method, rate, metric) → mean and deviation; a rate that is not given is an empty text."""
    if not spec.published:
        return {}
    path = Path(spec.folder) / spec.published
    check_regular_file(path, "a table of published values")
    try:
        with file_errors(f"reading the published values in {path}"):
            return _values_of(pd.read_csv(path, dtype={"missing_percent": str}))
    except (ValueError, KeyError) as error:
        columns = "dataset, method, missing_percent, metric, mean, std"
        msg = f"{path} is not a table of published values ({error}); it must be a csv file with the columns {columns}."
        raise FileError(msg) from error


def _values_of(frame: pd.DataFrame) -> dict[tuple[str, str, str, str], tuple[float, float]]:
    rates = [_rate(text) for text in frame["missing_percent"]]
    keys = zip(frame["dataset"], frame["method"], rates, frame["metric"], strict=True)
    return dict(zip(keys, zip(frame["mean"].astype(float), frame["std"].astype(float), strict=True), strict=True))


def _rate(text: Any) -> str:
    return "" if pd.isna(text) else f"{float(text):g}"


def _known(
    published: Mapping[tuple[str, str, str, str], tuple[float, float]],
    data: str,
    method: MethodSpec,
    missing: float,
    metric: str,
) -> tuple[float, float]:
    nothing = (float("nan"), float("nan"))
    for rate in (f"{missing:g}", ""):
        found = published.get((data, method.published, rate, metric))
        if found is not None:
            return found
    return nothing
