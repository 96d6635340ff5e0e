"""Small, narrow data that everybody has: tables of scikit-learn cut into views."""

from typing import Any

import numpy as np
from sklearn import datasets

Data = tuple[dict[str, np.ndarray], np.ndarray]


def iris() -> Data:
    """Return 150 flowers of 3 kinds: two measures of the sepal, two of the petal."""
    return _cut(datasets.load_iris(), {"sepal": slice(0, 2), "petal": slice(2, 4)})


def wine() -> Data:
    """Return 178 wines of 3 growers: 4, 5 and 4 of their 13 chemical measures."""
    return _cut(datasets.load_wine(), {"first": slice(0, 4), "second": slice(4, 9), "third": slice(9, 13)})


def cancer() -> Data:
    """Return 569 tumours of 2 kinds: mean, error and worst value of ten measures."""
    views = {"mean": slice(0, 10), "error": slice(10, 20), "worst": slice(20, 30)}
    return _cut(datasets.load_breast_cancer(), views)


def _cut(table: Any, views: dict[str, slice]) -> Data:
    return {name: table.data[:, columns] for name, columns in views.items()}, table.target
