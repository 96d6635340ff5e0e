"""MuData and AnnData: modalities as views, and results written back.

The containers are recognised by what they offer, so nothing here is imported until a file is read or written.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from acova.base import DataError, FileError
from acova.base.errors import near_miss, require
from acova.base.outputs import new_file
from acova.data.files.hdf5 import opened_hdf5
from acova.data.files.limits import check_file, check_sparse, readable
from acova.data.sparse import SparseTable

PREFIX = "acova"
"""First part of the name of everything that is written back."""
ENDINGS = (".h5mu", ".h5ad")
_TYPES = "feature_types"


def is_omics(X: Any) -> bool:
    """Return whether X is a MuData or an AnnData."""
    return hasattr(X, "obs_names") and hasattr(X, "obsm") and (hasattr(X, "mod") or hasattr(X, "var_names"))


def omics_parts(X: Any, layer: str | None = None, *, sparse: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield name → frame of each view: the modalities of a MuData, or the parts of an AnnData.

    Parameters
    ----------
    X : MuData or AnnData
    layer : str, optional
        The layer to read in the place of ``X``; in a MuData, of the modalities that have it.
    sparse : bool
        Whether sparse matrices become a `SparseTable` and not a frame.
    """
    as_table = _table if sparse else _frame
    if not hasattr(X, "mod"):
        yield from _parts(X, layer, as_table)
        return
    if getattr(X, "axis", 0) != 0:
        msg = (
            f"MuData: its modalities share features (axis={X.axis}), not samples; views need the same samples (axis=0)."
        )
        raise DataError(msg)
    layers = {name for modality in X.mod.values() for name in getattr(modality, "layers", ())}
    if layer is not None and layer not in layers:
        raise _no_layer(X, layer, layers)
    for name, modality in X.mod.items():
        if hasattr(modality, "mod"):
            msg = f"MuData: modality {name!r} is a MuData itself; pass its modalities as modalities of one object."
            raise DataError(msg)
        entry = modality.X if layer is None else modality.layers.get(layer, modality.X)
        yield str(name), as_table(f"modality {name!r}", entry, modality.obs_names, modality.var_names)


def table_of(name: str, data: Any, *, sparse: bool) -> Any:
    """Return ``X`` of one AnnData that is a view by itself."""
    return (_table if sparse else _frame)(f"View {name!r}", data.X, data.obs_names, data.var_names)


def sparse_bytes(X: Any) -> int:
    """Return the bytes that containers with sparse matrices take as float32 when dense; 0 if none is sparse."""
    if not isinstance(X, Mapping) and not is_omics(X):
        return 0
    containers = list(X.values() if isinstance(X, Mapping) else getattr(X, "mod", {0: X}).values())
    if not containers or not all(map(is_omics, containers)):
        return 0
    entries = [entry for one in containers for entry in (one.X, *getattr(one, "layers", {}).values())]
    if not any(map(issparse, entries)):
        return 0
    return int(4 * sum(one.n_obs * one.n_vars for one in containers))


def _parts(data: Any, layer: str | None, as_table: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Yield X, cut by the type of its features, and what `obsm` holds beside it."""
    if layer is not None and layer not in data.layers:
        raise _no_layer(data, layer, data.layers)
    entry = data.X if layer is None else data.layers[layer]
    if entry is not None:
        types = data.var[_TYPES].astype(str) if _TYPES in data.var else pd.Series("X", index=data.var_names)
        if types.nunique() < 2:
            yield "X", as_table("X", entry, data.obs_names, data.var_names)
        else:
            for kind in types.unique():
                chosen = (types == kind).to_numpy()
                yield kind, as_table("X", entry[:, chosen], data.obs_names, data.var_names[chosen])
    for name, entry in data.obsm.items():
        # By convention X_pca, X_umap and so on are computed from X: they are no further look at the samples.
        if not name.startswith(("X_", PREFIX)):
            yield name, as_table(f"obsm[{name!r}]", entry, data.obs_names, None)


def _no_layer(data: Any, layer: str, known: Iterable[str]) -> DataError:
    names = sorted(map(str, known))
    listed = ", ".join(map(repr, names)) or "of which it has none"
    return DataError(
        f"{type(data).__name__}: layer must be one of its layers, {listed}; got {layer!r}.{near_miss(layer, names)}"
    )


def _table(who: str, entry: Any, samples: pd.Index, features: pd.Index | None) -> Any:
    if issparse(entry):
        return SparseTable(who, entry, pd.Index(samples), range(entry.shape[1]) if features is None else features)
    return _frame(who, entry, samples, features)


def _frame(who: str, entry: Any, samples: pd.Index, features: pd.Index | None) -> pd.DataFrame:
    if entry is None:
        msg = f"{who} has no X; fill it, for example from a layer: data.X = data.layers['counts']."
        raise DataError(msg)
    if isinstance(entry, pd.DataFrame):
        return entry.set_axis(pd.Index(samples), axis=0)
    if issparse(entry):
        check_sparse(who, entry)
    dense = np.asarray(entry.toarray() if issparse(entry) else entry)
    return pd.DataFrame(dense, index=pd.Index(samples), columns=features)


def read_omics(path: Path) -> Any:
    """Read a ``.h5mu`` or ``.h5ad`` file.

    See Also
    --------
    write_omics : Writes it back with results.
    acova.ACOVA.annotate : Adds the results.
    """
    kind = "MuData" if path.suffix == ".h5mu" else "AnnData"
    package = require(kind.lower(), f"{path}: reading {kind}", "omics")
    check_file(path)
    with readable(path, f"{kind} file"), _quiet():
        with opened_hdf5(path, f"{path}: reading {kind}", tree=True):
            pass
        return package.read_h5mu(path) if kind == "MuData" else package.read_h5ad(path)


def write_omics(data: Any, path: Path) -> None:
    """Write a container, whole or not at all, in the format that its kind has.

    A file that is there stays until the new one is whole. What is no regular file, such as a device, is never replaced.

    See Also
    --------
    read_omics : Reads it.
    """
    ending = ".h5mu" if hasattr(data, "mod") else ".h5ad"
    if path.suffix != ending:
        msg = f"{path}: a {type(data).__name__} is written to a {ending} file; change the ending."
        raise DataError(msg)
    with new_file(path) as part:
        _write(data, part)


def _write(data: Any, part: Path) -> None:
    try:
        with _quiet():
            data.write(part)
    except OSError:
        raise
    except Exception as error:  # the packages refuse what HDF5 has no type for
        msg = f"{type(data).__name__} cannot be written: {error}. Remove or convert what is named there."
        raise FileError(msg) from error


def add_results(
    data: Any,
    table: pd.DataFrame,
    about: dict[str, Any],
    latent: np.ndarray | None = None,
    prefix: str = PREFIX,
) -> None:
    """Write what a model says of the samples into a container.

    Parameters
    ----------
    data : MuData or AnnData
        Changed in place.
    table : DataFrame
        ``assignments`` of a model: its ``label`` (as a categorical), ``confidence`` and ``agreement`` go to ``obs``,
        its ``p_…`` and ``weight_…`` columns to ``obsm``.
    about : dict
        Goes to ``uns[prefix]``.
    latent : array of shape (n_samples, latent_dim), optional
        In the order of the table; goes to ``obsm``.
    prefix : str
        First part of every name.
    """
    samples = pd.Index(data.obs_names)
    lost = ~samples.isin(table.index)
    if lost.any():
        msg = f"{int(lost.sum())} samples have no result, first {samples[lost][0]!r}; predict for all of them."
        raise DataError(msg)
    rows = table.index.get_indexer(samples)
    data.obs[f"{prefix}_label"] = pd.Categorical(table["label"].to_numpy()[rows].astype(str))
    for column in ("confidence", "agreement"):
        if column in table:
            data.obs[f"{prefix}_{column}"] = table[column].to_numpy()[rows]
    for head, name in (("p_", "probabilities"), ("weight_", "view_weights")):
        columns = [column for column in table.columns if str(column).startswith(head)]
        if columns:
            data.obsm[f"{prefix}_{name}"] = table[columns].to_numpy()[rows]
    if latent is not None:
        data.obsm[f"{prefix}_latent"] = latent[rows]
    data.uns[prefix] = about


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves what the readers say about their own coming versions."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
