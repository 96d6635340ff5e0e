"""Settings per data set of the methods ACOVA is compared with.

"published" is what the method's authors configure; "ours" is our choice where they configure nothing. `docs/methods.md`
tells them apart in words.
"""

from typing import Any

CLUSTERS = {"handwritten": 10, "caltech5v": 7, "scene15": 15, "fashion": 10, "noisymnist": 10, "cub": 10}

# The papers do not say how the simple baselines scale their views: ours is how the paper's program scales its data.
SHALLOW: dict[str, dict[str, Any]] = {
    "handwritten": {"n_clusters": 10},
    "caltech5v": {"n_clusters": 7, "standardize": "range"},
    "scene15": {"n_clusters": 15},
    "fashion": {"n_clusters": 10, "standardize": "range"},
    "noisymnist": {"n_clusters": 10, "standardize": False},
    "cub": {"n_clusters": 10, "standardize": False},
}
KNN: dict[str, dict[str, Any]] = {name: {"n_clusters": count} for name, count in CLUSTERS.items()}  # ours
