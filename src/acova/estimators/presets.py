"""What the recipes mean, and the paper's settings per data set: its hyper-parameter table, else its program."""

from typing import Any

RECIPES: dict[str, dict[str, Any]] = {
    "paper": {
        "warmup_epochs": 0,
        "cluster_start": "codes",
        "balance": False,
        "neighbor_weight": 0.0,
        "assignment": "draw",
    },
    "robust": {
        "warmup_epochs": 100,
        "cluster_start": "fused",
        "balance": True,
        "neighbor_weight": 0.0,
        "assignment": "draw",
    },
}
"""Settings left at None take these values."""

PRESETS: dict[str, dict[str, Any]] = {
    "handwritten": {
        "n_clusters": 10,
        "alpha": 15.0,
        "learning_rate": 3e-4,
        "prior_learning_rate": 1e-2,
        "learning_rate_decay": 0.9 ** (1 / 50),
    },
    "caltech5v": {
        "n_clusters": 7,
        "latent_dim": 15,
        "alpha": 5.0,
        "prior_learning_rate": 1e-1,
        "learning_rate_decay": 0.95 ** (1 / 20),
        "standardize": "range",
    },
    "scene15": {"n_clusters": 15, "alpha": 20.0, "learning_rate_decay": 0.9 ** (1 / 20)},
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
