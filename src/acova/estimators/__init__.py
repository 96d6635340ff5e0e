"""scikit-learn estimators for incomplete multi-view clustering."""

from acova.estimators.acova import ACOVA
from acova.estimators.agreement_graph import AgreementGraph
from acova.estimators.cpspan import CPSPAN
from acova.estimators.dcp import DCP
from acova.estimators.dsimvc import DSIMVC
from acova.estimators.kmeans import BSV, Concat, KNNImpute
from acova.estimators.many import fit_many
from acova.estimators.mvp import MVP
from acova.estimators.pmimc import PMIMC
from acova.estimators.presets import PRESETS, RECIPES, recipe_values
from acova.estimators.registry import list_methods, load_method, make_method
from acova.estimators.variants import DVIMC, CoDE, MoE, WeightedFusion

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
    "CoDE",
    "Concat",
    "KNNImpute",
    "MoE",
    "WeightedFusion",
    "fit_many",
    "list_methods",
    "load_method",
    "make_method",
    "recipe_values",
]
