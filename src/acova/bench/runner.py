"""Running a benchmark: what is left to do, in which groups, where, for how long."""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from acova.base import OptionError, ProcessError
from acova.base.errors import check_choice, check_number
from acova.bench.entries import Fit
from acova.bench.methods import new_model, problem_of_method, trains
from acova.bench.pace import Pace, Progress
from acova.bench.spec import BenchSpec
from acova.bench.store import Store

BACKENDS = ("local", "dask", "ray")


@dataclass
class Outcome:
    """What a call of `run_bench` did."""

    done: int = 0
    """Fits of this call."""
    failed: int = 0
    found: int = 0
    """Fits that were in the store."""
    left: int = 0
    """Fits not started because the time was up."""
    elsewhere: int = 0
    """Fits that another runner does."""
    problems: dict[str, str] = field(default_factory=dict)
    """Methods and data that cannot take part → why."""


def run_bench(
    spec: BenchSpec,
    store: Store,
    *,
    device: str = "auto",
    n_jobs: int = -1,
    backend: str = "local",
    scheduler: str | None = None,
    budget: float | None = None,
    group_size: int | None = None,
    limit: float | None = None,
    retry: bool = False,
    verbose: bool = False,
) -> Outcome:
    """Fit what the store does not have yet; rows are written as soon as a group of fits is done.

    Parameters
    ----------
    spec : BenchSpec
    store : Store
    device : str
        Where networks train. On a GPU fits that can train together are one computation; elsewhere every fit is a task
        of its own.
    n_jobs : int
        Processes for tasks that need no GPU; -1 takes all cores.
    backend : {"local", "dask", "ray"}
        Whose processes: this machine's, or those of a cluster that runs already, through joblib.
    scheduler : str, optional
        Address of the cluster.
    budget : float, optional
        Seconds after which nothing new is started; a task that is known to take longer than what is left is not
        started either.
    group_size : int, optional
        Most fits in one computation; rows appear when a computation is done.
    limit : float, optional
        Seconds after which a single fit is ended and recorded as failed; each then has a process of its own.
    retry : bool
        Repeat fits that failed.
    verbose : bool
        Show progress and the time left on standard error.

    Returns
    -------
    Outcome
    """
    check_running("run_bench", "", n_jobs=n_jobs, backend=backend, budget=budget, group_size=group_size, limit=limit)
    fits = list({fit.key: fit for fit in spec.fits()}.values())
    todo = [fit for fit in fits if not is_done(store, fit, retry=retry)]
    outcome = Outcome(found=len(fits) - len(todo), problems=problems(spec))
    todo = [fit for fit in todo if not {fit.data.name, fit.method.name} & set(outcome.problems)]
    gpu = any(map(trains, todo)) and _on_gpu(device)
    together = gpu or (backend != "local" and group_size is not None)
    groups = grouped(todo, group_size) if together else [[fit] for fit in todo]
    with Progress(todo, Pace(store.rows.values()), shown=verbose) as progress:
        queue = _Queue(store, outcome, progress.pace, budget, retry=retry)
        here: list[list[Fit]] = []
        others: list[list[Fit]] = []
        for group in groups:
            (here if gpu and backend == "local" and trains(group[0]) else others).append(group)
        for rows in _here(queue.tasks(here), device):
            queue.finish(rows, progress)
        workers = _Workers(n_jobs, backend, scheduler, len(others))
        queue.workers = workers.count
        for rows in workers.map(queue.tasks(others), device, limit):
            queue.finish(rows, progress)
    return outcome


def check_running(
    who: str,
    mark: str,
    *,
    n_jobs: int,
    backend: str,
    budget: float | None,
    group_size: int | None,
    limit: float | None,
    jobs_option: str = "n_jobs",
) -> None:
    """Raise `OptionError` unless the options of a run have values that they can have.

    Parameters
    ----------
    who : str
        Who complains.
    mark : str
        What options start with: two dashes on a command line.
    n_jobs, backend, budget, group_size, limit
        See `run_bench`.
    jobs_option : str
        How `n_jobs` is called.
    """
    check_choice(who, f"{mark}backend", backend, BACKENDS)
    if n_jobs != -1 or isinstance(n_jobs, bool):
        try:
            check_number(who, f"{mark}{jobs_option}", n_jobs, minimum=1, integer=True)
        except OptionError as error:
            msg = f"{error} Or give -1 for all cores."
            raise OptionError(msg) from None
    if budget is not None:
        check_number(who, f"{mark}budget", budget, minimum=0)
    if group_size is not None:
        option = "group-size" if mark else "group_size"
        check_number(who, f"{mark}{option}", group_size, minimum=1, integer=True)
    if limit is not None:
        check_number(who, f"{mark}limit", limit, minimum=0, strict=True)


def is_done(store: Store, fit: Fit, *, retry: bool = False) -> bool:
    """Whether the store has a row of a fit with all that the fit is to record."""
    row = store.rows.get(fit.key)
    if row is None:
        return False
    if "failed" in row:
        return not retry
    return set(fit.record) <= set(row.get("records", ()))


def problems(spec: BenchSpec, *, imports: bool = True) -> dict[str, str]:
    """Return why methods or data of a benchmark cannot take part.

    With `imports`, every ``module:Class`` of the spec is imported, which runs the code of the module.
    """
    from acova.bench.sources import problem_of_data

    found = {data.name: problem_of_data(data) for data in spec.data}
    found |= {method.name: problem_of_method(method, spec.folder, imports=imports) for method in spec.methods}
    return {name: problem for name, problem in found.items() if problem}


def grouped(fits: Iterable[Fit], size: int | None = None) -> list[list[Fit]]:
    """Cut fits into groups that one computation can do: the same data, network and schedule."""
    from acova.estimators.many import kind_of

    groups: dict[Any, list[Fit]] = defaultdict(list)
    for fit in fits:
        if not fit.alone and trains(fit):
            data = fit.data, fit.run if fit.data.seed else None
            groups[repr(data), kind_of(new_model(fit, 2, "cpu"))].append(fit)
        else:
            groups[fit.key].append(fit)
    step = size or max(map(len, groups.values()), default=1)
    return [group[start : start + step] for group in groups.values() for start in range(0, len(group), step)]


def _on_gpu(device: str) -> bool:
    from acova.engine.runtime import resolve_device

    return bool(resolve_device(device).type == "cuda")


def _here(tasks: Iterable[list[Fit]], device: str) -> Iterator[list[dict[str, Any]]]:
    from joblib import parallel_config

    from acova.bench.fitting import run_group

    for group in tasks:
        with parallel_config(n_jobs=1):  # as in workers, so that seconds compare
            rows = run_group(group, device)
        yield rows


@dataclass
class _Queue:
    """Hands out groups of fits that nobody else works on, while there is time, and takes their rows."""

    store: Store
    outcome: Outcome
    pace: Pace
    budget: float | None
    retry: bool
    workers: int = 1

    def __post_init__(self) -> None:
        self._start = time.monotonic()

    def tasks(self, groups: Sequence[list[Fit]]) -> Iterator[list[Fit]]:
        for whole in groups:
            group = [fit for fit in whole if fit.data.name not in self.outcome.problems]
            affordable = self._affordable(group)
            self.outcome.left += len(group) - len(affordable)
            claims = [fit for fit in affordable if self.store.claim(fit.key)]
            self.outcome.elsewhere += len(affordable) - len(claims)
            self.store.refresh()  # another runner may have finished a fit since it was looked at
            finished = [fit for fit in claims if is_done(self.store, fit, retry=self.retry)]
            self.store.release(fit.key for fit in finished)
            self.outcome.found += len(finished)
            task = [fit for fit in claims if fit not in finished]
            if task:
                yield task

    def _affordable(self, group: list[Fit]) -> list[Fit]:
        """Return as many fits of a group as can be done in the time that is left."""
        if self.budget is None or not group:
            return group
        left = self.budget - (time.monotonic() - self._start)
        if left <= 0:
            return []
        seconds = self.pace.seconds(group[0])
        return group if not seconds else group[: int(left / seconds)]

    def finish(self, rows: list[dict[str, Any]], progress: Progress) -> None:
        from acova.bench.fitting import UNAVAILABLE

        self.outcome.problems |= {row["dataset"]: row[UNAVAILABLE] for row in rows if UNAVAILABLE in row}
        kept = [row for row in rows if UNAVAILABLE not in row]
        self.store.append(kept)
        self.store.release(row["key"] for row in rows)
        progress.advance(rows, self.workers)
        failed = sum("failed" in row for row in kept)
        self.outcome.failed += failed
        self.outcome.done += len(kept) - failed


class _Workers:
    """Processes of this machine or of a cluster, through joblib."""

    def __init__(self, n_jobs: int, backend: str, scheduler: str | None, tasks: int) -> None:
        from joblib import effective_n_jobs

        self._backend, self._scheduler = backend, scheduler
        self.count = max(1, min(effective_n_jobs(n_jobs), tasks)) if backend == "local" else n_jobs

    def map(self, tasks: Iterator[list[Fit]], device: str, limit: float | None) -> Iterator[list[dict[str, Any]]]:
        """Yield the rows of the tasks as they are done; tasks are taken when a process is free."""
        from joblib import Parallel, delayed

        from acova.bench.fitting import run_group
        from acova.bench.limits import run_limited

        if self._backend == "local" and self.count == 1 and limit is None:
            yield from _here(tasks, device)
            return
        work = delayed(run_group if limit is None else run_limited)
        more = () if limit is None else (limit,)
        with ExitStack() as stack:
            self._enter(stack)
            # Batches of one, and no more taken than there are processes: what is taken is claimed.
            options: dict[str, Any] = {"batch_size": 1, "pre_dispatch": "n_jobs"}
            if self._backend == "ray":  # its backend gives no results before all are there
                options |= {"return_as": "list"}
                yield from _in_waves(Parallel(n_jobs=self.count, **options), tasks, lambda g: work(g, device, *more))
                return
            parallel = Parallel(n_jobs=self.count, return_as="generator_unordered", **options)
            try:
                yield from parallel(work(group, device, *more) for group in tasks)
            except BrokenProcessPool as error:
                msg = (
                    "A worker process of the benchmark was ended from outside, perhaps for want of memory. Finished "
                    "fits are in the store. Use fewer --jobs, or --limit, which gives each fit a process of its own."
                )
                raise ProcessError(msg) from error

    def _enter(self, stack: ExitStack) -> None:
        from joblib import parallel_config

        if self._backend == "local":
            stack.enter_context(parallel_config("loky", inner_max_num_threads=1))
        elif self._backend == "dask":
            distributed = _package("distributed", "pip install 'acova[dask]'")
            if self._scheduler is None:
                msg = "backend 'dask' sends fits to a cluster that runs already; give its address with --scheduler."
                raise OptionError(msg)
            client = stack.enter_context(self._client(distributed))
            self.count = max(1, sum(client.ncores().values()))
            stack.enter_context(parallel_config("dask", client=client, n_jobs=self.count))
        else:
            self._enter_ray(stack)

    def _client(self, distributed: Any) -> Any:
        try:
            return distributed.Client(self._scheduler, set_as_default=False)
        except (OSError, ValueError) as error:
            msg = f"No Dask cluster answers at --scheduler {self._scheduler!r} ({error}); give the address it prints."
            raise OptionError(msg) from error

    def _enter_ray(self, stack: ExitStack) -> None:
        from joblib import parallel_config

        ray = _package("ray", "pip install ray")
        if not ray.is_initialized():
            ray.init(address=self._scheduler or "auto")
            stack.callback(ray.shutdown)
        _package("ray.util.joblib", "pip install ray").register_ray()
        self.count = max(1, int(ray.cluster_resources().get("CPU", 1)))
        stack.enter_context(parallel_config("ray", n_jobs=self.count))


def _package(name: str, remedy: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        msg = f"This backend needs the package {name}: {remedy}."
        raise OptionError(msg) from error


def _in_waves(parallel: Any, tasks: Iterator[list[Fit]], work: Any) -> Iterator[list[dict[str, Any]]]:
    """Take as many tasks as there are processes, then their results."""
    from itertools import islice

    while wave := list(islice(tasks, parallel.n_jobs)):
        yield from parallel(map(work, wave))
