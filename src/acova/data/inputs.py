"""From what users hold (arrays, dicts, DataFrames, omics containers) to one float array per view."""

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import issparse

from acova.base import DataError
from acova.data.files.limits import check_sparse
from acova.data.files.omics import is_omics, omics_parts, table_of
from acova.data.names import check_columns, kind_of
from acova.data.sparse import is_sparse

FloatArray = NDArray[np.floating[Any]]


def from_tensor(part: Any) -> Any:
    """Return a torch tensor, on any device and with or without gradients, as an array; anything else as it is."""
    if not (hasattr(part, "detach") and hasattr(part, "cpu")):
        return part
    tensor = part.detach().cpu()
    # Half precision is widened: numpy has no bfloat16.
    return (tensor.float() if tensor.is_floating_point() and tensor.element_size() < 4 else tensor).numpy()


def split_views(
    X: Any, view_sizes: Sequence[int] | None, layer: str | None = None, *, sparse: bool = False
) -> dict[str, Any]:
    """Return name → array or frame; a view given as None is left out; with `sparse`, sparse matrices stay so."""
    if is_omics(X):
        return _named(list(omics_parts(X, layer, sparse=sparse)))
    if layer is not None:
        msg = f"layer is for MuData and AnnData, whose layers have names; got {type(X).__name__}. Leave it out."
        raise DataError(msg)
    if isinstance(X, Mapping) and not issparse(X):  # dok matrices are dicts
        parts = [(str(name), part) for name, part in X.items() if part is not None]
        return _named([(name, table_of(name, p, sparse=sparse) if is_omics(p) else p) for name, p in parts])
    if isinstance(X, list | tuple):
        X = [part if hasattr(part, "ndim") or part is None else _plain(f"view_{v}", part) for v, part in enumerate(X)]
        if X and all(part is not None and np.ndim(part) < 2 for part in X):
            return _cut(_plain("view_0", X), view_sizes)
        return {f"view_{v}": part for v, part in enumerate(X) if part is not None}
    return _cut(X, view_sizes)


def _named(parts: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(parts)) < len(parts):
        names = [name for name, _ in parts]
        msg = f"Views: two views have the same name as text; got {names}. Give every view a name of its own."
        raise DataError(msg)
    return dict(parts)


def _cut(X: Any, view_sizes: Sequence[int] | None) -> dict[str, Any]:
    """Cut the columns of one table into views."""
    if isinstance(X, str | os.PathLike):
        msg = f"Views: expected arrays or frames, not the text {str(X)!r}. To read a file, use read_views(path).views."
        raise DataError(msg)
    table = X if isinstance(X, pd.DataFrame | np.ma.MaskedArray) else _plain("view_0", X)
    if table.ndim != 2:
        msg = (
            f"Views: expected a 2-D array, a list or a dict of 2-D arrays; got {type(X).__name__} "
            f"of shape {table.shape}. Reshape your data to one row per sample."
        )
        raise DataError(msg)
    sizes = [table.shape[1]] if view_sizes is None else _checked_sizes(view_sizes)
    if sum(sizes) != table.shape[1] or min(sizes, default=0) < 1:
        msg = (
            f"view_sizes {sizes} sums to {sum(sizes)} but the array has {table.shape[1]} columns; "
            "give the number of columns of each view, in order."
        )
        raise DataError(msg)
    ends = np.cumsum(sizes)
    columns = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    if isinstance(table, pd.DataFrame):
        return {f"view_{v}": table.iloc[:, part] for v, part in enumerate(columns)}
    return {f"view_{v}": table[:, part] for v, part in enumerate(columns)}


def _checked_sizes(view_sizes: Any) -> list[int]:
    sizes = list(view_sizes) if np.iterable(view_sizes) else [view_sizes]
    if np.iterable(view_sizes) and all(isinstance(size, Integral) for size in sizes):
        return [int(size) for size in sizes]
    msg = f"view_sizes must list the number of columns of each view, such as [76, 216]; got {view_sizes!r}."
    raise DataError(msg)


def _plain(name: str, part: Any) -> NDArray[Any]:
    if is_sparse(part):
        check_sparse(f"View {name!r}", getattr(part, "matrix", part))
        return np.asarray(getattr(part, "matrix", part).toarray())
    try:
        return np.asarray(from_tensor(part))
    except ValueError:
        msg = f"View {name!r} has rows of different lengths; give a 2-D array, one row per sample."
        raise DataError(msg) from None


def frames_of(parts: Mapping[str, Any]) -> dict[str, pd.DataFrame] | None:
    """Return the parts when all are frames, None when none is; a mixture is an error."""
    frames = {name: part for name, part in parts.items() if isinstance(part, pd.DataFrame)}
    if not frames:
        return None
    for name in parts:
        if name not in frames:
            msg = (
                f"View {name!r} is a {type(parts[name]).__name__} but view {next(iter(frames))!r} is a "
                "DataFrame; samples are joined on the index, so make every view a DataFrame or none."
            )
            raise DataError(msg)
    return frames


def as_float_array(name: str, part: Any) -> FloatArray:
    """Return a 2-D float array."""
    array = np.ma.filled(part.astype(float), np.nan) if isinstance(part, np.ma.MaskedArray) else _plain(name, part)
    if array.ndim != 2 or array.shape[1] == 0:
        msg = f"View {name!r} must be a 2-D array with at least one column; got shape {array.shape}."
        raise DataError(msg)
    if array.dtype.kind not in "biuf":
        try:
            array = array.astype(np.float64, casting="same_kind" if array.dtype.kind in "cmM" else "unsafe")
        except (TypeError, ValueError):
            msg = (
                f"View {name!r} holds values that are not numbers (dtype {array.dtype}); "
                "encode them as numbers, or pass a DataFrame, whose columns of categories are encoded."
            )
            raise DataError(msg) from None
    return array.astype(np.result_type(array.dtype, np.float32), copy=False)


def check_lengths(arrays: Mapping[str, FloatArray]) -> None:
    """Refuse arrays with different numbers of rows."""
    first = next(iter(arrays))
    for name, array in arrays.items():
        if len(array) != len(arrays[first]):
            msg = (
                f"View {name!r} has {len(array)} rows but view {first!r} has {len(arrays[first])}; every view "
                "needs one row per sample. Mark an absent sample with an all-NaN row, or pass DataFrames, "
                "which are joined on their index."
            )
            raise DataError(msg)


def as_mask(observed: Any, index: pd.Index, names: list[str]) -> NDArray[np.bool_]:
    """Return a bool array (n_samples, n_views) from an array, or from a frame by its labels."""
    if isinstance(observed, pd.DataFrame):
        observed = _mask_by_label(observed, index, names)
    mask = np.asarray(from_tensor(observed))
    if mask.shape != (len(index), len(names)):
        msg = (
            f"observed must have one row per sample and one column per view, {(len(index), len(names))}; "
            f"got {mask.shape}."
        )
        raise DataError(msg)
    if mask.dtype != bool and (pd.isna(mask).any() or not np.isin(mask, (0, 1)).all()):
        msg = "observed must hold True/False (or 1/0): True where a sample has the view."
        raise DataError(msg)
    return mask.astype(bool)


def _mask_by_label(observed: pd.DataFrame, index: pd.Index, names: list[str]) -> pd.DataFrame:
    observed = observed.set_axis(list(map(str, observed.columns)), axis=1)
    check_columns("observed", observed.columns)
    kinds = kind_of(observed.index), kind_of(index)
    if None not in kinds and kinds[0] != kinds[1]:
        msg = (
            f"observed: a DataFrame must name the samples as the data do; its index holds {kinds[0]}, the data have "
            f"{kinds[1]}. Change one of them, for example observed.index = observed.index.astype(str)."
        )
        raise DataError(msg)
    absent = [name for name in names if name not in observed.columns]
    places = observed.index.get_indexer(index) if observed.index.is_unique else np.full(len(index), -1)
    if absent or (places < 0).any():
        msg = (
            "observed: a DataFrame needs the views as columns and every sample once in its index; "
            f"missing columns {absent}, missing samples {index[places < 0][:3].tolist()}."
        )
        raise DataError(msg)
    return observed.iloc[places][names]
