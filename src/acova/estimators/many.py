"""Many fits as one computation."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any

from acova.base import OptionError
from acova.estimators.acova import ACOVA
from acova.estimators.progress import progress_bar
from acova.estimators.recipe import train_runs

_FREE = ("alpha", "correlation", "correlation_start", "n_init", "random_state", "verbose", "view_sizes")
"""Settings in which runs that train together may differ (a learned and a fixed correlation may not)."""


def fit_many(
    estimators: Sequence[ACOVA], X: Any, observed_per_run: Sequence[Any] | None = None, *, verbose: bool = False
) -> list[ACOVA]:
    """Fit several estimators on the same samples, each with its own mask, together where that is faster.

    Each estimator comes out as its own ``fit(X, observed=…)`` would leave it, to rounding: a run's weights, order and
    noise come from its own seed, whatever trains beside it. On a GPU all runs with the same network and schedule are
    one computation (seeds, masks, missing rates, α and fixed correlations may differ), split only where memory asks
    for it.

    Parameters
    ----------
    estimators : sequence of ACOVA
        Distinct objects; each is fitted in place.
    X : views in any accepted form
    observed_per_run : sequence of masks (n_samples, V), one per estimator, optional
    verbose : bool
        Show one progress bar for all.

    Returns
    -------
    list of ACOVA
        The estimators, fitted.

    Examples
    --------
    >>> from acova.data import load_dataset, make_observed
    >>> views = load_dataset("digits").views
    >>> settings = {"hidden": (16,), "pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 1}
    >>> models = [ACOVA(10, random_state=run, **settings) for run in range(2)]
    >>> masks = [make_observed(len(views), 4, 0.5, random_state=r) for r in range(2)]
    >>> [model.labels_.shape for model in fit_many(models, views, masks)]
    [(1797,), (1797,)]
    """
    estimators = list(estimators)
    masks = [None] * len(estimators) if observed_per_run is None else list(observed_per_run)
    if len(masks) != len(estimators) or len({id(model) for model in estimators}) < len(estimators):
        msg = (
            f"fit_many: give every run its own estimator object and one mask; got {len(estimators)} estimators "
            f"({len({id(model) for model in estimators})} distinct) and {len(masks)} masks."
        )
        raise OptionError(msg)
    prepared = [model._prepare(X, mask) for model, mask in zip(estimators, masks, strict=True)]
    together: dict[Hashable, list[int]] = defaultdict(list)
    for number, model in enumerate(estimators):
        together[_kind(model)].append(number)
    epochs = sum(m.n_init * (m.pretrain_epochs + m.warmup_epochs + m.epochs) for m in estimators)
    with progress_bar("ACOVA", 1, epochs, shown=verbose) as report:
        for numbers in together.values():
            runs = iter(train_runs([job for number in numbers for job in prepared[number].jobs], report))
            for number in numbers:
                estimators[number]._finish(prepared[number], [next(runs) for _ in prepared[number].jobs])
    return estimators


def _kind(model: ACOVA) -> Hashable:
    """Return what must agree for runs to train together."""
    learned = isinstance(model.correlation, str) and model.correlation == "learned"
    params = {name: value for name, value in model.get_params(deep=False).items() if name not in _FREE}
    return (learned, model._likelihoods, repr(sorted(params.items())))
