"""What the recipes mean, and the paper's settings per data set: its hyper-parameter table, else its program."""

from collections.abc import Mapping
from typing import Any

from acova.estimators._settings import setting_parameters

_ROBUST: dict[str, Any] = {
    "hidden": "auto",
    "pretrain_epochs": 100,
    "warmup_epochs": 100,
    "epochs": 200,
    "cluster_start": "fused",
    "balance": 0.5,
    "reconstruction_scale": 1000.0,
    "neighbor_weight": "auto",
    "assignment": "draw",
    "standardize": "auto",
    "likelihood": "auto",
    "learning_rate": 2e-3,
    "prior_learning_rate": 1e-2,
}
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "hidden": (500, 500, 2000),
        "pretrain_epochs": 200,
        "warmup_epochs": 0,
        "epochs": 300,
        "cluster_start": "codes",
        "balance": False,
        "reconstruction_scale": False,
        "neighbor_weight": 0.0,
        "assignment": "draw",
        "standardize": True,
        "likelihood": "gaussian",
        "learning_rate": 1e-3,
        "prior_learning_rate": 5e-2,
    },
    "robust": _ROBUST,
    "shared": {
        **_ROBUST,
        "cluster_start": "graph",
        "final_clusters": "graph",
        "temperature": "auto",
        "view_weights": "agreement",
        "n_init": "auto",
        "consensus": True,
    },
}
"""Settings left at None take these values."""
OTHERWISE: dict[str, Any] = {
    "view_weights": "equal",
    "n_init": 1,
    "consensus": False,
    "final_clusters": "mixture",
    "temperature": 1.0,
}
"""What settings left at None are where a recipe does not say."""


def recipe_values(method: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recipe fills in for a method's keywords; an ingredient that it leaves out is not told of."""
    known = setting_parameters(method)
    if "recipe" not in known:
        return {}
    values = {name: parameter.default for name, parameter in known.items()} | dict(given)
    recipe = RECIPES.get(values["recipe"], {})
    return {name: value for name, value in recipe.items() if value and name in known and values[name] is None}


PRESETS: dict[str, dict[str, Any]] = {
    "handwritten": {
        "n_clusters": 10,
        "alpha": 15.0,
        "learning_rate": 3e-4,
        "prior_learning_rate": 1e-2,
        "learning_rate_decay": 0.9 ** (1 / 50),
        "standardize": True,
    },
    "caltech5v": {
        "n_clusters": 7,
        "latent_dim": 15,
        "alpha": 5.0,
        "prior_learning_rate": 1e-1,
        "learning_rate_decay": 0.95 ** (1 / 20),
        "standardize": "range",
    },
    "scene15": {
        "n_clusters": 15,
        "alpha": 20.0,
        "learning_rate_decay": 0.9 ** (1 / 20),
        "standardize": True,
    },
    "fashion": {
        "n_clusters": 10,
        "alpha": 20.0,
        "learning_rate_decay": 0.9 ** (1 / 20),
        "standardize": "range",
    },
    "noisymnist": {
        "n_clusters": 10,
        "batch_size": 512,
        "learning_rate_decay": 0.9 ** (1 / 20),
        "likelihood": "bernoulli",
        "standardize": False,
    },
    "cub": {
        "n_clusters": 10,
        "alpha": 60.0,
        "learning_rate": 5e-4,
        "learning_rate_decay": 0.9 ** (1 / 10),
        "standardize": False,
    },
}

CLUSTERS: dict[str, int] = {name: preset["n_clusters"] for name, preset in PRESETS.items()}
"""Number of classes of the paper's data sets."""
CLUSTERS_ONLY: dict[str, dict[str, Any]] = {name: {"n_clusters": count} for name, count in CLUSTERS.items()}
"""Presets of methods that are used with the same settings on all data sets."""
SCALED_AS_PUBLISHED: dict[str, dict[str, Any]] = {
    "handwritten": {"n_clusters": 10},
    "caltech5v": {"n_clusters": 7, "standardize": "range"},
    "scene15": {"n_clusters": 15},
    "fashion": {"n_clusters": 10, "standardize": "range"},
    "noisymnist": {"n_clusters": 10, "standardize": False},
    "cub": {"n_clusters": 10, "standardize": False},
}
"""Presets of BSV and Concat. The papers do not say how these scale the views; here, as the paper's program does."""
