"""Which runs of a fit train when and where: together on a GPU, side by side in processes on a CPU, or one by one."""

import logging
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from acova.engine import ALONE, EpochReport, Keeper, Processes, computation, multiplications, runs_that_fit
from acova.engine.parallel import thread_count, threads
from acova.engine.state import Interrupted
from acova.engine.workers import Exchange, Lent, in_worker, recorded_warnings, side_by_side, warn_again, worker_count
from acova.training.checkpoint import Checkpoint
from acova.training.phases import Job, TrainedRun, rows_of_a_step, train_together

_LOG = logging.getLogger("acova")
_WORTH_PROCESSES = 15.0
"""Estimated seconds of all runs, one after the other, from which processes are started."""
_STEP_SECONDS, _PRODUCTS_OF_A_SECOND = 0.008, 1.5e10
"""What a step costs besides its products on one thread, and multiplications of a forward pass that take a second."""


def train_runs(
    jobs: Sequence[Job],
    report: EpochReport | None = None,
    *,
    checkpoint: Checkpoint | None = None,
    processes: Processes = ALONE,
) -> list[TrainedRun]:
    """Train runs whose settings differ in nothing but learning rates, α, the correlation's values and the seed.

    On a GPU as many as fit into its memory train together. On a CPU they train side by side in processes, where that
    is worth it, or one after the other, with the same result; each skips its hidden rows. Runs that several processes
    share, and runs on data on disk, go one after the other.
    """
    done = _finished(jobs, checkpoint) if checkpoint else {}
    local = processes.size == 1 and jobs[0].read is None
    together = _runs_at_once(jobs) if local else 1
    workers = _workers(jobs, len(jobs) - len(done)) if local else 1
    while left := [number for number in range(len(jobs)) if number not in done]:
        begun = [runs for runs in checkpoint.begun() if set(runs) <= set(left)] if checkpoint else []
        chosen = begun[0] if begun else left[:together]
        if workers > 1 and len(chosen) == 1:
            found = _train_side_by_side(jobs, left, workers, report, checkpoint)
            workers = 1
        else:
            found, together = _train_here(jobs, chosen, together, report, checkpoint, processes)
        done |= found
    return [done[number] for number in range(len(jobs))]


def _finished(jobs: Sequence[Job], checkpoint: Checkpoint) -> dict[int, TrainedRun]:
    """Return the runs that an interrupted fit has finished, by their numbers."""
    done = {}
    for number, job in enumerate(jobs):
        network = job.network()
        records = checkpoint.finished(number, network)
        if records is not None:
            done[number] = TrainedRun(network, records)
    return done


# --- in this process ----------------------------------------------------------------------------


def _train_here(
    jobs: Sequence[Job],
    chosen: Sequence[int],
    together: int,
    report: EpochReport | None,
    checkpoint: Checkpoint | None,
    processes: Processes,
) -> tuple[dict[int, TrainedRun], int]:
    """Train the chosen runs as one computation; return them, and how many the next computation may have.

    Where the GPU's memory runs out, it is no run and half as many.
    """
    keeper = checkpoint.keeper(chosen) if checkpoint else Keeper()
    try:
        with keeper.interruptible():
            runs = train_together([jobs[number] for number in chosen], report, keeper, processes)
    except torch.cuda.OutOfMemoryError:
        if len(chosen) == 1:
            raise
        torch.cuda.empty_cache()
        if checkpoint:
            checkpoint.forget(chosen)
        return {}, (len(chosen) + 1) // 2
    for number, run in zip(chosen, runs, strict=True):
        if checkpoint:
            checkpoint.finish(number, run.network, run.records)
    return dict(zip(chosen, runs, strict=True)), together


def _runs_at_once(jobs: Sequence[Job]) -> int:
    first, settings = jobs[0], jobs[0].settings
    # Runs with their own data hold them twice: as they came, and stacked.
    copies = len({id(job.views) for job in jobs})
    data_bytes = sum(part.nbytes for part in (*(first.views or ()), *(first.targets or ())))
    own_bytes = data_bytes * copies // len(jobs) if copies > 1 else 0
    if len(jobs) == 1 or first.device.type != "cuda":
        return 1
    network = first.network()
    noise_bytes = 2 * 4 * math.prod(network.noise_shape) * first.n_samples  # an epoch's and the next one's
    return runs_that_fit(network, settings.batch_size, own_bytes + noise_bytes, first.device)


# --- in processes -------------------------------------------------------------------------------


def _workers(jobs: Sequence[Job], left: int) -> int:
    """Return how many processes train the runs that are left; 1 where the start of processes would not pay."""
    first = jobs[0]
    if left < 2 or first.device.type != "cpu":
        return 1
    products = multiplications(first.network(), rows_of_a_step(first))
    count = worker_count(left, thread_count(products))
    return count if count > 1 and left * _seconds(first, products) >= _WORTH_PROCESSES else 1


def _seconds(job: Job, products: int) -> float:
    """Return a rough estimate of the seconds that a run takes on one thread."""
    steps = job.settings._epochs_of_a_run() * math.ceil(job.n_samples / rows_of_a_step(job))
    return float(steps * (_STEP_SECONDS + products / _PRODUCTS_OF_A_SECOND))


def _train_side_by_side(
    jobs: Sequence[Job],
    left: Sequence[int],
    workers: int,
    report: EpochReport | None,
    checkpoint: Checkpoint | None,
) -> dict[int, TrainedRun]:
    """Train runs in processes of their own and return them by number; none where there is no room for their data."""
    count = thread_count(multiplications(jobs[0].network(), rows_of_a_step(jobs[0])))
    keeper = checkpoint.watcher() if checkpoint else Keeper()
    done: dict[int, TrainedRun] = {}
    with ExitStack() as stack:
        try:
            exchange = stack.enter_context(Exchange.opened())
            lent = _lent([jobs[number] for number in left], exchange)
        except OSError as error:
            _LOG.info("runs train one after the other: no room for their data in a temporary folder (%s)", error)
            return {}
        place = checkpoint.unlocked() if checkpoint else None
        tasks = [(exchange, *task, count, place, report is not None) for task in zip(left, lent, strict=True)]
        stack.enter_context(exchange.passed_on(report))
        stack.enter_context(keeper.interruptible(exchange.ask_to_stop))
        registry: dict[Any, Any] = {}
        try:
            for number, run, warned in side_by_side(_train_in_worker, tasks, workers):
                warn_again(warned, registry)
                if run is not None:
                    done[number] = run
        finally:
            if keeper.stop_requested and len(done) < len(left):  # also when the signal ended a worker
                keeper.end(f"stopped {len(left) - len(done)} of {len(jobs)} runs")
    return done


def _lent(jobs: Sequence[Job], exchange: Exchange) -> list[Job]:
    """Return the jobs with their tensors in files, for processes that map them into memory."""
    known: dict[int, Lent] = {}

    def lend(value: Any) -> Any:
        if isinstance(value, Tensor):
            return exchange.lent(value, known)
        is_list = isinstance(value, list) and all(isinstance(each, Tensor) for each in value)
        return [exchange.lent(each, known) for each in value] if is_list else value

    return [replace(job, **{name: lend(value) for name, value in vars(job).items()}) for job in jobs]


def _train_in_worker(
    exchange: Exchange, number: int, job: Job, count: int, checkpoint: Checkpoint | None, reports: bool
) -> tuple[int, TrainedRun | None, list[Any]]:
    """Train a run in a worker process; None when it was interrupted, and its state is kept."""

    def report(*values: Any) -> None:
        exchange.report(*values)

    with in_worker(exchange.owner), recorded_warnings() as warned, computation(), threads(count):
        keeper = checkpoint.keeper([number], exchange.asked) if checkpoint else Keeper(asked=exchange.asked)
        try:
            (run,) = train_together([job], report if reports else None, keeper, ALONE)
        except Interrupted:
            return number, None, warned
        if checkpoint:
            checkpoint.finish(number, run.network, run.records)
    return number, run, warned
