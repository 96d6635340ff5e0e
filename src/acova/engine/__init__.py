"""Trains any network, many runs at once: phases, mini-batches, optimiser steps. It knows no model."""

from acova.engine.data import RunData, StreamedData
from acova.engine.parallel import threads
from acova.engine.phase import ParameterGroup, Phase
from acova.engine.runs import Runs
from acova.engine.runtime import generator
from acova.engine.strata import StratifiedData
from acova.engine.trainer import Trainer

__all__ = [
    "ParameterGroup",
    "Phase",
    "RunData",
    "Runs",
    "StratifiedData",
    "StreamedData",
    "Trainer",
    "generator",
    "threads",
]
