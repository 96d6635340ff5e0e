"""What a display needs of an estimator."""

from typing import Any

from sklearn.utils.validation import check_is_fitted

from acova.base import OptionError


def check_has(display: str, estimator: Any, attribute: str, otherwise: str) -> None:
    """Raise an error unless an estimator is fitted and has an attribute; `otherwise` says what it lacks, and a fix."""
    check_is_fitted(estimator, "labels_")
    if not hasattr(estimator, attribute):
        msg = f"{display}: {type(estimator).__name__} {otherwise}"
        raise OptionError(msg)
