"""What the settings of an estimator become in a fit: recipes filled in, values checked."""

from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from acova.base import OptionError
from acova.base.errors import check_choice
from acova.base.seeds import draw_seed
from acova.engine.runtime import precision_for
from acova.estimators._settings import NESTED, plain, training_parameters
from acova.estimators.recipes import OTHERWISE, RECIPES
from acova.estimators.rules import check_settings, rules_of
from acova.training.checkpoint import Checkpoint
from acova.training.job import Settings
from acova.training.phases import LEARNED_CORRELATIONS

if TYPE_CHECKING:
    from acova.estimators._deep import DeepClusterer, Prepared

_NO_PART_OF_A_FIT = ("checkpoint", "checkpoint_every", "device", "random_state", "verbose")
"""Settings that may change between an interrupted fit and its continuation."""


def resolved_settings(model: "DeepClusterer") -> Settings:
    """Return every setting, those that were left to the recipe filled in as far as it does not ask for the data."""
    values = {name: plain(value) for name, value in model.get_settings().items()}
    who = type(model).__name__
    if "recipe" in values:
        check_choice(who, "recipe", values["recipe"], RECIPES)
        recipe = {**OTHERWISE, **RECIPES[values["recipe"]]}
        values |= {name: recipe[name] for name in left_open(model) if name in recipe}
    return Settings(who, {**model._fixed, **values})


def left_open(model: "DeepClusterer") -> list[str]:
    """Return the settings that were left to the recipe."""
    return [name for name, value in model.get_settings().items() if value is None]


def covariate_use_of(model: "DeepClusterer") -> str:
    """Return what a fit does with covariates; methods without the setting adjust for them."""
    use: str = resolved_settings(model).get("covariate_use", "adjust")
    return use


def checked_settings(model: "DeepClusterer") -> Settings:
    """Return every setting, or raise `OptionError` for one with a value that it cannot have."""
    settings = resolved_settings(model)
    check_settings(settings.who, settings.values, rules_of(type(model), model.setting_names()))
    _check_together(model, settings)
    return settings


def _check_together(model: "DeepClusterer", settings: Settings) -> None:
    """Raise `OptionError` where settings do not go together."""
    training = getattr(model, NESTED, None)
    for name in model._without if training is not None else ():
        value = getattr(training, name)
        if value != training_parameters()[name].default:
            msg = f"{settings.who}: training has {name}={value!r}, which says nothing here; leave it out."
            raise OptionError(msg)
    count, correlation = settings.get("n_correlations", 1), settings.get("correlation", "learned")
    if count > settings.latent_dim:
        msg = (
            f"{settings.who}: n_correlations must be at most latent_dim={settings.latent_dim}, one matrix for each "
            f"dimension; got {count}."
        )
        raise OptionError(msg)
    if count > 1 and not (isinstance(correlation, str) and correlation in LEARNED_CORRELATIONS):
        msg = (
            f"{settings.who}: n_correlations={count} counts learned matrices, but correlation={correlation!r} is "
            "not learned; leave one of them out."
        )
        raise OptionError(msg)


def seed_of(model: "DeepClusterer") -> int:
    """Return the seed of a fit; without a number given, that of the fit it continues."""
    if model.checkpoint is not None and not isinstance(model.random_state, int | np.integer):
        seed = Checkpoint(model.checkpoint, model._checkpoint_every).seed()
        if seed is not None:
            return seed
    return draw_seed(model.random_state, type(model).__name__)


def identity_of(model: "DeepClusterer", settings: Settings) -> dict[str, Any]:
    """Return the settings that an interrupted fit and its continuation must share (the seed aside)."""
    return {name: settings.values[name] for name in model.setting_names() if name not in _NO_PART_OF_A_FIT}


def settings_of_fit(
    model: "DeepClusterer", prepared: "Prepared", settings: Settings, network: nn.Module
) -> dict[str, Any]:
    """Return `settings_`: what was given, and what recipe, data and machine made of it."""
    job, values = prepared.jobs[0], settings.values
    found = {
        "likelihood": dict(zip(model.view_names_, job.likelihoods, strict=True)),
        "device": job.device.type if values.get("device") == "auto" else values.get("device"),
        "precision": precision_for(values["precision"], job.device, network),
    }
    return model._settings_of_fit({**values, **found}, prepared.scalings)
