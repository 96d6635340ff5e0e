"""scikit-learn estimators for incomplete multi-view clustering."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acova.clustering.survival import Survival
    from acova.compared.cpspan import CPSPAN
    from acova.compared.dcp import DCP
    from acova.compared.dsimvc import DSIMVC
    from acova.compared.dvimc import DVIMC
    from acova.compared.mvp import MVP
    from acova.compared.pmimc import PMIMC
    from acova.estimators._base import MultiViewClusterer
    from acova.estimators._comparison import ClusterComparison
    from acova.estimators._deep import DeepClusterer
    from acova.estimators._explanation import Explanation
    from acova.estimators._settings import Training
    from acova.estimators._tables import TableClusterer
    from acova.estimators.acova import ACOVA
    from acova.estimators.agreement_graph import AgreementGraph
    from acova.estimators.code import CoDE
    from acova.estimators.kmeans import BSV, Concat, KNNImpute
    from acova.estimators.many import fit_many
    from acova.estimators.recipes import PRESETS, RECIPES
    from acova.estimators.registry import list_methods, load_method, make_method, method_class
    from acova.estimators.selection import ClusterNumbers, select_n_clusters
    from acova.estimators.variants import MoE, WeightedFusion

__all__ = [
    "ACOVA",
    "BSV",
    "CPSPAN",
    "DCP",
    "DSIMVC",
    "DVIMC",
    "MVP",
    "PMIMC",
    "PRESETS",
    "RECIPES",
    "AgreementGraph",
    "ClusterComparison",
    "ClusterNumbers",
    "CoDE",
    "Concat",
    "DeepClusterer",
    "Explanation",
    "KNNImpute",
    "MoE",
    "MultiViewClusterer",
    "Survival",
    "TableClusterer",
    "Training",
    "WeightedFusion",
    "fit_many",
    "list_methods",
    "load_method",
    "make_method",
    "method_class",
    "select_n_clusters",
]

_HOMES = {
    "ClusterComparison": "acova.estimators._comparison",
    "DeepClusterer": "acova.estimators._deep",
    "Explanation": "acova.estimators._explanation",
    "MultiViewClusterer": "acova.estimators._base",
    "Survival": "acova.clustering.survival",
    "TableClusterer": "acova.estimators._tables",
    "Training": "acova.estimators._settings",
    "fit_many": "acova.estimators.many",
    **dict.fromkeys(("ClusterNumbers", "select_n_clusters"), "acova.estimators.selection"),
    **dict.fromkeys(("PRESETS", "RECIPES"), "acova.estimators.recipes"),
    **dict.fromkeys(("list_methods", "load_method", "make_method", "method_class"), "acova.estimators.registry"),
}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use (PEP 562)."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    methods = import_module("acova.estimators.registry").HOMES
    if name in methods:
        return getattr(import_module(methods[name]), name)
    msg = f"module 'acova.estimators' has no attribute {name!r}"
    raise AttributeError(msg)


def __dir__() -> list[str]:
    return sorted({*__all__, *import_module("acova.estimators.registry").HOMES})
