"""Small, quick estimators of every registered method, and a method that another package registers."""

from contextlib import contextmanager
from pathlib import Path

import pytest

from acova.estimators import make_method
from acova.estimators._deep import DeepClusterer
from acova.estimators.registry import METHODS, registered
from conftest import SMALL

QUICK = {
    **SMALL,
    **{"latent_dim": 12, "pretrain_epochs": 20, "epochs": 20, "learning_rate": 2e-3, "pretrain_learning_rate": 3e-3},
    **{"feature_dim": 32, "imputer_epochs": 5, "initial_epochs": 20, "iterations": 150},
}
"""Settings under which every method finds separated clusters; a method takes those that it has."""
TINY = {
    **{"hidden": (8,), "latent_dim": 3, "feature_dim": 3, "batch_size": 32, "n_init": 1, "random_state": 0},
    **{"pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 1},
    **{"imputer_epochs": 1, "initial_epochs": 1, "iterations": 1},
}
"""Settings under which every method trains for a moment."""


def known(name, settings):
    """Return the settings that a method has; the restarts of k-means stay as they are, which needs all of them."""
    names = METHODS[name].setting_names()
    restarts = "n_init" in names and "consensus" not in names
    return {o: value for o, value in settings.items() if o in names and not (restarts and o == "n_init")}


def make(name, n_clusters=3, **more):
    """Return a quick estimator of a method that finds separated clusters."""
    return make_method(name, n_clusters=n_clusters, **{**known(name, QUICK), "random_state": 0, **more})


def make_tiny(name, **more):
    """Return an estimator of a method that hardly trains."""
    return make_method(name, **{"n_clusters": 3, **known(name, TINY), **more})


def trains_a_network(name):
    return issubclass(METHODS[name], DeepClusterer)


def training_of(name):
    """Return the `Method` of a method that trains a network, else None."""
    return METHODS[name].method if trains_a_network(name) else None


def reads_from_disk(name):
    return trains_a_network(name) and not training_of(name).requirements.in_memory


def fewest_views(name):
    return training_of(name).requirements.least_views if trains_a_network(name) else 1


def learns_from_complete_samples(name):
    return trains_a_network(name) and training_of(name).requirements.complete_only


def parameter_name(name, setting):
    """Return the name that scikit-learn's `set_params` has for a setting."""
    return setting if setting in METHODS[name]().get_params() else f"training__{setting}"


# --- a method of another package ----------------------------------------------------------------

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
EXAMPLE, PLACE = "AgreeingCodes", "add_a_method:AgreeingCodes"
"""The method that shows how to add one, and its place as an entry point has it."""


@contextmanager
def package(folder, **points):
    """Put a package with entry points for methods, name="module:Class", on Python's path; the examples too."""
    info = Path(folder) / "others_methods-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others-methods\nVersion: 1.0\n")
    lines = [f"{name} = {place}" for name, place in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[acova.methods]", *lines, ""]))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        patch.syspath_prepend(str(folder))
        registered.cache_clear()
        yield
    registered.cache_clear()
