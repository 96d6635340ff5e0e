"""The methods of a benchmark: found by their names, and made with their settings."""

import inspect
from collections.abc import Mapping
from functools import cache
from inspect import Parameter
from typing import Any

from acova.base import AcovaError, OptionError
from acova.base.errors import near_miss
from acova.bench.entries import DataSpec, Fit, MethodSpec
from acova.bench.imports import absence_of, imported

_BASE = ("acova.estimators._base", "MultiViewClusterer")
"""Module and name of the base of the library's methods."""


def class_of(use: str, folder: str = "") -> Any:
    """Return the class that a spec means: of the library, of an entry point, or ``module:Class``.

    The last of these imports the module, which runs its code.
    """
    if ":" in use:  # before the library's methods: a foreign one need not wait for torch
        return imported(use, folder)
    from acova.estimators.registry import ENTRY_POINTS, METHODS, load_registered, registered

    known = {name.lower(): name for name in METHODS}
    name = known.get(use.lower())
    if name is not None:  # an entry point may lead to any class with fit_predict
        return load_registered(name) if name in registered() else METHODS[name]
    msg = (
        f"method {use!r} is not in this version of acova, nor an entry point of the group {ENTRY_POINTS!r}; "
        f"a class of your own is named module:Class.{near_miss(use, METHODS)}"
    )
    raise OptionError(msg)


def is_ours(cls: Any) -> bool:
    """Whether a class is one of the library's methods, or derived from one.

    Their base is known by its name: to import it would load torch for foreign methods, which may not need it.
    """
    return any((base.__module__, base.__name__) == _BASE for base in getattr(cls, "__mro__", ()))


def trains(fit: Fit) -> bool:
    """Whether a fit's method trains a network of the library."""
    cls = class_of(fit.method.use, fit.folder)
    if not is_ours(cls):
        return False
    from acova.estimators._deep import DeepClusterer

    return issubclass(cls, DeepClusterer)


# --- settings -----------------------------------------------------------------------------------


def parameters_of(cls: Any) -> Mapping[str, Parameter]:
    """Return the settings that a class takes: all flat names of a method of the library, else keywords."""
    if not is_ours(cls):
        return inspect.signature(cls).parameters
    from acova.estimators._settings import setting_parameters

    return setting_parameters(cls)


def setting_names(method: MethodSpec, folder: str = "") -> tuple[str, ...]:
    """Return the settings that a method takes; none if there is no such method."""
    try:
        return tuple(parameters_of(class_of(method.use, folder)))
    except (AcovaError, ValueError):
        return ()


@cache
def _class_by_name(use: str) -> Any:
    """Return the class of the library or of an entry point, None for another or for none."""
    try:
        return class_of(use) if ":" not in use else None
    except OptionError:
        return None


def preset_of(method: MethodSpec, data: DataSpec) -> dict[str, Any]:
    """Return a method's settings for a data set, if it has any."""
    presets = getattr(_class_by_name(method.use), "presets", None) if method.preset else None
    return dict((presets or {}).get(data.source, {}))


def settings_of(method: MethodSpec, data: DataSpec) -> dict[str, Any]:
    """Return a method's settings for a data set: preset < the spec's settings < those for this data set alone."""
    return {**preset_of(method, data), **method.settings, **method.on.get(data.name, {})}


def recipe_of(method: MethodSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the recipe of one of the library's methods fills in."""
    cls = _class_by_name(method.use)
    if cls is None:
        return {}
    from acova.estimators.recipes import recipe_values

    return recipe_values(cls, settings)


def new_model(fit: Fit, n_classes: int, device: str) -> Any:
    """Return the estimator of a fit; seed, clusters and device where it takes them."""
    cls = class_of(fit.method.use, fit.folder)
    known = parameters_of(cls)
    free = {"n_clusters": n_classes, "random_state": fit.run, "device": device}
    settings = {name: value for name, value in free.items() if name in known}
    settings |= settings_of(fit.method, fit.data)
    return cls.from_settings(**settings) if is_ours(cls) else cls(**settings)


def problem_of_method(method: MethodSpec, folder: str = "", *, imports: bool = True) -> str:
    """Say why a method cannot take part, or return an empty string.

    Parameters
    ----------
    method : MethodSpec
    folder : str
        Where modules of a spec lie.
    imports : bool, default: True
        Whether ``module:Class`` is imported, which runs the code of the module. Otherwise it is only looked for.
    """
    if ":" in method.use and not imports:
        return absence_of(method.use, folder)
    try:
        _check_settings(method, class_of(method.use, folder))
    except AcovaError as error:
        return str(error)
    return ""


def _check_settings(method: MethodSpec, cls: Any) -> None:
    """Raise `OptionError` if a method does not take the settings of a spec."""
    try:
        parameters = parameters_of(cls)
    except (TypeError, ValueError):  # classes written in C may not tell
        return
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return
    for name in {key for table in (method.settings, *method.on.values()) for key in table}:
        if name not in parameters:
            msg = f"{method.use} has no setting {name!r}; it has {', '.join(parameters)}.{near_miss(name, parameters)}"
            raise OptionError(msg)
