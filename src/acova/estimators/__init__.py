"""scikit-learn estimators for incomplete multi-view clustering."""

from acova.estimators.acova import ACOVA
from acova.estimators.many import fit_many
from acova.estimators.presets import PRESETS, RECIPES

__all__ = ["ACOVA", "PRESETS", "RECIPES", "fit_many"]
