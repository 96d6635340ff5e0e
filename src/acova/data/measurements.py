"""What the numbers of a view look like: counts, shares or categories."""

import numpy as np

from acova.data.categories import block_sizes
from acova.data.features import Features, features_of
from acova.data.views import Views

SUITED = {"counts": "negative_binomial", "shares": "beta", "categories": "categorical"}
"""The likelihood that is made for each."""
_MANY = 10
"""A count that is at least this large tells counts from grades and the like."""
_WITHIN = 0.9
"""Share of the features whose mean is inside (0, 1), for shares."""


def measurements_of(views: Views) -> list[str]:
    """Return ``"counts"``, ``"shares"``, ``"categories"`` or, for other numbers, ``""`` for each view."""
    of_views = zip(features_of(views), views.categories, strict=True)
    return [measurement_of(features, block_sizes(categories, len(features.low))) for features, categories in of_views]


def measurement_of(features: Features, blocks: tuple[int, ...]) -> str:
    """Return the same for a view with these features, and blocks of columns where it holds categories alone."""
    if blocks:
        return "categories"
    low, high = features.low.min(), features.high.max()
    if not (0 <= low <= high < np.inf) or len(features.low) < 2:
        return ""
    if features.whole.all():
        # Zeros and ones, pixels and ratings are whole numbers on a common scale.
        return "counts" if low == 0 and high >= _MANY and not features.share_a_scale() else ""
    means = features.moments.mean_
    return "shares" if high <= 1 and ((means > 0) & (means < 1) & ~features.whole).mean() >= _WITHIN else ""
