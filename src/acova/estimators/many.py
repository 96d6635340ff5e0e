"""Many fits as one computation."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from acova.base import OptionError
from acova.engine.distributed import Processes, job_processes
from acova.engine.runtime import computation
from acova.estimators._deep import DeepClusterer, Prepared
from acova.estimators._resolution import identity_of, resolved_settings
from acova.training.checkpoint import Checkpoint, fingerprint
from acova.training.job import Job, Settings
from acova.training.method import Method
from acova.training.phases import LEARNED_CORRELATIONS
from acova.training.progress import progress_bar
from acova.training.schedule import train_runs

_FREE = (
    "alpha",
    "elbo_weight",
    "correlation",
    "correlation_start",
    "rho",
    "n_init",
    "consensus",
    "recipe",
    "random_state",
    "verbose",
    "view_sizes",
    "learning_rate",
    "prior_learning_rate",
    "weight_learning_rate",
    "correlation_learning_rate",
    "pretrain_learning_rate",
)
"""Settings in which runs that train together may differ (a learned and a fixed correlation may not)."""


def fit_many(
    estimators: Sequence[DeepClusterer],
    X: Any,
    observed_per_run: Sequence[Any] | None = None,
    *,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 10,
    verbose: bool = False,
) -> list[DeepClusterer]:
    """Fit several estimators on the same samples, each with its own mask, together where that is faster.

    Each estimator comes out as its own ``fit(X, observed=…)`` would leave it, to rounding: a run's weights, order and
    noise come from its own seed, whatever trains beside it. On a GPU all runs with the same network and schedule are
    one computation (seeds, masks, missing rates, learning rates, α and fixed correlations may differ), split only
    where memory asks for it.

    Parameters
    ----------
    estimators : sequence of ACOVA, or of any methods that train a network
        Distinct objects; each is fitted in place.
    X : views in any accepted form
    observed_per_run : sequence of masks (n_samples, V), one per estimator, optional
    checkpoint, checkpoint_every
        As for `ACOVA`, for all fits together; the estimators themselves then have none.
    verbose : bool
        Show one progress bar for all.

    Returns
    -------
    list
        The estimators, fitted; an empty list for none.

    See Also
    --------
    acova.bench.run_bench : Whole benchmarks, with stored rows.

    Examples
    --------
    >>> from acova import ACOVA
    >>> from acova.data import load_dataset, make_observed
    >>> views = load_dataset("digits").views
    >>> models = [ACOVA(10, hidden=(16,), epochs=1, n_init=1, random_state=run) for run in range(2)]
    >>> masks = [make_observed(len(views), 4, 0.5, random_state=r) for r in range(2)]
    >>> from acova.estimators import fit_many
    >>> [model.labels_.shape for model in fit_many(models, views, masks)]
    [(1797,), (1797,)]
    """
    estimators = list(estimators)
    masks = [None] * len(estimators) if observed_per_run is None else list(observed_per_run)
    alone = [type(model).__name__ for model in estimators if not isinstance(model, DeepClusterer)]
    if alone:
        msg = f"fit_many: {alone[0]} trains no network, so there is nothing to train together; call its fit instead."
        raise OptionError(msg)
    if len(masks) != len(estimators) or len({id(model) for model in estimators}) < len(estimators):
        msg = (
            f"fit_many: give every run its own estimator object and one mask; got {len(estimators)} estimators "
            f"({len({id(model) for model in estimators})} distinct) and {len(masks)} masks."
        )
        raise OptionError(msg)
    if not estimators:
        return []
    if any(model.checkpoint is not None for model in estimators):
        msg = "fit_many: an estimator has checkpoint=…; give checkpoint to fit_many instead, for all fits together."
        raise OptionError(msg)
    if checkpoint is not None and not all(isinstance(model.random_state, int | np.integer) for model in estimators):
        msg = "fit_many: with checkpoint every estimator needs an integer random_state; another call could not go on."
        raise OptionError(msg)
    with job_processes() as processes:
        if checkpoint is None:
            _fit_groups(estimators, X, masks, None, processes, verbose=verbose)
        else:
            with _Folders(checkpoint, checkpoint_every, processes) as folders:
                _fit_groups(estimators, X, masks, folders, processes, verbose=verbose)
                folders.remove()
    return estimators


@computation()
def _fit_groups(
    estimators: Sequence[DeepClusterer],
    X: Any,
    masks: Sequence[Any],
    folders: "_Folders | None",
    processes: Processes,
    *,
    verbose: bool,
) -> None:
    prepared = [model._prepare(X, mask, processes) for model, mask in zip(estimators, masks, strict=True)]
    together: dict[Hashable, list[int]] = defaultdict(list)
    for number, one in enumerate(prepared):
        together[_kind(one.jobs[0])].append(number)
    epochs = sum(one.epochs for one in prepared)
    with progress_bar(type(estimators[0]).__name__, epochs, shown=verbose and processes.is_first) as report:
        for numbers in together.values():
            members = [estimators[number] for number in numbers], [prepared[number] for number in numbers]
            group = folders and folders.next(_identity(*members))
            jobs = [job for number in numbers for job in prepared[number].jobs]
            runs = iter(train_runs(jobs, report, checkpoint=group, processes=processes))
            for number in numbers:
                estimators[number]._finish(prepared[number], [next(runs) for _ in prepared[number].jobs])


class _Folders(Checkpoint):
    """The checkpoints of the groups of fits that train together, each in a folder of its own."""

    def __init__(self, folder: str | Path, every: int, processes: Processes) -> None:
        super().__init__(folder, every, processes)
        self._groups: list[Checkpoint] = []

    def next(self, identity: Mapping[str, Any]) -> Checkpoint:
        group = Checkpoint(self.folder / f"group-{len(self._groups)}", self._every, self._processes)
        group.open(identity)
        self._groups.append(group)
        return group

    def remove(self) -> None:
        """Delete the checkpoints, and the folder if nothing else is in it."""
        for group in self._groups:
            group.remove()
        if self._processes.is_first:
            with suppress(OSError):  # other files are in it
                self.folder.rmdir()


def _identity(estimators: Sequence[DeepClusterer], prepared: Sequence[Prepared]) -> dict[str, Any]:
    """Return what an interrupted call and its continuation must share."""
    params = {
        f"{n}.{name}": value
        for n, (model, one) in enumerate(zip(estimators, prepared, strict=True))
        for name, value in identity_of(model, one.settings).items()
    }
    seeds = [int(model.random_state) for model in estimators]
    return {"params": params, "seed": seeds, "data": [fingerprint(one.views) for one in prepared]}


def kind_of(estimator: DeepClusterer) -> Hashable:
    """Return what must agree for fits on the same samples to train together, as far as the settings decide it."""
    return _kind_of(estimator.method, resolved_settings(estimator))


def _kind(job: Job) -> Hashable:
    """Return what must agree for runs to train together."""
    return _kind_of(job.method, job.settings), job.likelihoods, job.method.kind(job)


def _kind_of(method: Method, settings: Settings) -> Hashable:
    correlation = settings.get("correlation", None)
    learned = correlation if isinstance(correlation, str) and correlation in LEARNED_CORRELATIONS else ""
    values = {name: value for name, value in settings.values.items() if name not in _FREE}
    return settings.who, repr(method), learned, repr(sorted(values.items()))
