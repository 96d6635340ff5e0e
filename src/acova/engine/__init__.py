"""Trains any network, many runs at once: phases, mini-batches, optimiser steps. It knows no model."""

from acova.engine.data import Reader, RunData, StreamedData, batch_sizes, fill_noise
from acova.engine.distributed import ALONE, Processes, job_processes
from acova.engine.parallel import multiplications, single_threaded, threads, threads_for
from acova.engine.runs import Runs
from acova.engine.runtime import (
    computation,
    freed_memory_kept,
    generator,
    gpu_for_training,
    network_dtype,
    resolve_device,
    runs_that_fit,
)
from acova.engine.state import Keeper, Terminated, read_state
from acova.engine.strata import StratifiedData
from acova.engine.trainer import EpochReport, ParameterGroup, Phase, Trainer

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
    "computation",
    "fill_noise",
    "freed_memory_kept",
    "generator",
    "gpu_for_training",
    "job_processes",
    "multiplications",
    "network_dtype",
    "read_state",
    "resolve_device",
    "runs_that_fit",
    "single_threaded",
    "threads",
    "threads_for",
]
