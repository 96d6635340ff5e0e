"""Trains any network, many runs at once: phases, mini-batches, optimiser steps. It knows no model."""

from acova.engine.loop import EpochReport, ParameterGroup, Phase, train
from acova.engine.runs import RunData, Runs
from acova.engine.runtime import draw_noise, matmul_precision, resolve_device, runs_that_fit, seeded

__all__ = [
    "EpochReport",
    "ParameterGroup",
    "Phase",
    "RunData",
    "Runs",
    "draw_noise",
    "matmul_precision",
    "resolve_device",
    "runs_that_fit",
    "seeded",
    "train",
]
