"""The data of a benchmark: loaded, hidden by a mask, and scaled for methods from elsewhere."""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import AcovaError, DataError
from acova.bench.entries import DataSpec, Fit
from acova.bench.imports import imported
from acova.bench.records import classes_of
from acova.data import Dataset, Scaling, Views, dataset_names, load_dataset, make_observed, read_views
from acova.data.datasets.catalogue import CATALOGUE, find_file


class _Options(dict[str, Any]):
    """Keywords by which data can be looked up again, whatever their values are."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


@lru_cache(maxsize=2)
def _loaded(source: str, views: tuple[str, ...], options: _Options, folder: str) -> Dataset:
    if ":" in source and not (Path(folder) / source).exists():
        made = imported(source, folder)(**options)
        dataset = made if isinstance(made, Dataset) else Dataset(source, Views.of(made[0]), np.asarray(made[1]))
    elif source in dataset_names():
        dataset = load_dataset(source)
    elif (Path(folder) / source).exists():
        dataset = read_views(Path(folder) / source)
        if not isinstance(dataset.views, Views):
            msg = (
                f"{source!r}: benchmarks hold all views in memory, and these are too large when dense; choose features."
            )
            raise DataError(msg)
    else:
        msg = f"{source!r} is neither a data set of the catalogue ({', '.join(dataset_names())}) nor a file or folder."
        raise DataError(msg)
    classes_of(dataset)
    if views:
        unknown = [name for name in views if name not in dataset.views.names]
        if unknown:
            msg = f"{source!r} has no view {unknown[0]!r}; it has {', '.join(dataset.views.names)}."
            raise DataError(msg)
        chosen = {name: dataset.views.arrays[dataset.views.names.index(name)] for name in views}
        dataset = Dataset(dataset.name, Views.of(chosen), dataset.labels)
    return dataset


def load_data(data: DataSpec, folder: str = "", run: int = 0) -> Dataset:
    """Return the data of a spec for a run; the last two that were asked for stay in memory."""
    return _loaded(data.source, data.views, _Options(options_of(data, run)), folder)


def options_of(data: DataSpec, run: int) -> dict[str, Any]:
    """Return the keywords of the function that gives the data of a run."""
    seed = {data.seed: data.options.get(data.seed, 0) + run} if data.seed else {}
    return {**data.options, **seed}


def problem_of_data(data: DataSpec) -> str:
    """Say why data cannot take part, or return an empty string; they are not loaded for that."""
    if data.source not in dataset_names() or not CATALOGUE[data.source].files:
        return ""
    try:
        if find_file(data.source) is not None or CATALOGUE[data.source].fetch:
            return ""
    except AcovaError as error:
        return str(error)
    except ImportError as error:  # the cache is looked for by a package that may be absent
        return f"its file is not in the folder that ACOVA_DATA names, and the cache cannot be found ({error})"
    return "its file is not on this machine and cannot be downloaded"


def mask_of(fit: Fit, dataset: Dataset) -> NDArray[np.bool_]:
    """Return which views the samples of a fit have."""
    views = dataset.views
    rate = fit.missing / 100
    mask: NDArray[np.bool_] = views.observed & make_observed(len(views), views.n_views, rate, fit.pattern, fit.run)
    return mask


def foreign_input(dataset: Dataset, observed: NDArray[np.bool_], scale: str) -> list[NDArray[np.float64]]:
    """Return what a method from elsewhere gets: one array per view, a row of NaN where the view is missing."""
    views = dataset.views.hide(observed)
    arrays: list[Any] = [array.astype(np.float64) for array in views.arrays]
    if scale != "none":
        arrays = Scaling.fit(views, ("auto" if scale == "auto" else "zscore",) * views.n_views).transform(views)
    if scale in ("balanced", "auto"):
        arrays = [array / np.sqrt(array.shape[1]) for array in arrays]
    return [np.where(observed[:, [v]], array, np.nan) for v, array in enumerate(arrays)]
