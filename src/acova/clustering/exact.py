"""The exact p-value of a small table of counts: over all tables with its margins, by their probability."""

from collections import defaultdict
from collections.abc import Iterator
from math import comb

import numpy as np
from numpy.typing import NDArray

MOST_SAMPLES = 200
_MOST_STEPS = 5_000
"""Columns that are tried at most, some hundredths of a second; larger tables are left to permutations."""
_DIGITS = 9


def exact_p_value(table: NDArray[np.int64]) -> float | None:
    """Return the probability of a chi-square as large as that of a table (R, C), given its margins; None if too large.

    It is what the share of permutations with as large a statistic tends to. Tables are built column by column; what has
    the same rows left and the same statistic so far is counted once.
    """
    if table.sum() > MOST_SAMPLES:
        return None
    if table.shape[0] > table.shape[1]:
        table = table.T
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    shares = 1 / rows
    observed = float((np.square(table) * shares[:, None] / columns).sum())
    states, steps = {(tuple(rows.tolist()), 0.0): 1.0}, 0
    for size in columns.tolist():
        found: dict[tuple[tuple[int, ...], float], float] = defaultdict(float)
        for (left, statistic), probability in states.items():
            every = comb(sum(left), size)
            for part, ways in _parts(left, size):
                steps += 1
                if steps > _MOST_STEPS:
                    return None
                more = sum(n * n * share for n, share in zip(part, shares.tolist(), strict=True)) / size
                rest = tuple(a - b for a, b in zip(left, part, strict=True))
                found[rest, round(statistic + more, _DIGITS)] += probability * ways / every
        states = found
    total = sum(probability for (_, statistic), probability in states.items() if statistic >= observed * (1 - 1e-7))
    return float(min(total, 1.0))


def _parts(left: tuple[int, ...], size: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yield every way to take so many samples from the rows, and by how many choices of samples it comes about."""
    first, others = left[0], left[1:]
    if not others:
        yield (size,), comb(first, size)
        return
    for count in range(max(size - sum(others), 0), min(first, size) + 1):
        for rest, ways in _parts(others, size - count):
            yield (count, *rest), comb(first, count) * ways
