"""What the recipes mean, and the paper's settings per data set: its hyper-parameter table, else its program."""

import math
from collections.abc import Callable, Mapping
from inspect import signature
from typing import Any

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
        "view_weights": "agreement",
        "n_init": "auto",
        "consensus": True,
    },
}
"""Settings left at None take these values."""
OTHERWISE: dict[str, Any] = {"view_weights": "equal", "n_init": 1, "consensus": False}
"""What settings left at None are where a recipe does not say."""


def recipe_values(method: type, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a recipe fills in for a method's keywords; an ingredient that it leaves out is not told of."""
    known = signature(method).parameters
    if "recipe" not in known:
        return {}
    values = {name: parameter.default for name, parameter in known.items()} | dict(given)
    recipe = RECIPES.get(values["recipe"], {})
    return {name: value for name, value in recipe.items() if value and name in known and values[name] is None}


_FEW_SAMPLES, _NARROW_UP_TO, _SOME_SAMPLES, _MANY_SAMPLES = 2_000, 3_000, 5_000, 20_000


def auto_widths(n_samples: int) -> tuple[int, ...]:
    """Return the widths that ``hidden="auto"`` stands for: few samples need no wide network."""
    return (64, 64, 256) if n_samples <= _NARROW_UP_TO else (256, 256, 1024)


def auto_neighbor_weight(n_samples: int) -> float:
    """Return what ``neighbor_weight="auto"`` stands for: few samples need their neighbours, many do without."""
    return 0.5 * min(1.0, _FEW_SAMPLES / n_samples) ** 2 if n_samples <= _MANY_SAMPLES else 0.0


def auto_runs(n_samples: int) -> int:
    """Return how many runs ``n_init="auto"`` stands for: 5 up to 5,000 samples, 3 up to 20,000, else one."""
    return 5 if n_samples <= _SOME_SAMPLES else 3 if n_samples <= _MANY_SAMPLES else 1


def epochs_for(epochs: int, n_samples: int) -> int:
    """Return how many epochs the robust recipe takes: above 2,000 samples fewer by the fourth root of their number."""
    return max(1, round(epochs * math.pow(min(1.0, _FEW_SAMPLES / n_samples), 0.25)))


def rate_for(rate: float, n_samples: int) -> float:
    """Return the learning rate that the robust recipe takes: half of it for the narrow networks of few samples."""
    return rate / 2 if n_samples <= _NARROW_UP_TO else rate


BY_SIZE: dict[str, Callable[[Any, int], Any]] = {
    "pretrain_epochs": epochs_for,
    "warmup_epochs": epochs_for,
    "epochs": epochs_for,
    "learning_rate": rate_for,
}
"""Settings that the robust recipe suits to the number of samples where they are left to it."""


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
