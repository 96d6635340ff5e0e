"""Every method by its name."""

from pathlib import Path
from typing import Any

from acova.base import OptionError, RunFolderError, near_miss
from acova.estimators._base import MultiViewClusterer
from acova.estimators.acova import ACOVA
from acova.estimators.agreement_graph import AgreementGraph
from acova.estimators.cpspan import CPSPAN
from acova.estimators.dcp import DCP
from acova.estimators.dsimvc import DSIMVC
from acova.estimators.kmeans import BSV, Concat, KNNImpute
from acova.estimators.mvp import MVP
from acova.estimators.pmimc import PMIMC
from acova.estimators.variants import DVIMC, CoDE, MoE, WeightedFusion
from acova.training.reading import read_config

METHODS: dict[str, type[MultiViewClusterer]] = {
    method.__name__: method
    for method in (
        ACOVA,
        BSV,
        Concat,
        KNNImpute,
        AgreementGraph,
        DVIMC,
        CoDE,
        MoE,
        WeightedFusion,
        MVP,
        DCP,
        DSIMVC,
        CPSPAN,
        PMIMC,
    )
}


def list_methods() -> list[str]:
    """Return the names of all methods, as `make_method` takes them."""
    return list(METHODS)


def method_class(name: str) -> type[MultiViewClusterer]:
    """Return the class of a method; capitals do not matter."""
    known = {word.lower(): word for word in METHODS}
    if str(name).lower() in known:
        return METHODS[known[str(name).lower()]]
    msg = f"method must be one of {', '.join(METHODS)}; got {name!r}.{near_miss(str(name).lower(), known)}"
    raise OptionError(msg)


def make_method(name: str, **settings: Any) -> MultiViewClusterer:
    """Return an estimator by its method's name.

    Examples
    --------
    >>> make_method("concat", n_clusters=10)
    Concat(n_clusters=10)
    """
    return method_class(name)(**settings)


def load_method(folder: str | Path, *, device: str = "auto") -> MultiViewClusterer:
    """Read a saved model of any method."""
    name = read_config(folder).estimator
    if name not in METHODS:
        msg = f"{folder} holds a model of class {name!r}, which is no method of this version of acova."
        raise RunFolderError(msg)
    return METHODS[name].load(folder, device=device)
