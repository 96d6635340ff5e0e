"""scikit-learn's own checks of an estimator, for every method: on one view, and on two cut from one array."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from acova.estimators import list_methods
from acova.estimators.registry import METHODS

TINY = {
    **{"n_clusters": 3, "hidden": (8,), "latent_dim": 3, "feature_dim": 3, "n_init": 1},
    **{"pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 1},
    **{"imputer_epochs": 1, "initial_epochs": 1, "iterations": 1},
}
_JOINT = {
    **{"hidden": (32,), "latent_dim": 4, "batch_size": 32, "learning_rate": 5e-3},
    **{"pretrain_epochs": 10, "warmup_epochs": 40, "epochs": 10},
}
_CONTRAST = {
    **{"hidden": (32,), "latent_dim": 16, "feature_dim": 16, "standardize": True},
    **{"learning_rate": 1e-2, "pretrain_learning_rate": 1e-2},
    **{"imputer_epochs": 5, "initial_epochs": 3, "pretrain_epochs": 10, "iterations": 60},
}
LONG_ENOUGH = {**dict.fromkeys(("ACOVA", "CoDE", "MoE", "WeightedFusion"), _JOINT), "DSIMVC": _CONTRAST}
"""One check asks for the clusters of blobs, which these methods do not find in one epoch."""
ONE_VIEW = ("ACOVA", "BSV")

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class _TwoViews:
    """Cuts whatever table comes into two views, as ``view_sizes`` does for a table of known width."""

    def _views_of(self, X, observed, *, reset):
        shape = np.asarray(X).shape
        if len(shape) == 2 and shape[1] > 1:
            self.view_sizes = (shape[1] // 2, shape[1] - shape[1] // 2)
        try:
            return super()._views_of(X, observed, reset=reset)
        finally:
            self.view_sizes = None


for _name in list_methods():  # in this module's name space, where pickle looks for them
    globals()[f"TwoViews{_name}"] = type(f"TwoViews{_name}", (_TwoViews, METHODS[_name]), {"__module__": __name__})


def _known(estimator, settings):
    return {option: value for option, value in settings.items() if option in estimator.get_params()}


def _estimators():
    classes = [globals()[f"TwoViews{name}"] for name in list_methods()] + [METHODS[name] for name in ONE_VIEW]
    return [cls(**_known(cls(), TINY)) for cls in classes]


def _excused(estimator):
    if not isinstance(estimator, _TwoViews):
        return {}
    excused = {"check_estimators_nan_inf": "a view of one column that is NaN is a missing view, which is allowed"}
    if "DSIMVC" in type(estimator).__name__:
        excused["check_fit2d_1feature"] = "one feature cannot be cut into the two views that DSIMVC needs"
    return excused


@parametrize_with_checks(_estimators(), expected_failed_checks=_excused)
def test_is_a_scikit_learn_estimator(estimator, check):
    if check.func.__name__ == "check_clustering":
        estimator.set_params(**LONG_ENOUGH.get(type(estimator).__name__.removeprefix("TwoViews"), {}))
    check(estimator)
