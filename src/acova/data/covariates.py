"""What is known of samples besides their views, such as batch, site or age, and how far it explains the views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype

from acova.base import DataError

_SHOWN = 5
_RANK = 1e-10
"""Smaller eigenvalues, relative to the largest, count as none."""


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
            if _is_number(values):
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
        if not _is_number(values):
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
    absent = index.difference(frame.index)
    if len(absent):
        msg = (
            f"covariates have no row for {len(absent)} of {len(index)} samples, first: "
            f"{', '.join(map(str, absent[:_SHOWN].tolist()))}. Give them a row; its cells may be empty."
        )
        raise DataError(msg)
    return frame.reindex(index)


def linear_effects(
    tables: Sequence[NDArray[np.floating[Any]]], observed: NDArray[np.bool_], encoded: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """Return how every feature changes with the encoded covariates, (C, P_v) per view, by least squares.

    Parameters
    ----------
    tables : sequence of V arrays of shape (n_v, P_v)
        The rows of the samples that have each view, with NaN in empty cells.
    observed : array of bool, shape (N, V)
        Which samples these are.
    encoded : array of shape (N, C)
    """
    design = np.column_stack([np.ones(len(encoded)), encoded])
    return tuple(_slopes(design[seen], table) for table, seen in zip(tables, observed.T, strict=True))


def _slopes(design: NDArray[np.float64], table: NDArray[np.floating[Any]]) -> NDArray[np.float64]:
    """Return the regression of every column (n, P) on a design (n, 1 + C), by the cells that the column has."""
    full = ~np.isnan(table)
    if full.all():
        found = np.linalg.lstsq(design, table.astype(np.float64), rcond=None)[0]
    else:
        squares = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
        grams = (full.T.astype(np.float64) @ squares).reshape(-1, design.shape[1], design.shape[1])
        sums = np.where(full, table, 0.0).T @ design
        # Levels of words depend on each other; of all solutions it is the shortest, as above.
        found = np.einsum("pij,pj->ip", np.linalg.pinv(grams, rcond=_RANK, hermitian=True), sums)
    return np.asarray(found[1:])


def _is_number(values: pd.Series) -> bool:
    return is_numeric_dtype(values.dtype) and not is_bool_dtype(values.dtype)
