"""Incomplete multi-view clustering.

``ACOVA(n_clusters=10).fit_predict(views)`` groups samples seen through several views when any
sample may lack any of its views. Importing this package is cheap: torch is loaded with the first
estimator.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from acova.base.version import __version__

if TYPE_CHECKING:
    from acova import bench, data, estimators, functional, metrics, networks, plots, report
    from acova.base import AcovaError
    from acova.data import Views
    from acova.estimators import (
        ACOVA,
        BSV,
        CPSPAN,
        DCP,
        DSIMVC,
        DVIMC,
        MVP,
        PMIMC,
        AgreementGraph,
        CoDE,
        Concat,
        KNNImpute,
        MoE,
        Training,
        WeightedFusion,
    )
    from acova.estimators.selection import select_n_clusters

__all__ = [
    "ACOVA",
    "BSV",
    "CPSPAN",
    "DCP",
    "DSIMVC",
    "DVIMC",
    "MVP",
    "PMIMC",
    "AcovaError",
    "AgreementGraph",
    "CoDE",
    "Concat",
    "KNNImpute",
    "MoE",
    "Training",
    "Views",
    "WeightedFusion",
    "__version__",
    "bench",
    "data",
    "estimators",
    "functional",
    "metrics",
    "networks",
    "plots",
    "report",
    "select_n_clusters",
]

_HOMES = {
    "AcovaError": "acova.base",
    "Training": "acova.estimators",
    "Views": "acova.data",
    "select_n_clusters": "acova.estimators.selection",
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    methods = import_module("acova.estimators.registry").HOMES
    if name in methods:
        return getattr(import_module(methods[name]), name)
    if name in __all__:
        return import_module(f"acova.{name}")
    msg = f"module 'acova' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*__all__, *import_module("acova.estimators.registry").HOMES})
