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

_DVIMC_OURS = {"alpha": 15.0, "learning_rate": 3e-4, "prior_learning_rate": 1e-2}  # ACOVA's row of the paper's table
DVIMC_PRESETS: dict[str, dict[str, Any]] = {
    "handwritten": {"n_clusters": 10, **_DVIMC_OURS},  # ours: the authors do not configure it
    "caltech5v": {"n_clusters": 7, "alpha": 5.0, "standardize": "range"},
    "scene15": {"n_clusters": 15, "alpha": 20.0},
    "fashion": {"n_clusters": 10, "likelihood": "bernoulli", "standardize": "unit_view"},
    "noisymnist": {"n_clusters": 10, "likelihood": "bernoulli", "standardize": False, "batch_size": 512},
    "cub": {"n_clusters": 10, "alpha": 60.0, "standardize": False},  # ours
}

_MVP_OURS: dict[str, Any] = {"hidden": (512, 512, 2048), "warmup_epochs": 30, "epochs": 30, "output": "sigmoid"}
MVP_PRESETS: dict[str, dict[str, Any]] = {
    # The authors widen the layers of two views and narrow those of one; ours are the same for all views.
    "handwritten": {
        "n_clusters": 10,
        "epochs": 50,
        "likelihood": "laplace",
        "reconstruction_weight": 2.5,
        "permutation_weight": 2.0,
    },
    "caltech5v": {"n_clusters": 7, "hidden": (512, 512, 2048), "reconstruction_weight": 5.0},  # ours
    "scene15": {"n_clusters": 15, "hidden": (512, 512, 2048), "reconstruction_weight": 10.0},
    "fashion": {"n_clusters": 10, "standardize": "unit_view", **_MVP_OURS},  # ours
    "noisymnist": {"n_clusters": 10, "standardize": False, **_MVP_OURS},  # ours
    "cub": {"n_clusters": 10, "epochs": 50},
}

# Of DCP's authors: Scene15's and Caltech's forms for more than two views (Caltech101-20), and NoisyMNIST.
_DCP_THREE: dict[str, Any] = {"warmup_epochs": 100, "epochs": 200}
DCP_PRESETS: dict[str, dict[str, Any]] = {
    "handwritten": {"n_clusters": 10, **_DCP_THREE},  # ours: the authors do not configure it
    "caltech5v": {"n_clusters": 7, "learning_rate": 3e-4, "warmup_epochs": 50, "epochs": 100},
    "scene15": {"n_clusters": 15, **_DCP_THREE},
    "fashion": {"n_clusters": 10, "latent_dim": 40},  # ours
    "noisymnist": {"n_clusters": 10, "latent_dim": 40},
    "cub": {"n_clusters": 10},  # ours
}

# Of DSIMVC's authors: Multi-Fashion, the defaults for all others; NoisyMNIST takes the row of MNIST-USPS (ours).
DSIMVC_PRESETS: dict[str, dict[str, Any]] = {
    **{name: {"n_clusters": count} for name, count in CLUSTERS.items()},
    "fashion": {"n_clusters": 10, "pretrain_epochs": 200, "iterations": 300},
    "noisymnist": {"n_clusters": 10, "initial_epochs": 80},
}

# The authors of CPSPAN and of PMIMC use one setting for all data sets.
CPSPAN_PRESETS: dict[str, dict[str, Any]] = {name: {"n_clusters": count} for name, count in CLUSTERS.items()}
PMIMC_PRESETS: dict[str, dict[str, Any]] = {name: {"n_clusters": count} for name, count in CLUSTERS.items()}
