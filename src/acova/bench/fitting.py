"""From fits to rows: the data, the models and their scores."""

import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from acova.base import AcovaError
from acova.bench.entries import Fit
from acova.bench.imports import importable, reason_of
from acova.bench.methods import class_of, is_ours, new_model
from acova.bench.origin import device_of, identity_of
from acova.bench.records import classes_of, guards_of, n_classes_of, record_of
from acova.bench.sources import foreign_input, load_data, mask_of
from acova.data import Dataset
from acova.data.files.formats import has_class
from acova.metrics import clustering_scores

UNAVAILABLE = "unavailable"
"""Why there are no data: a row that is shown, and not kept."""


def run_group(fits: Sequence[Fit], device: str = "auto") -> list[dict[str, Any]]:
    """Do fits that share their data, together if there are several, and return their rows.

    A fit that fails gives a row with the reason, and so do data that are not there. When fits that train together
    fail, halves are tried, so that one bad run does not take the others with it.
    """
    with importable(fits[0].folder):  # modules beside the spec may import each other when they are called
        return _run_group(fits, device)


def _run_group(fits: Sequence[Fit], device: str) -> list[dict[str, Any]]:
    try:
        dataset = load_data(fits[0].data, fits[0].folder, fits[0].run)
    except (AcovaError, ImportError, OSError) as error:
        return [{**identity_of(fit), UNAVAILABLE: str(error)} for fit in fits]
    except (Exception, SystemExit) as error:  # a function of a spec may fail in any way
        return [{**identity_of(fit), UNAVAILABLE: f"its source fails with {reason_of(error)}"} for fit in fits]
    class_of(fits[0].method.use, fits[0].folder)  # imports are no part of a fit's time
    start = time.perf_counter()
    try:
        models = _fitted(fits, dataset, device)
        seconds = time.perf_counter() - start
        shares = [len(model.objectives_) for model in models] if len(fits) > 1 else [1]
        return [
            _row(fit, dataset, model, seconds * share / sum(shares), len(fits))
            for fit, model, share in zip(fits, models, shares, strict=True)
        ]
    except (Exception, SystemExit) as error:  # a method may fail in any way; the row says how
        if len(fits) > 1:
            half = len(fits) // 2
            return _run_group(fits[:half], device) + _run_group(fits[half:], device)
        return [failure(fits[0], reason_of(error), time.perf_counter() - start)]


def failure(fit: Fit, reason: str, seconds: float) -> dict[str, Any]:
    """Return the row of a fit that failed."""
    return {**identity_of(fit), "failed": reason, "seconds": round(seconds, 3)}


def _fitted(fits: Sequence[Fit], dataset: Dataset, device: str) -> list[Any]:
    models = [new_model(fit, n_classes_of(dataset), device) for fit in fits]
    masks = [mask_of(fit, dataset) for fit in fits]
    if len(fits) > 1:
        from acova.estimators import fit_many

        fit_many(models, dataset.views, masks)
        return models
    model, mask = models[0], masks[0]
    if is_ours(class_of(fits[0].method.use, fits[0].folder)):
        return [model.fit(dataset.views, observed=mask)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what foreign methods warn of is theirs
        model.labels_ = np.asarray(model.fit_predict(foreign_input(dataset, mask, fits[0].method.scale)))
    return [model]


def _row(fit: Fit, dataset: Dataset, model: Any, seconds: float, together: int) -> dict[str, Any]:
    classes = classes_of(dataset)
    labels = model.oracle_labels(classes) if fit.method.labels == "oracle" else model.labels_
    history = getattr(model, "history_", ())
    known = has_class(classes)
    from acova.bench.calibration import result_of

    records = {name: record_of(name, model, dataset, mask_of(fit, dataset), labels) for name in fit.record}
    return {
        **identity_of(fit),
        **clustering_scores(classes[known], np.asarray(labels)[known]),
        "seconds": round(seconds, 3),
        "together": together,
        "epochs": len(history),
        "guards": guards_of(model),
        "device": device_of(model),
        "params": _parameters_of(model),
        "records": {**records, "result": result_of(model, classes)},
    }


def _parameters_of(model: Any) -> dict[str, Any]:
    """Return the settings of a model as they were given, by flat names."""
    if hasattr(model, "get_settings"):
        return dict(model.get_settings())
    return dict(model.get_params()) if hasattr(model, "get_params") else {}
