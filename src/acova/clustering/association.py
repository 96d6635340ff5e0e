"""How strongly clusters go with something else: effect sizes without bias, and p-values, exact or by permutation."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import random_table, rankdata

from acova.clustering.exact import exact_p_value

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]
_BLOCK_CELLS = 2**20
"""Cells of permuted tables that are held at once."""


@dataclass(frozen=True)
class Association:
    """An effect size from 0 to 1, about 0 where there is none, and the share of permutations with as large a statistic.

    Attributes
    ----------
    effect, p_value : float
        NaN where a group, or the other variable, takes only one value.
    n_samples : int
    """

    effect: float
    p_value: float
    n_samples: int


def of_counts(table: Counts, rng: np.random.Generator, n_permutations: int) -> Association:
    """Return the association of two groupings, from how many samples are in each pair of groups (R, C).

    The effect is Cramér's V with Bergsma's (2013) correction of its bias. Permuting the samples gives tables with the
    same margins; they are drawn directly, so the time does not grow with the number of samples. Of small tables all are
    counted instead, so the p-value is exact.
    """
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    total = int(table.sum())
    if min(table.shape) < 2:
        return Association(np.nan, np.nan, total)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    expected = np.outer(rows, columns) / total
    statistic = _chi_square(table[None], expected)[0]
    effect, exact = _cramers_v(statistic, table.shape, total), exact_p_value(table)
    if exact is not None:
        return Association(effect, exact, total)
    as_large, at_once = 0, max(_BLOCK_CELLS // table.size, 1)
    for start in range(0, n_permutations, at_once):
        count = min(at_once, n_permutations - start)
        drawn = random_table(rows, columns).rvs(count, method="patefield", random_state=rng)
        as_large += int((_chi_square(drawn, expected) >= statistic * (1 - 1e-9)).sum())  # equal tables are rounded
    return Association(effect, (1 + as_large) / (1 + n_permutations), total)


def _chi_square(tables: NDArray[np.floating | np.integer], expected: Floats) -> Floats:
    return np.asarray((np.square(tables - expected) / expected).sum(axis=(1, 2)))


def _cramers_v(statistic: float, shape: tuple[int, ...], total: int) -> float:
    n_rows, n_columns = shape
    phi = max(statistic / total - (n_rows - 1) * (n_columns - 1) / (total - 1), 0.0)
    sides = [side - (side - 1) ** 2 / (total - 1) for side in (n_rows, n_columns)]
    least = min(sides) - 1
    return float(np.sqrt(min(phi / least, 1.0))) if least > 0 else np.nan


def of_numbers(values: Floats, labels: NDArray[np.int64], rng: np.random.Generator, n_permutations: int) -> Association:
    """Return the association of numbers (n,) with clusters (n,), by their ranks.

    The statistic is that of Kruskal and Wallis; the effect is epsilon squared, the share of the ranks' variance that
    lies between clusters, corrected for chance (Kelley, 1935).
    """
    clusters, labels = np.unique(labels, return_inverse=True)
    total, count = len(values), len(clusters)
    ranks = rankdata(values)
    ranks -= ranks.mean()
    spread = float(np.square(ranks).sum())
    if count < 2 or total <= count or spread == 0:
        return Association(np.nan, np.nan, total)
    sizes = np.bincount(labels)

    def between(rows: Floats) -> float:
        return float((np.square(np.bincount(labels, rows)) / sizes).sum() / spread)

    share = between(ranks)
    as_large = sum(between(rng.permutation(ranks)) >= share * (1 - 1e-9) for _ in range(n_permutations))
    effect = max(1 - (1 - share) * (total - 1) / (total - count), 0.0)
    return Association(effect, (1 + as_large) / (1 + n_permutations), total)
