"""Methods compared over cells: average ranks, Friedman and Nemenyi, Wilcoxon (Demšar, JMLR 2006)."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

_LEVEL = 0.05


@dataclass(frozen=True)
class Comparison:
    """Methods over the cells that all of them have.

    Attributes
    ----------
    ranks : Series
        Average rank of each method, best first; ties share their ranks.
    n_cells : int
    friedman : float
        p of the hypothesis that all methods rank alike; NaN for fewer than three methods or two cells.
    critical_difference : float
        Average ranks that differ by less are no different at the 5 % level (Nemenyi).
    wilcoxon : DataFrame
        One method, the name of the index, against each other: ``difference`` (median, that method minus the other),
        ``p`` (two-sided signed-rank test) and ``p_holm`` (corrected for their number).
    left_out : list of str
        Methods that have too few cells.
    """

    ranks: pd.Series
    n_cells: int
    friedman: float
    critical_difference: float
    wilcoxon: pd.DataFrame
    left_out: list[str]


def compare(means: pd.DataFrame, *, higher_is_better: bool = True, against: str = "") -> Comparison | None:
    """Compare methods by their means, cells in rows and methods in columns; None if fewer than two can be compared.

    The cells that all have count. Methods that lack some are left out where that leaves more results to compare: of the
    sets of cells that one method has, or two have in common, the one that gives the largest table.

    The method `against` is tested against each other one. The best is, by default and where `against` is left out.
    """
    has = {name: frozenset(means.index[means[name].notna()]) for name in means.columns}
    common = dict.fromkeys(one & other for one in has.values() for other in has.values())
    tables = [means.loc[means.index.isin(cells), [name for name in has if has[name] >= cells]] for cells in common]
    table = max((one for one in tables if one.shape[1] > 1), key=lambda one: one.size, default=pd.DataFrame())
    if table.empty:
        return None
    ranks = table.rank(axis=1, ascending=not higher_is_better).mean().sort_values(kind="stable")
    return Comparison(
        ranks=ranks,
        n_cells=len(table),
        friedman=_friedman(table),
        critical_difference=nemenyi(table.shape[1], len(table)),
        wilcoxon=_against(table, against if against in table else str(ranks.index[0])),
        left_out=[str(name) for name in means.columns if name not in table],
    )


def interval(values: pd.Series, level: float = _LEVEL) -> tuple[float, float]:
    """Return the mean and the half width of its confidence interval (Student's t); NaN for fewer than two values."""
    from scipy.stats import t

    count = len(values)
    half = t.ppf(1 - level / 2, count - 1) * values.sem() if count > 1 else np.nan
    return float(values.mean()) if count else np.nan, float(half)


def nemenyi(n_methods: int, n_cells: int, level: float = _LEVEL) -> float:
    """Return the critical difference of average ranks: q sqrt(k(k+1)/(6N)), q of the studentised range over √2."""
    from scipy.stats import studentized_range

    quantile = studentized_range.ppf(1 - level, n_methods, np.inf) / np.sqrt(2)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6 * n_cells)))


def holm(p: np.ndarray) -> np.ndarray:
    """Correct p values for their number: sorted, times how many are left, never falling."""
    order = np.argsort(p)
    scaled = p[order] * np.arange(len(p), 0, -1)
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected


def _friedman(table: pd.DataFrame) -> float:
    from scipy.stats import friedmanchisquare

    if table.shape[1] < 3 or len(table) < 2:
        return float("nan")
    with np.errstate(invalid="ignore", divide="ignore"):
        return float(friedmanchisquare(*(table[name] for name in table)).pvalue)


def _against(table: pd.DataFrame, one: str) -> pd.DataFrame:
    from scipy.stats import wilcoxon

    others = [name for name in table if name != one]
    differences = {name: (table[one] - table[name]).to_numpy() for name in others}
    p = [wilcoxon(change).pvalue if np.any(change) else 1.0 for change in differences.values()]
    content = {"difference": [float(np.median(change)) for change in differences.values()], "p": p}
    return pd.DataFrame({**content, "p_holm": holm(np.array(p, dtype=float))}, index=pd.Index(others, name=one))
