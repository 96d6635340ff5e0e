"""A fitted clusterer to and from a run folder."""

from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
import pandas as pd
import torch
from torch import Tensor

from acova.base import AcovaError, RunFolderError, Streams
from acova.clustering.number import ClusterNumbers
from acova.data import Scaling, Summary
from acova.data.categories import block_sizes
from acova.data.completion import Completion, JointCompletion
from acova.engine.runtime import computation, resolve_device
from acova.estimators._indices import index_from_json, index_to_json
from acova.estimators._resolution import checked_settings
from acova.estimators._settings import other_than_default, plain, setting_parameters
from acova.estimators.recipes import OTHERWISE
from acova.networks.likelihoods import LIKELIHOODS
from acova.training.consensus import Ensemble
from acova.training.job import FitData, Job
from acova.training.reading import Config, array_of, checked_array, load_array, load_run, load_weights
from acova.training.run_folder import save_run

if TYPE_CHECKING:
    from acova.estimators._base import MultiViewClusterer
    from acova.estimators._deep import DeepClusterer

_Model = TypeVar("_Model", bound="MultiViewClusterer")
_FITTED = (
    "view_names_",
    "view_sizes_",
    "_columns",
    "provenance_",
    "empty_cells_",
    "cluster_names_",
    "announced_",
    "_classes",
)
_LATER: dict[str, Any] = {
    "cluster_names_": None,
    "announced_": {},
    "_classes": None,
    "warnings_": [],
    "empty_cells_": {},
    "cluster_numbers_": None,
    **dict.fromkeys(("view_trust_", "view_agreement_", "view_influence_", "view_support_", "view_shift_")),
}
"""What folders of earlier versions do not hold."""
_TYPES: dict[str, Any] = {
    "view_names_": list[str],
    "view_sizes_": tuple[int, ...],
    "_columns": tuple[tuple[str, ...] | None, ...],
    "provenance_": dict[str, Any],
    "empty_cells_": dict[str, int],
    "cluster_names_": list[str] | None,
    "announced_": dict[str, int | tuple[str, ...]],
    "_classes": list[int | str] | None,
    "_likelihoods": tuple[str, ...],
    "seed_": int,
    "n_iter_": int,
    "objective_": float,
    "view_": str,
    "warnings_": list[str],
    "cluster_numbers_": ClusterNumbers | None,
}
"""What learned values must be; arrays and others are checked where they are used."""
_PREFIX = "network."
_OF_COMPLETION = ("mean", "low", "high", "loadings", "noise")
_OBSOLETE = ("elbo_weight", "n_correlations")
"""Keywords that earlier versions gave methods for which they say nothing."""
_RENAMED = {"agreement_between_views_": "view_agreement_"}
"""Learned values that earlier versions called otherwise."""
_NONE_MEANT: dict[tuple[str, str], Any] = {("AgreementGraph", "view_weights"): "agreement"}
"""What None stood for in earlier versions, by method and keyword."""
_BEFORE = {"covariate_use": "adjust"}
"""What earlier versions did in the place of settings that they had not."""
_OLD_FORMAT = 3
"""The format in which lists stood for tuples and arrays, too."""
_BROKEN = (AcovaError, ArithmeticError, AttributeError, LookupError, OSError, RecursionError, RuntimeError, TypeError)
"""What values of the wrong kind lead to, besides `ValueError`."""


def save_model(model: "MultiViewClusterer", folder: str | Path, *, overwrite: bool) -> None:
    """Write what `load_model` needs, and the tables people read."""
    tensors, entries = model._packed()
    for v, (center, scale) in enumerate(zip(model._scaling.centers, model._scaling.scales, strict=True)):
        tensors |= {f"center.{v}": torch.from_numpy(center), f"scale.{v}": torch.from_numpy(scale)}
    tensors |= _completion_tensors(model)
    tensors |= {f"effect.{v}": torch.from_numpy(effect) for v, effect in enumerate(model._scaling.effects)}
    tensors |= _summary_tensors(model.summary_)
    # Files keep the agreement of a single run too, which the model does not show.
    per_sample = {name: getattr(model, {"agreement_": "_agreement"}.get(name, name)) for name in model._per_sample}
    on_disk = {name: array for name, array in per_sample.items() if isinstance(array, np.memmap)}
    tensors |= {name: torch.from_numpy(array) for name, array in per_sample.items() if name not in on_disk}
    params = model.get_settings()
    resolved = {name: value for name, value in model.settings_.items() if repr(value) != repr(plain(params[name]))}
    if not isinstance(model.random_state, int | np.integer):
        params["random_state"] = None
    config = {
        "estimator": type(model).__name__,
        "params": {name: to_json(value) for name, value in params.items()},
        "fitted": {name: to_json(getattr(model, name)) for name in (*_FITTED, *model._fitted)},
        "resolved": {name: to_json(value) for name, value in resolved.items()},
        **entries,
        "unit_rows": model._scaling.unit_rows,
        "limits": [limit if limit < np.inf else None for limit in model._scaling.limits],
        "totals": model._scaling.totals,
        "covariates": None if model._scaling.covariates is None else asdict(model._scaling.covariates),
        "row_lengths": model._scaling.lengths,
        "categories": model.categories_,
        "feature_names": getattr(model, "feature_names_in_", None),
        "index": index_to_json(model.index_),
        "on_disk": list(on_disk),
    }
    save_run(folder, config, tensors, model.iter_assignments(), model.history_, on_disk, overwrite=overwrite)


def load_model(cls: type[_Model], folder: str | Path, device: str) -> _Model:
    """Read a model of the given class, or say what is wrong with the folder."""
    config, tensors, history = load_run(folder)
    if config.estimator != cls.__name__:
        msg = f"{folder} holds a model of class {config.estimator!r}, not {cls.__name__!r}."
        raise RunFolderError(msg)
    try:
        model = _unpacked(cls, config, tensors, device)
        _take_samples(model, config, tensors, folder)
    except (ValueError, *_BROKEN) as error:
        msg = f"{folder} does not hold a whole model ({error}). Fit again, or restore its files."
        raise RunFolderError(msg) from error
    model.history_ = history
    return model


def _unpacked(cls: type[_Model], config: Config, tensors: Mapping[str, Tensor], device: str) -> _Model:
    value_of = _old_value if config.format_version == _OLD_FORMAT else lambda _, value: from_json(value)
    params = {name: value_of(name, value) for name, value in config.params.items()}
    known = setting_parameters(cls)
    kept = {name: value for name, value in params.items() if name in known or name not in _OBSOLETE}
    for (method, name), value in _NONE_MEANT.items():
        if config.estimator == method and name in kept and kept[name] is None:
            kept[name] = value
    since = {name: value for name, value in (OTHERWISE | _BEFORE).items() if name in known and name not in params}
    model = cls.from_settings(**other_than_default({**since, **kept}, known))
    if "device" in params:
        model.set_params(device=device)
    fitted = {**_LATER, **{_RENAMED.get(name, name): value for name, value in config.fitted.items()}}
    for name in (*_FITTED, *cls._fitted):
        setattr(model, name, msgspec.convert(value_of(name, fitted[name]), _TYPES.get(name, Any)))
    model.categories_ = {view: {c: tuple(v) for c, v in found.items()} for view, found in config.categories.items()}
    _check_views(model, config)
    model.n_features_in_ = sum(model._given_sizes)
    if config.feature_names is not None:
        _check_length("feature_names", config.feature_names, model.n_features_in_)
        model.feature_names_in_ = np.array(config.feature_names, dtype=object)
    sizes = model.view_sizes_
    centers = tuple(array_of(tensors, f"center.{v}", (size,)) for v, size in enumerate(sizes))
    scales = tuple(array_of(tensors, f"scale.{v}", (size,)) for v, size in enumerate(sizes))
    limits = tuple(np.inf if limit is None else limit for limit in config.limits)
    unit_rows, lengths = tuple(config.unit_rows or [False] * len(sizes)), tuple(config.row_lengths)
    totals = tuple(config.totals or [0.0] * len(sizes))
    effects: tuple[Any, ...] = ()
    use = model.get_settings().get("covariate_use", "adjust")
    if config.covariates is not None and "effect.0" in tensors:
        count = config.covariates.n_encoded
        effects = tuple(array_of(tensors, f"effect.{v}", (count, size)) for v, size in enumerate(sizes))
    model.summary_ = _summary(tensors, sizes, model.n_clusters_)
    of_cells, of_covariates = _completions(model, tensors), (config.covariates, effects)
    scaling = Scaling(centers, scales, unit_rows, limits, *of_cells, totals, *of_covariates, lengths, use != "adjust")
    model._scaling = scaling.with_means(model.summary_.column_means)
    model.settings_ = _settings_of_fit(model, config)
    model._unpack(tensors, config.rest)
    return model


def _settings_of_fit(model: "MultiViewClusterer", config: Config) -> dict[str, Any]:
    """Return `settings_`; what earlier versions did not resolve stays as it was given."""
    chosen = {name: from_json(value) for name, value in config.resolved.items()}
    if isinstance(chosen.get("hidden"), list):
        chosen["hidden"] = tuple(chosen["hidden"])  # as the old format has it
    known: dict[str, Any] = {"view_sizes": model._given_sizes if model.view_sizes is None else model.view_sizes}
    if hasattr(model, "_likelihoods"):
        known["likelihood"] = dict(zip(model.view_names_, model._likelihoods, strict=True))
    found = {**model.get_settings(), **chosen, **known}
    return {name: plain(found[name]) for name in model.setting_names()}


def _check_views(model: "MultiViewClusterer", config: Config) -> None:
    """Raise `ValueError` where what is said of the views does not agree."""
    names, sizes = model.view_names_, model.view_sizes_
    if (
        not names
        or len(set(names)) < len(names)
        or min(sizes, default=0) < 1
        or not set(model.categories_) | set(model.empty_cells_) <= set(names)
    ):
        msg = (
            f"its views are called {names}, have the widths {sizes}, categories in {list(model.categories_)} and empty "
            f"cells in {list(model.empty_cells_)}"
        )
        raise ValueError(msg)
    _check_length("view_sizes_", sizes, len(names))
    _check_length("_columns", model._columns, len(names))
    for columns, size in zip(model._columns, sizes, strict=True):
        if columns is not None:
            _check_length("_columns of a view", columns, size)
    if config.unit_rows is not None:
        _check_length("unit_rows", config.unit_rows, len(names))
    if config.limits:
        _check_length("limits", config.limits, len(names))
    if config.totals is not None:
        _check_length("totals", config.totals, len(names))
    if config.row_lengths:
        _check_length("row_lengths", config.row_lengths, len(names))
    likelihoods = getattr(model, "_likelihoods", None)
    if likelihoods is not None:
        _check_length("_likelihoods", likelihoods, len(names))
        if not set(likelihoods) <= set(LIKELIHOODS):
            msg = f"its likelihoods are {likelihoods}"
            raise ValueError(msg)


def _check_length(name: str, values: Sized, length: int) -> None:
    if len(values) != length:
        msg = f"{name} has {len(values)} entries, not {length}"
        raise ValueError(msg)


def _take_samples(
    model: "MultiViewClusterer", config: Config, tensors: Mapping[str, Tensor], folder: str | Path
) -> None:
    """Give a model what it has of every training sample."""
    on_disk = set(config.on_disk)
    if not on_disk <= set(model._per_sample):
        msg = f"on_disk names {sorted(on_disk)}"
        raise ValueError(msg)
    arrays = {
        name: load_array(folder, name) if name in on_disk else tensors[name].numpy() for name in model._per_sample
    }
    count, n_views = len(arrays["labels_"]), len(model.view_names_)
    shapes = {
        "labels_": ((count,), "i"),
        "labels_by_view_": ((count, n_views), "i"),
        "probabilities_": ((count, model.n_clusters_), "f"),
        "view_weights_": ((count, n_views), "f"),
        "agreement_": ((count,), "f"),
        "latent_": ((count, getattr(model, "_n_features_out", -1)), "f"),
    }
    for name, array in arrays.items():
        shape, kind = shapes.get(name, ((count, *array.shape[1:]), array.dtype.kind))
        checked = checked_array(name, array, shape, kind)
        if kind == "i" and name not in on_disk and not ((checked >= 0) & (checked < model.n_clusters_)).all():
            msg = f"{name} names other clusters than 0 to {model.n_clusters_ - 1}"
            raise ValueError(msg)
        setattr(model, name, checked)
    if config.format_version == _OLD_FORMAT:
        model.index_ = pd.RangeIndex(count) if config.index is None else pd.Index(config.index)
    else:
        model.index_ = index_from_json(config.index)
    _check_length("index", model.index_, count)


def pack_networks(model: "DeepClusterer") -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the weights of a model's networks, and what else is needed to use them."""
    ensemble = model._ensemble
    tensors = {
        f"{_PREFIX}{run}.{name}": value
        for run, network in enumerate(ensemble.networks)
        for name, value in network.state_dict().items()
    }
    tensors["orders"] = torch.from_numpy(ensemble.orders)
    tensors |= model._packed_reference() | model._packed_usual()
    return tensors, {"reference": ensemble.reference}


@computation()
def unpack_networks(model: "DeepClusterer", tensors: Mapping[str, Tensor], config: Mapping[str, Any]) -> None:
    """Give a model its networks back."""
    settings = checked_settings(type(model).from_settings(**model.settings_))
    model.objectives_ = checked_array("objectives_", np.asarray(model.objectives_), (-1,))
    orders, reference = array_of(tensors, "orders", (-1, model.n_clusters_), "i"), config["reference"]
    if not len(orders) or not (np.sort(orders, axis=1) == np.arange(model.n_clusters_)).all():
        msg = "orders holds rows that do not name every cluster once"
        raise ValueError(msg)
    if not 0 <= reference < len(orders):
        msg = f"reference={reference} is none of the {len(orders)} networks"
        raise ValueError(msg)
    streams, data = Streams(model.seed_), FitData(torch.device("cpu"))
    n_samples = int(model.summary_.counts.sum())
    categories = [model.categories_.get(name, {}) for name in model.view_names_]
    blocks = tuple(block_sizes(found, size) for found, size in zip(categories, model.view_sizes_, strict=True))
    job = Job(
        model.method,
        settings,
        model._likelihoods,
        model.view_sizes_,
        n_samples,
        streams,
        data,
        model._scaling.marks,
        blocks,
        model._scaling.n_told,
    )
    networks: list[Any] = []
    for run in range(len(orders)):
        network: Any = job.network()
        prefix = f"{_PREFIX}{run}."
        weights = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
        if "error_scale" in weights:  # which networks have after a view was removed
            network.error_scale = torch.ones(len(model.view_sizes_), network.latent_dim)
        load_weights(network, weights)
        networks.append(network.to(resolve_device(model.device)))
    model._adopt(Ensemble(networks, orders, reference))
    model._unpack_reference(tensors)
    model._unpack_usual(tensors)


def _completion_tensors(model: "MultiViewClusterer") -> dict[str, Tensor]:
    joint = model._scaling.joint
    models = {} if joint is None else {"joint": joint.model}
    for v, (name, completion) in enumerate(zip(model.view_names_, model._scaling.completions, strict=True)):
        if name in model.empty_cells_ and completion is not None:
            models[str(v)] = completion
    arrays = {f"{part}.{key}": np.asarray(getattr(of, part)) for key, of in models.items() for part in _OF_COMPLETION}
    arrays |= {} if joint is None else {"weights.joint": joint.weights}
    return {f"completion.{name}": torch.from_numpy(array) for name, array in arrays.items()}


def _completions(
    model: "MultiViewClusterer", tensors: Mapping[str, Tensor]
) -> tuple[tuple[Completion | None, ...], JointCompletion | None, tuple[bool, ...]]:
    """Return what completes the empty cells of views that had some in training, and which of these are marked."""
    pairs = list(zip(model.view_names_, model.view_sizes_, strict=True))
    has_holes = [name in model.empty_cells_ for name in model.view_names_]
    completions = tuple(
        _completion(tensors, str(v), size) if has_holes[v] else None for v, (_, size) in enumerate(pairs)
    )
    joint = None
    if any(has_holes) and model._completes_by_factors:
        weights = array_of(tensors, "completion.weights.joint", (len(pairs),))
        joint = JointCompletion(_completion(tensors, "joint", sum(model.view_sizes_)), weights)
    return completions, joint, tuple(model._marks_empty_cells and holes for holes in has_holes)


def _completion(tensors: Mapping[str, Tensor], key: str, size: int) -> Completion:
    mean, low, high = (array_of(tensors, f"completion.{part}.{key}", (size,)) for part in ("mean", "low", "high"))
    loadings = array_of(tensors, f"completion.loadings.{key}", (size, -1))
    return Completion(mean, low, high, loadings, float(array_of(tensors, f"completion.noise.{key}", ())))


def _summary_tensors(summary: Summary) -> dict[str, Tensor]:
    arrays = {name: getattr(summary, name) for name in ("patterns", "counts", "rows")}
    if summary.by_cluster is not None:
        arrays["by_cluster"] = summary.by_cluster
    for v, (mean, std) in enumerate(zip(summary.means, summary.stds, strict=True)):
        arrays |= {f"means.{v}": mean, f"stds.{v}": std}
    arrays |= {f"zeros.{v}": share for v, share in enumerate(summary.zeros)}
    return {f"summary.{name}": torch.from_numpy(array) for name, array in arrays.items()}


def _summary(tensors: Mapping[str, Tensor], sizes: Sequence[int], n_clusters: int) -> Summary:
    patterns = array_of(tensors, "summary.patterns", (-1, len(sizes)), "b")
    counts = array_of(tensors, "summary.counts", (len(patterns),), "i")
    rows = array_of(tensors, "summary.rows", (n_clusters, len(sizes)), "i")
    means, stds, zeros = (
        tuple(array_of(tensors, f"summary.{kind}.{v}", (n_clusters, size)) for v, size in enumerate(sizes))
        if kind != "zeros" or "summary.zeros.0" in tensors
        else ()
        for kind in ("means", "stds", "zeros")
    )
    by_cluster = None
    if "summary.by_cluster" in tensors:  # which earlier versions did not keep
        by_cluster = array_of(tensors, "summary.by_cluster", (len(patterns), n_clusters), "i")
    return Summary(patterns, counts, rows, means, stds, zeros, by_cluster)


def to_json(value: Any) -> Any:
    """Return a value as JSON has it, so that `from_json` gives back tuples and arrays, too."""
    match value:
        case tuple():
            plain: Any = {"__tuple__": [to_json(part) for part in value]}
        case np.ndarray():
            plain = {"__array__": value.tolist(), "dtype": str(value.dtype)}
        case np.generic():
            plain = value.item()
        case ClusterNumbers():
            plain = to_json(asdict(value))
        case list():
            plain = [to_json(part) for part in value]
        case dict():
            plain = {str(name): to_json(part) for name, part in value.items()}
        case _:
            plain = value if value is None or isinstance(value, bool | int | float | str) else str(value)
    return plain


def from_json(value: Any) -> Any:
    """Return what `to_json` was given."""
    match value:
        case {"__tuple__": list(parts)}:
            return tuple(from_json(part) for part in parts)
        case {"__array__": numbers, "dtype": str(dtype)}:
            return np.array(numbers, dtype=dtype)
        case list():
            return [from_json(part) for part in value]
        case dict():
            return {name: from_json(part) for name, part in value.items()}
    return value


def _old_value(name: str, value: Any) -> Any:
    if not isinstance(value, list) or name in ("view_names_", "warnings_"):
        return value
    if name in ("correlation", "correlation_start", "objectives_"):
        return np.array(value)
    return tuple(tuple(part) if isinstance(part, list) else part for part in value)
