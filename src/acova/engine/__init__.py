"""Trains any network: phases, mini-batches, optimiser steps. It knows no model."""

from acova.engine.loop import EpochReport, ParameterGroup, Phase, train
from acova.engine.runtime import draw_noise, resolve_device, seeded

__all__ = ["EpochReport", "ParameterGroup", "Phase", "draw_noise", "resolve_device", "seeded", "train"]
