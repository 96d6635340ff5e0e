"""From a job to a row: the method, the data, the fit and its scores."""

import inspect
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acova.base import AcovaError, DataError, OptionError, near_miss
from acova.bench.checks import one_line
from acova.bench.records import classes_of, guards_of, n_classes_of, record_of
from acova.bench.spec import DataSpec, Job, MethodSpec
from acova.data import Dataset, Scaling, Views, dataset_names, has_class, load_dataset, make_observed, read_views
from acova.data.datasets.catalogue import CATALOGUE, find_file
from acova.metrics import clustering_scores

ENTRY_POINTS = "acova.methods"
UNAVAILABLE = "unavailable"
"""Why there are no data: a row that is told of, and not kept."""
_PACKAGES = ("acova", "torch", "numpy", "scikit-learn")


# --- methods ------------------------------------------------------------------------------------


def method_class(use: str, folder: str = "") -> Any:
    """Return the class that a spec means: of the library, of an entry point, or ``module:Class``.

    The last of these imports the module, which runs its code.
    """
    if ":" in use:  # before the library's methods: a foreign one need not wait for torch
        return _imported(use, folder)
    from acova.estimators.registry import METHODS

    known = {name.lower(): cls for name, cls in METHODS.items()}
    if use.lower() in known:
        return known[use.lower()]
    for point in entry_points(group=ENTRY_POINTS):
        if point.name == use:
            return point.load()
    msg = (
        f"method {use!r} is not in this version of acova, nor an entry point of the group {ENTRY_POINTS!r}; "
        f"a class of your own is named module:Class.{near_miss(use, METHODS)}"
    )
    raise OptionError(msg)


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    """Let modules beside the spec be imported inside the block."""
    if not folder:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


def _imported(place: str, folder: str) -> Any:
    """Return what ``module:name`` means; this runs the code of the module."""
    module, _, name = place.partition(":")
    try:
        with _importable(folder):
            found = import_module(module)
    except ImportError as error:
        beside = "" if "." in module else f", or put {module}.py beside the spec"
        msg = f"{place!r} cannot be imported ({error}); install it{beside}."
        raise OptionError(msg) from error
    except (Exception, SystemExit) as error:  # the code of a module may fail in any way
        msg = f"{place!r} cannot be imported: its code fails with {reason_of(error)}."
        raise OptionError(msg) from error
    beside_spec = Path(folder) / f"{module}.py"
    if folder and beside_spec.exists() and not _is_file_of(found, beside_spec):
        msg = f"{place!r} means {beside_spec}, but another module {module!r} is loaded. Give the file another name."
        raise OptionError(msg)
    thing = getattr(found, name, None)
    if not callable(thing):
        msg = f"{place!r} cannot be imported: module {module!r} has no {name!r} that can be called."
        raise OptionError(msg)
    return thing


def _is_file_of(module: Any, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and os.path.realpath(file) == os.path.realpath(path)


def reason_of(error: BaseException) -> str:
    """Return class and first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {one_line(text[0])[:200] if text else ''}"


def is_ours(job: Job, kind: str = "base.MultiViewClusterer") -> bool:
    """Whether a job's method is a class of the library: any of them, or of a kind.

    A module that was never imported has no subclasses, so foreign methods do not make us import torch.
    """
    cls = method_class(job.method.use, job.folder)
    module, _, name = kind.partition(".")
    found = getattr(sys.modules.get(f"acova.estimators.{module}"), name, None)
    return found is not None and isinstance(cls, type) and issubclass(cls, found)


def keywords_of(method: MethodSpec, folder: str = "") -> tuple[str, ...]:
    """Return the keywords that a method's constructor takes; none if there is no such method."""
    try:
        return tuple(inspect.signature(method_class(method.use, folder)).parameters)
    except (AcovaError, ValueError):
        return ()


@cache
def _class_by_name(use: str) -> Any:
    """Return the class of the library or of an entry point, None for another or for none."""
    try:
        return method_class(use) if ":" not in use else None
    except OptionError:
        return None


def preset_of(method: MethodSpec, data: DataSpec) -> dict[str, Any]:
    """Return a method's settings for a data set, if it has any."""
    presets = getattr(_class_by_name(method.use), "presets", None) if method.preset else None
    return dict((presets or {}).get(data.source, {}))


def settings_of(method: MethodSpec, data: DataSpec) -> dict[str, Any]:
    """Return a method's keywords for a data set: preset < the spec's settings < those for this data set alone."""
    return {**preset_of(method, data), **method.settings, **method.on.get(data.name, {})}


def recipe_of(method: MethodSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the recipe of one of the library's methods fills in."""
    cls = _class_by_name(method.use)
    if cls is None:
        return {}
    from acova.estimators import recipe_values

    return recipe_values(cls, settings)


def new_model(job: Job, n_classes: int, device: str) -> Any:
    """Return the estimator of a job; seed, clusters and device where it takes them."""
    cls = method_class(job.method.use, job.folder)
    known = inspect.signature(cls).parameters
    free = {"n_clusters": n_classes, "random_state": job.run, "device": device}
    settings = {name: value for name, value in free.items() if name in known}
    settings |= settings_of(job.method, job.data)
    return cls(**settings)


# --- data ---------------------------------------------------------------------------------------


class _Options(dict[str, Any]):
    """Keywords by which data can be looked up again, whatever their values are."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(repr(self))


@lru_cache(maxsize=2)
def _loaded(source: str, views: tuple[str, ...], options: _Options, folder: str) -> Dataset:
    if ":" in source and not (Path(folder) / source).exists():
        made = _imported(source, folder)(**options)
        dataset = made if isinstance(made, Dataset) else Dataset(source, Views.of(made[0]), np.asarray(made[1]))
    elif source in dataset_names():
        dataset = load_dataset(source)
    elif (Path(folder) / source).exists():
        dataset = read_views(Path(folder) / source)
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


def problem_of(item: DataSpec | MethodSpec, folder: str = "", *, imports: bool = True) -> str:
    """Say why a method or data cannot take part, or return an empty string; data are not loaded for that.

    Parameters
    ----------
    item : DataSpec or MethodSpec
    folder : str
        Where modules of a spec lie.
    imports : bool, default: True
        Whether ``module:Class`` is imported, which runs the code of the module. Otherwise it is only looked for.
    """
    try:
        if isinstance(item, MethodSpec):
            if ":" in item.use and not imports:
                return _absence_of(item.use, folder)
            _check_keywords(item, method_class(item.use, folder))
        elif item.source in dataset_names() and CATALOGUE[item.source].files and find_file(item.source) is None:
            return "" if CATALOGUE[item.source].fetch else "its file is not on this machine and cannot be downloaded"
    except AcovaError as error:
        return str(error)
    except ImportError as error:  # the cache is looked for by a package that may be absent
        return f"its file is not in the folder that ACOVA_DATA names, and the cache cannot be found ({error})"
    return ""


def _absence_of(use: str, folder: str) -> str:
    """Say that the package of ``module:Class`` is not there, without running its code, or return an empty string."""
    package = use.partition(":")[0].partition(".")[0]
    beside = [Path(folder) / name for name in (f"{package}.py", package)] if folder else []
    try:
        found = find_spec(package) is not None
    except (ImportError, ValueError):
        found = False
    if found or any(path.exists() for path in beside):
        return ""
    return f"{use!r} cannot be imported (No module named {package!r}); install it."


def _check_keywords(method: MethodSpec, cls: Any) -> None:
    """Raise `OptionError` if a constructor does not take the settings of a spec."""
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):  # classes written in C may not tell
        return
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in {key for table in (method.settings, *method.on.values()) for key in table}:
        if name not in parameters:
            msg = f"{method.use} has no setting {name!r}; it has {', '.join(parameters)}.{near_miss(name, parameters)}"
            raise OptionError(msg)


def mask_of(job: Job, dataset: Dataset) -> NDArray[np.bool_]:
    """Return which views the samples of a job have."""
    views = dataset.views
    rate = job.missing / 100
    return views.observed & make_observed(len(views), views.n_views, rate, job.pattern, job.run)


def foreign_input(dataset: Dataset, observed: NDArray[np.bool_], scale: str) -> list[NDArray[np.float64]]:
    """Return what a method from elsewhere gets: one array per view, a row of NaN where the view is missing."""
    views = dataset.views.hide(observed)
    arrays: list[Any] = [array.astype(np.float64) for array in views.arrays]
    if scale != "none":
        arrays = Scaling.fit(views, ("auto" if scale == "auto" else "zscore",) * views.n_views).transform(views)
    if scale in ("balanced", "auto"):
        arrays = [array / np.sqrt(array.shape[1]) for array in arrays]
    return [np.where(observed[:, [v]], array, np.nan) for v, array in enumerate(arrays)]


# --- fitting ------------------------------------------------------------------------------------


def run_group(jobs: Sequence[Job], device: str = "auto") -> list[dict[str, Any]]:
    """Fit jobs that share their data, together if there are several, and return their rows.

    A fit that fails gives a row with the reason, and so do data that are not there. When jobs that train together
    fail, halves are tried, so that one bad run does not take the others with it.
    """
    with _importable(jobs[0].folder):  # modules beside the spec may import each other when they are called
        return _run_group(jobs, device)


def _run_group(jobs: Sequence[Job], device: str) -> list[dict[str, Any]]:
    try:
        dataset = load_data(jobs[0].data, jobs[0].folder, jobs[0].run)
    except (AcovaError, ImportError, OSError) as error:
        return [{**_identity(job), UNAVAILABLE: str(error)} for job in jobs]
    except (Exception, SystemExit) as error:  # a function of a spec may fail in any way
        return [{**_identity(job), UNAVAILABLE: f"its source fails with {reason_of(error)}"} for job in jobs]
    is_ours(jobs[0])  # imports are no part of a fit's time
    start = time.perf_counter()
    try:
        models = _fitted(jobs, dataset, device)
        seconds = time.perf_counter() - start
        shares = [len(model.objectives_) for model in models] if len(jobs) > 1 else [1]
        return [
            _row(job, dataset, model, seconds * share / sum(shares), len(jobs))
            for job, model, share in zip(jobs, models, shares, strict=True)
        ]
    except (Exception, SystemExit) as error:  # a method may fail in any way; the row says how
        if len(jobs) > 1:
            half = len(jobs) // 2
            return _run_group(jobs[:half], device) + _run_group(jobs[half:], device)
        return [failure(jobs[0], reason_of(error), time.perf_counter() - start)]


def failure(job: Job, reason: str, seconds: float) -> dict[str, Any]:
    """Return the row of a job that failed."""
    return {**_identity(job), "failed": reason, "seconds": round(seconds, 3)}


def _fitted(jobs: Sequence[Job], dataset: Dataset, device: str) -> list[Any]:
    models = [new_model(job, n_classes_of(dataset), device) for job in jobs]
    masks = [mask_of(job, dataset) for job in jobs]
    if len(jobs) > 1:
        from acova.estimators import fit_many

        fit_many(models, dataset.views, masks)
        return models
    model, mask = models[0], masks[0]
    if is_ours(jobs[0]):
        return [model.fit(dataset.views, observed=mask)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what foreign methods warn of is theirs
        model.labels_ = np.asarray(model.fit_predict(foreign_input(dataset, mask, jobs[0].method.scale)))
    return [model]


def _row(job: Job, dataset: Dataset, model: Any, seconds: float, together: int) -> dict[str, Any]:
    classes = classes_of(dataset)
    labels = model.oracle_labels(classes) if job.method.labels == "oracle" else model.labels_
    history = getattr(model, "history_", ())
    known = has_class(classes)
    return {
        **_identity(job),
        **clustering_scores(classes[known], np.asarray(labels)[known]),
        "seconds": round(seconds, 3),
        "together": together,
        "epochs": len(history),
        "guards": guards_of(model),
        "device": _device_of(model),
        "params": model.get_params() if hasattr(model, "get_params") else {},
        "records": {name: record_of(name, model, dataset, mask_of(job, dataset), labels) for name in job.record},
    }


def _identity(job: Job) -> dict[str, Any]:
    """Return what a job is and where its row comes from."""
    return {
        "key": job.key,
        "dataset": job.data.name,
        "missing_percent": job.missing,
        "pattern": job.pattern,
        "method": job.method.name,
        "run": job.run,
        "source": job.data.source,
        "views": list(job.data.views),
        "options": options_of(job.data, job.run),
        "use": job.method.use,
        "settings": settings_of(job.method, job.data),
        "scale": job.method.scale,
        "versions": {name: found for name in _PACKAGES if (found := _version(name))} | _foreign_version(job.method),
        "python": platform.python_version(),
        "commit": commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _foreign_version(method: MethodSpec) -> dict[str, str]:
    package = method.use.partition(":")[0].partition(".")[0] if ":" in method.use else ""
    found = _version(package) if package else ""
    return {package: found} if found else {}


@cache
def _version(package: str) -> str:
    from acova.base.version import __version__

    try:
        return __version__ if package == "acova" else version(package)
    except PackageNotFoundError:
        return ""


@cache
def commit() -> str:
    """Return what ACOVA_COMMIT says, else the commit of the library's checkout, marked where files differ from it."""
    if named := os.environ.get("ACOVA_COMMIT"):
        return named
    here = Path(__file__).resolve().parent
    try:
        ask = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        found = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _device_of(model: Any) -> str:
    network = getattr(model, "network_", None)
    if network is not None:
        import torch

        parameter = next(network.parameters())
        if parameter.is_cuda:
            return torch.cuda.get_device_name(parameter.device)
    return platform.processor() or platform.machine()
