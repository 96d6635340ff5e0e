"""What the clusters go with: who lacks which view, and columns that were not clustered."""

from typing import Any

import numpy as np

from acova.console import count
from acova.estimators._checks import WHOLE_PATTERN, missingness_table, missingness_words
from acova.report.result import Result

PERMUTATIONS = 999
_MOST_COLUMNS = 50
_CLEAR = 0.05


def associations(result: Result) -> dict[str, Any] | None:
    """Return how strongly clusters go with missing views and with the covariates given; None where there is neither."""
    missing, columns = _missing(result), _columns(result)
    if missing is None and columns is None:
        return None
    return {"missing": missing, "columns": columns}


def _missing(result: Result) -> dict[str, Any] | None:
    model = result.model
    words = missingness_words(model)
    if words is None:
        return None
    table = missingness_table(model.summary_, model.view_names_, model.view_shift_, model.seed_, PERMUTATIONS)
    views = [
        {"name": str(name), **_row(row), "missing": int(row["n_missing"]), "by_hiding": _caused(row)}
        for name, row in table.drop(WHOLE_PATTERN).iterrows()
        if row["n_missing"] > 0
    ]
    return {"words": words, "whole": _row(table.loc[WHOLE_PATTERN]), "views": views}


def _columns(result: Result) -> dict[str, Any] | None:
    """Return the tests of the covariates that were given; None without any, and for a single cluster."""
    names = [name for name in result.given if name not in (result.time, result.event)]
    if not names or result.model.n_clusters_ < 2:
        return None
    frame = result.frame(names[:_MOST_COLUMNS])
    table = result.model.check_against(frame, n_permutations=PERMUTATIONS)
    rows = [
        {"name": str(name), "kind": row["kind"], **_row(row), "q": _or_none(row["q_value"]), "n": int(row["n_samples"])}
        for name, row in table.iterrows()
    ]
    found = sum(row["q"] is not None and row["q"] <= _CLEAR for row in rows)
    known = [row for row in rows if row["effect"] is not None]
    words = f"{found} of {count(len(rows), 'column')} go with the clusters at a false discovery rate of {_CLEAR:.0%}."
    return {
        "words": words,
        "rows": rows,
        "left_out": len(names) - len(rows),
        "strongest": max(known, key=lambda row: row["effect"], default=None),
    }


def _row(row: Any) -> dict[str, Any]:
    return {"effect": _or_none(row["effect"]), "p": _or_none(row["p_value"])}


def _caused(row: Any) -> float | None:
    """Return what hiding brings about, where there is an association that it can explain."""
    return _or_none(row["by_hiding"]) if row["p_value"] <= _CLEAR else None


def _or_none(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)
