"""Modules: parameters and shapes. They draw no random numbers; noise is an argument."""

from acova.networks.correlated_fusion import CorrelatedFusion
from acova.networks.mixture_prior import MixturePrior
from acova.networks.multiview_vae import MultiViewVAE
from acova.networks.perceptrons import Perceptrons

__all__ = [
    "CorrelatedFusion",
    "MixturePrior",
    "MultiViewVAE",
    "Perceptrons",
]
