"""Modules: parameters and shapes. They draw no random numbers; noise is an argument."""

from acova.networks.aligned import AlignedAutoencoders, PrototypeAlignment, PrototypeMatching
from acova.networks.cyclic_vae import CyclicVAE
from acova.networks.dual_prediction import DualPrediction
from acova.networks.mixture_prior import MixturePrior
from acova.networks.multiview_vae import MultiViewVAE
from acova.networks.perceptrons import Perceptrons
from acova.networks.safe_contrast import SafeContrast

__all__ = [
    "AlignedAutoencoders",
    "CyclicVAE",
    "DualPrediction",
    "MixturePrior",
    "MultiViewVAE",
    "Perceptrons",
    "PrototypeAlignment",
    "PrototypeMatching",
    "SafeContrast",
]
