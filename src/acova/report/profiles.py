"""Which features set a cluster apart."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from acova.data import Summary
from acova.data.profiles import effects

LEAST_ROWS = 3
"""Samples that must have a view, inside the cluster and outside, before its features are compared."""


@dataclass(frozen=True)
class Feature:
    """A feature of a view, in one cluster.

    Attributes
    ----------
    name : str
    effect : float
        Mean inside less mean outside, in standard deviations within the two groups.
    inside, outside : float
        The means, in the units of the data.
    """

    name: str
    effect: float
    inside: float
    outside: float


@dataclass(frozen=True)
class Profile:
    """What sets a cluster apart in one view: its features by size of the effect; none where few samples have it."""

    view: str
    rows: int
    features: list[Feature]


def cluster_profiles(model: Any, top: int) -> list[list[Profile]]:
    """Return, for every cluster, its profile in every view, with the `top` features."""
    summary: Summary = model.summary_
    profiles: list[list[Profile]] = [[] for _ in summary.rows]
    for v, view in enumerate(model.view_names_):
        effect, inside, outside = effects(summary.rows[:, v], summary.means[v], summary.stds[v])
        names = model._columns[v] or [f"feature {i}" for i in range(model.view_sizes_[v])]
        total = summary.rows[:, v].sum()
        for cluster, rows in enumerate(summary.rows[:, v].tolist()):
            enough = min(rows, total - rows) >= LEAST_ROWS
            order = np.argsort(-np.abs(effect[cluster]), kind="stable")[:top] if enough else ()
            features = [
                Feature(str(names[i]), *(float(table[cluster, i]) for table in (effect, inside, outside)))
                for i in order
                if effect[cluster, i]
            ]
            profiles[cluster].append(Profile(view, rows, features))
    return profiles
