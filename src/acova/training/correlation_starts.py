"""Where the correlation of the views' errors starts, and what a user may give for it."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acova.base import OptionError
from acova.functional import constant_correlation, correlation_matrix

CORRELATION_STARTS = ("random", "identity", "similarity")


def code_similarity(codes: NDArray[np.floating[Any]], observed: NDArray[np.bool_]) -> Tensor:
    """Return the cosine similarity of the views' codes over complete samples, as a correlation matrix.

    It is shrunk slightly toward the identity so that identical views still give a positive definite
    matrix; without any complete sample it is the identity.
    """
    complete = codes[observed.all(axis=1)]
    n_views = codes.shape[1]
    if not len(complete):
        return torch.eye(n_views, dtype=torch.float64)
    flat = complete.transpose(1, 0, 2).reshape(n_views, -1).astype(np.float64)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)
    similarity = torch.from_numpy(0.99 * flat @ flat.T)
    return similarity.fill_diagonal_(1.0)


def starting_correlation(start: Any, n_views: int, noise: NDArray[np.float64], who: str = "ACOVA") -> Tensor:
    """Return the matrix learning starts from.

    ``"random"`` is the published start: a parameter |N(0, 1)|, from the given noise of V(V+1)/2 numbers.
    ``"similarity"`` is only known after pretraining; until then the identity stands in.
    """
    if isinstance(start, str):
        if start == "random":
            return correlation_matrix(torch.from_numpy(np.abs(noise)))
        return torch.eye(n_views, dtype=torch.float64)
    return given_correlation("correlation_start", start, n_views, who)


def given_correlation(option: str, value: Any, n_views: int, who: str = "ACOVA") -> Tensor:
    """Return the correlation matrix a user gave as a number or a matrix, or say what is wrong with it."""
    if np.ndim(value) == 0:
        try:
            matrix = constant_correlation(n_views, float(value))
        except (TypeError, ValueError):
            msg = f"{who}: {option} must be a word, a number or a {(n_views, n_views)} matrix; got {value!r}."
            raise OptionError(msg) from None
        rule = f"a constant correlation of {n_views} views lies between {_lowest(n_views)} and 1 (both excluded)"
    else:
        matrix = torch.as_tensor(np.array(value, dtype=np.float64))
        rule = f"it must be a symmetric positive definite {(n_views, n_views)} matrix with a unit diagonal"
    if not _is_correlation(matrix, n_views):
        msg = f"{who}: {option}={value!r} is no correlation matrix; {rule}."
        raise OptionError(msg)
    return matrix


def _lowest(n_views: int) -> str:
    return f"-1/{n_views - 1}" if n_views > 1 else "-1"


def _is_correlation(matrix: Tensor, n_views: int) -> bool:
    if matrix.shape != (n_views, n_views) or not torch.isfinite(matrix).all():
        return False
    ones = torch.ones(n_views, dtype=matrix.dtype)
    regular = torch.allclose(matrix, matrix.mT) and torch.allclose(matrix.diagonal(), ones)
    return regular and int(torch.linalg.cholesky_ex(matrix).info) == 0
