"""Trains any network, many runs at once: phases, mini-batches, optimiser steps. It knows no model."""

from acova.engine.data import Reader, RunData, StreamedData, batch_sizes, fill_noise
from acova.engine.keeper import Keeper, Terminated, read_state
from acova.engine.loop import EpochReport, ParameterGroup, Phase, Trainer
from acova.engine.processes import ALONE, Processes, job_processes
from acova.engine.runs import Runs
from acova.engine.runtime import (
    freed_memory_kept,
    matmul_precision,
    network_dtype,
    resolve_device,
    runs_that_fit,
    seeded,
)
from acova.engine.strata import StratifiedData

__all__ = [
    "ALONE",
    "EpochReport",
    "Keeper",
    "ParameterGroup",
    "Phase",
    "Processes",
    "Reader",
    "RunData",
    "Runs",
    "StratifiedData",
    "StreamedData",
    "Terminated",
    "Trainer",
    "batch_sizes",
    "fill_noise",
    "freed_memory_kept",
    "job_processes",
    "matmul_precision",
    "network_dtype",
    "read_state",
    "resolve_device",
    "runs_that_fit",
    "seeded",
]
