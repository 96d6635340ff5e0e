"""How sure a consensus should be: as sure as its runs are of one another."""

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import brentq

from acova.base import Streams
from acova.data import Scaling, StoredViews, Views
from acova.engine.runtime import computation
from acova.training.consensus import Ensemble
from acova.training.inference import CHUNK, batch_of, device_of
from acova.training.influence import spread_samples
from acova.training.job import Settings

ONE_RUN = 5.0
"""Temperature of a single run, which nothing can be compared with."""
_COLDEST, _HOTTEST = 0.05, 200.0
_COMPARED = 2_000
"""Samples that runs are compared on, evenly spread where there are more."""


def starting_temperature(settings: Settings) -> float:
    """Return the temperature that a network is built with; `temperature_of` replaces it where it is ``"auto"``."""
    temperature = settings.get("temperature", 1.0)
    return ONE_RUN if temperature == "auto" else float(temperature)


def tempered(
    ensemble: Ensemble, settings: Settings, scaling: Scaling, views: Views | StoredViews, streams: Streams
) -> Settings:
    """Give the networks the temperature that ``"auto"`` stands for; return the settings with it."""
    if settings.get("temperature", 1.0) != "auto":
        return settings
    several = len(ensemble.networks) > 1
    temperature = temperature_of(ensemble, scaling, views, streams) if several else ONE_RUN
    for network in ensemble.networks:
        network.temperature = temperature
    return settings.replaced(temperature=temperature)


def temperature_of(ensemble: Ensemble, scaling: Scaling, views: Views | StoredViews, streams: Streams) -> float:
    """Return the temperature at which the mean confidence is the share of labels that another run confirms.

    A run confirms the label that the other runs give a sample together if it gives the same without one of the sample's
    views, drawn at random. So a confidence of 0.8 says: four times of five the label would be the same, had the network
    been trained again and the sample been measured a little less. Known classes have no part in it.

    Parameters
    ----------
    ensemble : Ensemble
        Of at least two runs.
    scaling : Scaling
    views : Views or StoredViews
        The training samples.
    streams : Streams
        Which views are left out.
    """
    some, _ = spread_samples(views, _COMPARED)
    whole = _log_shares(ensemble, scaling, some)
    fewer = _log_shares(ensemble, scaling, some.hide(without_one(some.observed, streams)))
    target = confirmed(whole, fewer)

    def excess(log_temperature: float) -> float:
        return mean_confidence(whole, float(np.exp(log_temperature))) - target

    low, high = np.log(_COLDEST), np.log(_HOTTEST)
    if excess(low) <= 0:
        return _COLDEST
    return _HOTTEST if excess(high) >= 0 else float(np.exp(brentq(excess, low, high, xtol=1e-4)))


def without_one(observed: NDArray[np.bool_], streams: Streams) -> NDArray[np.bool_]:
    """Return which views (n, V) are left when every sample that has several lacks one more, drawn at random."""
    draws = np.where(observed, streams.numpy("left out").random(observed.shape), -1.0)
    left = observed.copy()
    left[np.arange(len(left)), draws.argmax(axis=1)] = False
    alone = observed.sum(axis=1) == 1
    left[alone] = observed[alone]
    return left


def confirmed(whole: NDArray[np.float64], fewer: NDArray[np.float64]) -> float:
    """Return the share of labels of all runs but one that this one gives, too, from fewer views.

    Parameters
    ----------
    whole, fewer : arrays of shape (R, n, K)
        Log probabilities of the clusters, matched between the runs.
    """
    shares = np.exp(whole)
    others = (shares.sum(axis=0) - shares).argmax(axis=-1)
    return float((fewer.argmax(axis=-1) == others).mean())


def mean_confidence(log_shares: NDArray[np.float64], temperature: float) -> float:
    """Return the mean over samples of the largest probability, averaged over runs, at a temperature."""
    logits = log_shares / temperature
    shares = np.exp(logits - logits.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return float(shares.mean(axis=0).max(axis=-1).mean())


def _log_shares(ensemble: Ensemble, scaling: Scaling, views: Views) -> NDArray[np.float64]:
    """Return every run's log probabilities of the clusters at the posterior mean, (R, n, K), matched between runs."""
    parts = []
    with computation(), torch.no_grad():
        for start in range(0, len(views), CHUNK):
            batch = batch_of(views.read(start, start + CHUNK), scaling, device_of(ensemble.network))
            latents = [network.posterior(batch.views, batch.observed).mean for network in ensemble.networks]
            logs = [network.log_shares(z) for network, z in zip(ensemble.networks, latents, strict=True)]
            matched = [of_run[:, order] for of_run, order in zip(logs, ensemble.orders, strict=True)]
            parts.append(torch.stack(matched).double().cpu().numpy())
    return np.concatenate(parts, axis=1)
