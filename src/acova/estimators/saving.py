"""A fitted clusterer to and from a run folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from acova.base import RunFolderError, Streams
from acova.data import Scaling, Summary
from acova.engine import computation, resolve_device
from acova.estimators.consensus import Ensemble
from acova.estimators.storage import load_run, save_run

if TYPE_CHECKING:
    from acova.estimators.base import MultiViewClusterer
    from acova.estimators.variational import VariationalClusterer

_Model = TypeVar("_Model", bound="MultiViewClusterer")
_FITTED = ("view_names_", "view_sizes_", "_columns", "provenance_")
_LATER: dict[str, Any] = {"warnings_": []}
"""What folders of earlier versions do not hold."""
_PREFIX = "network."


def save_model(model: "MultiViewClusterer", folder: str | Path, *, overwrite: bool) -> None:
    """Write what `load_model` needs, and the tables people read."""
    tensors, told = model._packed()
    for v, (center, scale) in enumerate(zip(model._scaling.centers, model._scaling.scales, strict=True)):
        tensors |= {f"center.{v}": torch.from_numpy(center), f"scale.{v}": torch.from_numpy(scale)}
    tensors |= _summary_tensors(model.summary_)
    held = {name: getattr(model, name) for name in model._per_sample}
    on_disk = {name: array for name, array in held.items() if isinstance(array, np.memmap)}
    tensors |= {name: torch.from_numpy(array) for name, array in held.items() if name not in on_disk}
    params = model.get_params(deep=False)
    if not isinstance(model.random_state, int | np.integer):
        params["random_state"] = None
    config = {
        "estimator": type(model).__name__,
        "params": params,
        "fitted": {name: getattr(model, name) for name in (*_FITTED, *model._fitted)},
        **told,
        "unit_rows": model._scaling.unit_rows,
        "categories": model.categories_,
        "feature_names": getattr(model, "feature_names_in_", None),
        "index": None if model.index_.equals(pd.RangeIndex(len(model.index_))) else model.index_.tolist(),
        "on_disk": list(on_disk),
    }
    save_run(folder, config, tensors, model.iter_assignments(), model.history_, on_disk, overwrite=overwrite)


def load_model(cls: type[_Model], folder: str | Path, device: str) -> _Model:
    """Read a model of the given class, or say what is wrong with the folder."""
    config, tensors, history = load_run(folder)
    if config.get("estimator") != cls.__name__:
        msg = f"{folder} holds a model of class {config.get('estimator')!r}, not {cls.__name__!r}."
        raise RunFolderError(msg)
    try:
        model = _unpacked(cls, config, tensors, device)
        for name in config.get("on_disk", ()):
            setattr(model, name, np.load(Path(folder) / f"{name}.npy", mmap_mode="r"))
        names = config["index"]
        model.index_ = pd.RangeIndex(len(model.labels_)) if names is None else pd.Index(names)
    except (KeyError, TypeError, ValueError, RuntimeError, OSError) as error:
        msg = f"{folder} does not hold a whole model ({error}). Fit again, or restore its files."
        raise RunFolderError(msg) from error
    model.history_ = history
    return model


def _unpacked(cls: type[_Model], config: Mapping[str, Any], tensors: Mapping[str, Tensor], device: str) -> _Model:
    # JSON knows no tuples and no arrays: widths come back as tuples, matrices as arrays.
    params = {name: _from_json(name, value) for name, value in config["params"].items()}
    model = cls(**params)
    if "device" in params:
        model.set_params(device=device)
    fitted = {**_LATER, **config["fitted"]}
    for name in (*_FITTED, *cls._fitted):
        setattr(model, name, _from_json(name, fitted[name]))
    model.categories_ = config.get("categories", {})
    model.n_features_in_ = sum(model._given_sizes)
    model._columns = tuple(None if names is None else tuple(names) for names in model._columns)
    if config["feature_names"] is not None:
        model.feature_names_in_ = np.array(config["feature_names"], dtype=object)
    n_views = len(model.view_sizes_)
    centers, scales = (tuple(tensors[f"{kind}.{v}"].numpy() for v in range(n_views)) for kind in ("center", "scale"))
    model._scaling = Scaling(centers, scales, tuple(config.get("unit_rows", [False] * n_views)))
    model.summary_ = _summary(tensors, n_views)
    model._unpack(tensors, config)
    for name in set(cls._per_sample) - set(config.get("on_disk", ())):
        setattr(model, name, tensors[name].numpy())
    return model


def pack_networks(model: "VariationalClusterer") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights of a model's networks, and what else is needed to use them."""
    ensemble = model._ensemble
    tensors = {
        f"{_PREFIX}{run}.{name}": value
        for run, network in enumerate(ensemble.networks)
        for name, value in network.state_dict().items()
    }
    tensors["orders"] = torch.from_numpy(ensemble.orders)
    params, resolved = model.get_params(deep=False), model._settings.get_params(deep=False)
    chosen = {name: value for name, value in resolved.items() if _left_open(params[name]) and value is not None}
    return tensors, {"resolved": chosen, "reference": ensemble.reference}


@computation()
def unpack_networks(model: "VariationalClusterer", tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Give a model its networks back."""
    model._settings = type(model)(**{**model.get_params(deep=False), **config["resolved"]})
    orders = tensors["orders"].numpy()
    networks = []
    for run in range(len(orders)):
        network = model._settings._new_network(model.view_sizes_, model._likelihoods, Streams(model.seed_))
        prefix = f"{_PREFIX}{run}."
        weights = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        network.load_state_dict(weights)
        networks.append(network.to(resolve_device(model.device)))
    model._adopt(Ensemble(networks, orders, int(config["reference"])))


def _summary_tensors(summary: Summary) -> dict[str, Tensor]:
    arrays = {name: getattr(summary, name) for name in ("patterns", "counts", "rows")}
    for v, (mean, std) in enumerate(zip(summary.means, summary.stds, strict=True)):
        arrays |= {f"means.{v}": mean, f"stds.{v}": std}
    return {f"summary.{name}": torch.from_numpy(array) for name, array in arrays.items()}


def _summary(tensors: Mapping[str, Tensor], n_views: int) -> Summary:
    patterns, counts, rows = (tensors[f"summary.{name}"].numpy() for name in ("patterns", "counts", "rows"))
    moments = [tuple(tensors[f"summary.{kind}.{v}"].numpy() for v in range(n_views)) for kind in ("means", "stds")]
    return Summary(patterns, counts, rows, *moments)


def _left_open(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value == "auto")


def _from_json(name: str, value: Any) -> Any:
    if not isinstance(value, list) or name in ("view_names_", "warnings_"):
        return value
    return np.array(value) if name in ("correlation", "correlation_start", "objectives_") else tuple(value)
