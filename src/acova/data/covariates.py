"""What is known of samples besides their views, such as batch, site or age, and how far it explains the views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_integer_dtype, is_numeric_dtype

from acova.base import DataError

Floats = NDArray[np.float64]

_SHOWN = 5
_RANK = 1e-10
"""Smaller eigenvalues, relative to the sum of all before groups are taken off, count as none."""


@dataclass(frozen=True)
class Covariates:
    """How covariates become numbers, learned from the training samples.

    A column of words becomes one column of zeros and ones per level, less their means; a column of numbers becomes its
    z-scores. An empty cell is zero everywhere: the mean of the training samples.

    Attributes
    ----------
    levels : dict of str to tuple of str
        The levels of each column of words.
    moments : dict of str to pair of float
        Mean and standard deviation of each column of numbers.
    shares : dict of str to tuple of float
        How frequent the levels of each column of words are.
    """

    levels: Mapping[str, tuple[str, ...]]
    moments: Mapping[str, tuple[float, float]]
    shares: Mapping[str, tuple[float, ...]]

    @property
    def n_encoded(self) -> int:
        """Number of columns that `encode` returns."""
        return sum(map(len, self.levels.values())) + len(self.moments)

    @classmethod
    def learn(cls, frame: pd.DataFrame) -> "Covariates":
        """Learn levels, means and standard deviations from the covariates of training samples."""
        levels, moments, shares = {}, {}, {}
        for name, values in frame.items():
            column, given = str(name), values.dropna()
            if given.nunique() < 2:
                msg = f"Covariate {column!r} is the same for all samples, so that it explains nothing; leave it out."
                raise DataError(msg)
            if is_number(values):
                numbers = given.to_numpy(dtype=np.float64)
                moments[column] = float(numbers.mean()), float(numbers.std())
                continue
            words = given.astype(str)
            levels[column] = tuple(sorted(set(words)))
            shares[column] = tuple(float((words == level).mean()) for level in levels[column])
        return cls(levels, moments, shares)

    def encode(self, frame: pd.DataFrame) -> NDArray[np.float64]:
        """Return the covariates of samples as numbers, (n_samples, n_encoded)."""
        known = [*self.levels, *self.moments]
        columns = list(map(str, frame.columns))
        if set(columns) != set(known):
            msg = f"Covariates must be those of the fit, {known}; got {columns}."
            raise DataError(msg)
        named = frame.set_axis(columns, axis=1)
        blocks = [self._words(column, named[column]) for column in self.levels]
        blocks += [self._numbers(column, named[column]) for column in self.moments]
        return np.hstack(blocks)

    def _words(self, column: str, values: pd.Series) -> NDArray[np.float64]:
        empty, words = values.isna().to_numpy(), values.astype(str).to_numpy()
        new = sorted(set(words[~empty]) - set(self.levels[column]))
        if new:
            msg = (
                f"Covariate {column!r} holds {', '.join(map(repr, new[:_SHOWN]))}, which no training sample has; it "
                f"knows {', '.join(map(repr, self.levels[column][: 2 * _SHOWN]))}. Leave such a cell empty (it is then "
                "averaged over), or fit again."
            )
            raise DataError(msg)
        ones = words[:, None] == np.array(self.levels[column], dtype=object)
        return np.where(empty[:, None], 0.0, ones - np.array(self.shares[column]))

    def _numbers(self, column: str, values: pd.Series) -> NDArray[np.float64]:
        if not is_number(values):
            msg = f"Covariate {column!r} was numbers in the fit; got {values.dropna().iloc[0]!r}."
            raise DataError(msg)
        mean, std = self.moments[column]
        cells = values.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
        return np.where(np.isnan(cells), 0.0, (cells - mean) / std)


def along_index(covariates: Any, index: pd.Index) -> pd.DataFrame:
    """Return covariates with one row per sample, in the order of an index, or raise `DataError`."""
    frame = covariates.to_frame() if isinstance(covariates, pd.Series) else covariates
    if not isinstance(frame, pd.DataFrame) or not frame.shape[1]:
        msg = f"covariates must be a DataFrame with a column for each of them; got {type(covariates).__name__}."
        raise DataError(msg)
    if frame.columns.astype(str).duplicated().any() or frame.index.duplicated().any():
        msg = "covariates must name every column and every sample once; drop what is there twice."
        raise DataError(msg)
    if is_integer_dtype(index) and all(isinstance(name, str) and name.isdecimal() for name in frame.index):
        frame = frame.set_axis(frame.index.astype(np.int64), axis=0)  # numbers of samples, as text files have them
    absent = index.difference(frame.index)
    if len(absent):
        msg = (
            f"covariates have no row for {len(absent)} of {len(index)} samples, first: "
            f"{', '.join(map(str, absent[:_SHOWN].tolist()))}. Give them a row; its cells may be empty."
        )
        raise DataError(msg)
    return frame.reindex(index)


def description(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one row per covariate: ``kind`` ("words" or "numbers"), number of ``values``, and of ``empty`` cells."""
    return pd.DataFrame(
        {
            "kind": ["numbers" if is_number(values) else "words" for _, values in frame.items()],
            "values": [values.nunique() for _, values in frame.items()],
            "empty": [int(values.isna().sum()) for _, values in frame.items()],
        },
        index=list(map(str, frame.columns)),
    )


def linear_effects(
    tables: Sequence[NDArray[np.floating[Any]]],
    observed: NDArray[np.bool_],
    encoded: NDArray[np.float64],
    groups: NDArray[np.intp] | None = None,
) -> tuple[NDArray[np.float64], ...]:
    """Return how every feature changes with the encoded covariates, (C, P_v) per view, by least squares.

    What groups and covariates explain alike, such as a batch that is a group of its own, is left to the groups.

    Parameters
    ----------
    tables : sequence of V arrays of shape (n_v, P_v)
        The rows of the samples that have each view, with NaN in empty cells.
    observed : array of bool, shape (N, V)
        Which samples these are.
    encoded : array of shape (N, C)
    groups : array of int, shape (N,), optional
        Groups of samples, each of which has a mean of its own; one group by default.
    """
    numbers = np.zeros(len(encoded), dtype=np.intp) if groups is None else groups
    member = np.equal.outer(numbers, np.unique(numbers)).astype(np.float64)
    return tuple(_slopes(table, encoded[seen], member[seen]) for table, seen in zip(tables, observed.T, strict=True))


def _slopes(table: NDArray[np.floating[Any]], encoded: Floats, member: Floats) -> Floats:
    """Return the slopes (C, P) of the columns of a table (n, P) within groups, by the cells that each column has.

    Deviations from the groups' means are regressed, written in sums over cells. Levels of words depend on each other;
    of all solutions it is the shortest.
    """
    full = ~np.isnan(table)
    cells, width = np.where(full, table, 0.0), encoded.shape[1]
    # Columns without an empty cell share their sums: (Q, …) with Q = 1.
    known = (full[:, :1] if full.all() else full).T.astype(np.float64)
    counts = np.maximum(known @ member, 1.0)[:, :, None]
    within = (known @ (member[:, :, None] * encoded[:, None, :]).reshape(len(table), -1)).reshape(*counts.shape[:2], -1)
    squares = (known @ (encoded[:, :, None] * encoded[:, None, :]).reshape(len(table), -1)).reshape(-1, width, width)
    sums = cells.T @ encoded - ((cells.T @ member)[:, :, None] / counts * within).sum(axis=1)
    values, vectors = np.linalg.eigh(squares - np.swapaxes(within / counts, 1, 2) @ within)
    least = _RANK * np.trace(squares, axis1=1, axis2=2)[:, None]
    inverse = np.where(values > least, 1 / np.where(values > least, values, 1.0), 0.0)
    slopes = vectors @ (inverse[:, :, None] * (np.swapaxes(vectors, 1, 2) @ sums[:, :, None]))
    return np.asarray(slopes[:, :, 0].T)


def is_number(values: pd.Series) -> bool:
    """Tell whether a covariate is a number and no word; True and False are words."""
    return is_numeric_dtype(values.dtype) and not is_bool_dtype(values.dtype)
