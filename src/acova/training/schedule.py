"""Which runs of a fit train when and where: together on a GPU, side by side in processes on a CPU, or one by one."""

import logging
import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from acova.base import RunFolderError
from acova.engine import RunData, Runs, StreamedData, Trainer
from acova.engine.distributed import ALONE, Processes
from acova.engine.parallel import multiplications, thread_count, threads, threads_for
from acova.engine.runtime import computation, freed_memory_kept, gpu_for_training, network_dtype, runs_that_fit
from acova.engine.state import Interrupted, Keeper
from acova.engine.trainer import EpochReport
from acova.engine.workers import Exchange, Lent, in_worker, recorded_warnings, side_by_side, warn_again, worker_count
from acova.training.checkpoint import Checkpoint
from acova.training.job import Job, TrainedRun
from acova.training.method import Group
from acova.training.progress import of_runs

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
    local = processes.size == 1 and jobs[0].data.read is None
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


def train_together(
    jobs: Sequence[Job], report: EpochReport | None, keeper: Keeper, processes: Processes
) -> list[TrainedRun]:
    """Train runs as one computation."""
    first, precision = jobs[0], jobs[0].settings.precision
    with gpu_for_training(precision, first.device), freed_memory_kept(first.device):
        networks = [job.network() for job in jobs]
        for network in networks:
            network.compute_in(network_dtype(precision, first.device, network))
        runs = Runs(networks, processes=processes)
        data = _run_data(jobs, processes)
        trainer = Trainer(runs, data, [job.streams for job in jobs], report, keeper)
        group = Group(jobs, networks, runs, data)
        with threads_for(multiplications(networks[0], first.rows_of_a_step // processes.size)):
            for phase in first.method.phases(group):
                trainer.train(phase)
            first.method.finish(group)
    if keeper.resumed is not None:  # which no phase took
        msg = f"the checkpoint is of a phase {keeper.resumed.phase!r} that this fit lacks; delete it to start afresh."
        raise RunFolderError(msg)
    runs.release()
    return [TrainedRun(network, records) for network, records in zip(networks, trainer.records, strict=True)]


def _run_data(jobs: Sequence[Job], processes: Processes) -> RunData | StreamedData:
    """Stack the runs' data; data that all runs share stay single."""
    first = jobs[0]
    if first.data.read is not None:
        return StreamedData(first.data.read, first.n_samples, first.input_sizes, first.device, processes=processes)
    distinct = {id(job.data): job.data.batch() for job in jobs}
    places = list(distinct)
    batches = distinct.values()
    return RunData(
        [_stack(same) for same in zip(*(batch.views for batch in batches), strict=True)],
        _stack([batch.observed for batch in batches]),
        targets=[_stack(same) for same in zip(*(batch.targets for batch in batches), strict=True)],
        labels=[_stack(same) for same in zip(*(batch.labels for batch in batches), strict=True)],
        data_set=[places.index(id(job.data)) for job in jobs],
        n_samples=first.n_samples,
        processes=processes,
    )


def _stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors in memory that begins where 64 bytes do, since products may round by it; copy only if need be."""
    first = tensors[0]
    aligned = first.is_contiguous() and first.data_ptr() % 64 == 0
    return first.unsqueeze(0) if len(tensors) == 1 and aligned else torch.stack(list(tensors))


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
            named = of_runs(report, chosen, len(jobs))
            runs = train_together([jobs[number] for number in chosen], named, keeper, processes)
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
    first = jobs[0]
    # Runs with their own data hold them twice: as they came, and stacked.
    copies = len({id(job.data) for job in jobs})
    data_bytes = sum(part.nbytes for part in (*(first.data.views or ()), *first.data.targets))
    own_bytes = data_bytes * copies // len(jobs) if copies > 1 else 0
    if len(jobs) == 1 or first.device.type != "cuda":
        return 1
    network = first.network()
    noise_bytes = 2 * 4 * math.prod(network.noise_shape) * first.n_samples  # an epoch's and the next one's
    return runs_that_fit(network, first.settings.batch_size, own_bytes + noise_bytes, first.device)


# --- in processes -------------------------------------------------------------------------------


def _workers(jobs: Sequence[Job], left: int) -> int:
    """Return how many processes train the runs that are left; 1 where the start of processes would not pay."""
    first = jobs[0]
    if left < 2 or first.device.type != "cpu":
        return 1
    products = multiplications(first.network(), first.rows_of_a_step)
    count = worker_count(left, thread_count(products))
    return count if count > 1 and left * _seconds(first, products) >= _WORTH_PROCESSES else 1


def _seconds(job: Job, products: int) -> float:
    """Return a rough estimate of the seconds that a run takes on one thread."""
    return float(job.steps * (_STEP_SECONDS + products / _PRODUCTS_OF_A_SECOND))


def _train_side_by_side(
    jobs: Sequence[Job],
    left: Sequence[int],
    workers: int,
    report: EpochReport | None,
    checkpoint: Checkpoint | None,
) -> dict[int, TrainedRun]:
    """Train runs in processes of their own and return them by number; none where there is no room for their data."""
    count = thread_count(multiplications(jobs[0].network(), jobs[0].rows_of_a_step))
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
        of = 0 if report is None else len(jobs)
        tasks = [(exchange, *task, count, place, of) for task in zip(left, lent, strict=True)]
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

    return [
        replace(job, data=replace(job.data, **{name: lend(value) for name, value in vars(job.data).items()}))
        for job in jobs
    ]


def _train_in_worker(
    exchange: Exchange, number: int, job: Job, count: int, checkpoint: Checkpoint | None, of: int
) -> tuple[int, TrainedRun | None, list[Any]]:
    """Train a run in a worker process; None when it was interrupted, and its state is kept.

    `of` is the number of all runs, which reports name, and 0 where nothing is reported.
    """

    def report(*values: Any) -> None:
        exchange.report(*values)

    with in_worker(exchange.owner), recorded_warnings() as warned, computation(), threads(count):
        keeper = checkpoint.keeper([number], exchange.asked) if checkpoint else Keeper(asked=exchange.asked)
        try:
            (run,) = train_together([job], of_runs(report, [number], of) if of else None, keeper, ALONE)
        except Interrupted:
            return number, None, warned
        if checkpoint:
            checkpoint.finish(number, run.network, run.records)
    return number, run, warned
