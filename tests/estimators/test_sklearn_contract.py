"""scikit-learn's own checks of an estimator, for every method: on one view, and on two cut from one array."""

import numpy as np
import pytest
from quick import QUICK, TINY, fewest_views, known
from sklearn.utils.estimator_checks import parametrize_with_checks

from acova.estimators import list_methods
from acova.estimators.registry import METHODS

NOT_GIVEN = ("random_state", "batch_size")
"""Settings of `TINY` that these checks choose themselves or leave alone."""
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


def _name(estimator):
    return type(estimator).__name__.removeprefix("TwoViews")


def _estimators():
    names = {globals()[f"TwoViews{name}"]: name for name in list_methods()}
    names |= {METHODS[name]: name for name in ONE_VIEW}
    tiny = {option: value for option, value in TINY.items() if option not in NOT_GIVEN}
    return [cls.from_settings(3, **known(name, tiny)) for cls, name in names.items()]


def _excused(estimator):
    if not isinstance(estimator, _TwoViews):
        return {}
    if fewest_views(_name(estimator)) > 1:
        return {"check_fit2d_1feature": "one feature cannot be cut into the two views that the method needs"}
    return {}


@parametrize_with_checks(_estimators(), expected_failed_checks=_excused)
def test_is_a_scikit_learn_estimator(estimator, check):
    if check.func.__name__ == "check_clustering":  # asks for the clusters of blobs, which take more than an epoch
        estimator = type(estimator).from_settings(3, **known(_name(estimator), QUICK))
    check(estimator)
