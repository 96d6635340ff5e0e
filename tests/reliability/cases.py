"""What a case is, and data and calls that cases share.

A case is a name, a call that gets an empty folder, and what is expected: words of the error (a regular expression), or
a function that says whether the result is right.
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import typer

from acova import data
from acova.base import AcovaError
from acova.estimators import make_method
from conftest import SMALL


class RefusedWords(Exception):
    """The parser's refusal of a command line, with the text that users see."""


REFUSALS = (AcovaError, RefusedWords)
"""What a refused call may raise."""

ROWS = 40
_RNG = np.random.default_rng(0)
_GROUP = np.arange(ROWS) % 3
LEFT = 5.0 * np.eye(3)[_GROUP] @ _RNG.normal(size=(3, 4)) + 0.1 * _RNG.normal(size=(ROWS, 4))
RIGHT = 5.0 * np.eye(3)[_GROUP] @ _RNG.normal(size=(3, 6)) + 0.1 * _RNG.normal(size=(ROWS, 6))
GOOD = {"left": LEFT, "right": RIGHT}
NAMES = [f"s{n}" for n in range(ROWS)]


@dataclass(frozen=True)
class Case:
    """An input and what is to come of it."""

    name: str
    call: Callable[[Path], Any]
    expects: str | Callable[[Any], bool]


def judge(case: Case, folder: Path) -> str:
    """Return "right" or "refused", or what is wrong with the answer to a case."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            found = case.call(folder)
        except REFUSALS as error:
            expected = isinstance(case.expects, str) and re.search(case.expects, str(error))
            return "refused" if expected else f"{type(error).__name__}: {error}"
        except Exception as error:
            return f"raised {type(error).__name__}, which is not the library's: {error}"
        if isinstance(case.expects, str):
            return f"was not refused; the error should say {case.expects!r}"
        if not case.expects(found):
            return "gave a wrong result"
    foreign = [w for w in seen if not re.match(r"acova|sklearn.exceptions\.Convergence", _full_name(w.category))]
    return f"warned: {foreign[0].message}" if foreign else "right"


def _full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__name__}"


def frames() -> dict[str, pd.DataFrame]:
    """Return the good data as frames with named samples and columns."""
    return {name: pd.DataFrame(array, NAMES).add_prefix("f") for name, array in GOOD.items()}


def quick(name: str = "ACOVA", **settings: Any) -> Any:
    """Return an estimator that trains in a moment."""
    keywords = make_method(name).get_settings()
    short = {key: value for key, value in (SMALL | {"hidden": (8,)}).items() if key in keywords}
    if "consensus" not in keywords:  # restarts of k-means
        short.pop("n_init", None)
    short |= {key: 1 for key in keywords if key.endswith("epochs") or key == "iterations"}
    return make_method(name, **{"n_clusters": 3, **short, **settings})


def changed(place: tuple[int, int], value: float) -> dict[str, np.ndarray]:
    """Return the good data with one cell changed."""
    left = LEFT.copy()
    left[place] = value
    return {**GOOD, "left": left}


def views(X: Any, **keywords: Any) -> data.Views:
    """Return views of X."""
    return data.Views.of(X, **keywords)


def same_as_good(found: data.Views) -> bool:
    """Tell whether views hold the good data."""
    return all(np.allclose(array, good) for array, good in zip(found.arrays, GOOD.values(), strict=True))


def command(*words: object) -> None:
    """Run a command line in this process and let its errors through."""
    from acova.cli import app

    try:
        app([str(word) for word in words], standalone_mode=False, prog_name="acova")
    except typer.BadParameter.__mro__[1] as error:  # the class of all errors of usage
        raise RefusedWords(error.format_message()) from error


def folder_of_tables(folder: Path, **tables: str) -> Path:
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def csv_text(prefix: str = "s", rows: int = 12, seed: int = 0) -> str:
    cells = np.random.default_rng(seed).normal(size=(rows, 2)) + 4 * (np.arange(rows) % 2)[:, None]
    return "id,a,b\n" + "".join(f"{prefix}{n},{x:.4f},{y:.4f}\n" for n, (x, y) in enumerate(cells))


def saved(folder: Path, name: str = "KNNImpute") -> Path:
    quick(name).fit(GOOD).save(folder / "run")
    return folder / "run"


def two_tables(folder: Path) -> Path:
    return folder_of_tables(folder, first=csv_text(seed=1), second=csv_text(seed=2))
