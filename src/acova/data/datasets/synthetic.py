"""Multi-view data made to a specification, whose truth is known."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from acova.base import OptionError, Streams
from acova.base.errors import check_choice, check_number, near_miss
from acova.base.seeds import draw_seed
from acova.data.files.formats import Dataset
from acova.data.views import Views

KINDS = ("gaussian", "heavy_tails", "category", "constant", "copy")
PARTITIONS = ("labels", "other")
_WITH_ERRORS = ("gaussian", "heavy_tails")
_DEGREES_OF_FREEDOM = 2
_OUTLIER = 10.0
"""How many times as large the errors of an outlier are."""
_EXAMPLE = {"rna": {"n_features": 300, "n_informative": 60}, "protein": {"n_features": 40, "n_informative": 10}}
_LARGEST = 10_000_000
_WHO = "make_views"


@dataclass(frozen=True)
class MadeDataset(Dataset):
    """Views, labels, and what else is known of data that `make_views` made.

    Attributes
    ----------
    name, views, labels
        See `Dataset`.
    useful : dict of view → bool
        Whether the view separates the clusters of `labels` at all.
    informative : dict of view → array of bool, shape (n_features,)
        The features that depend on a partition, be it `labels` or `other_labels`.
    other_labels : array of int, shape (n_samples,)
        The partition of the views with ``partition="other"``: as many clusters of the same sizes, independent of
        `labels`.
    outliers : array of bool, shape (n_samples, V)
        Where the errors of a sample are ten times as large.
    error_correlation : array of shape (V, V)
        Correlation between the errors of two views in columns of the same number.

    See Also
    --------
    make_views : Makes it.
    """

    useful: dict[str, bool] = field(default_factory=dict)
    informative: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    other_labels: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    outliers: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((0, 0), dtype=bool))
    error_correlation: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 0)))


@dataclass(frozen=True)
class _View:
    """What one view is to be like; `make_views` documents the fields."""

    n_features: int = 10
    n_informative: int | None = None
    separation: float = 1.0
    noise: float = 1.0
    kind: str = "gaussian"
    n_levels: int = 4
    of: str = ""
    partition: str = "labels"

    @property
    def informative(self) -> int:
        """Number of columns that depend on a partition."""
        if self.kind in ("constant", "copy"):
            return 0
        return self.n_features if self.n_informative is None else self.n_informative


def make_views(
    n_samples: int = 400,
    n_clusters: int = 4,
    views: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    proportions: Sequence[float] | None = None,
    error_correlation: float | ArrayLike = 0.0,
    outliers: float = 0.0,
    random_state: Any = None,
) -> MadeDataset:
    """Make multi-view data whose clusters, useful views and errors are known.

    Each number has a random stream of its own, named after its view, so adding a view leaves the others as they are:
    a method can be compared with and without a disturbance on the same data.

    Parameters
    ----------
    n_samples : int, default: 400
    n_clusters : int, default: 4
    views : dict of name → dict, default: 300 RNA-like columns (60 informative) and 40 protein-like ones (10)
        What each view is like:

        - ``n_features`` (default: 10): its number of columns;
        - ``n_informative`` (default: all): how many of them, the first ones, depend on the cluster; 0 makes a view
          of pure noise;
        - ``separation`` (default: 1): standard deviation of the clusters' means in an informative column;
        - ``noise`` (default: 1): standard deviation of the errors;
        - ``kind`` (default: ``"gaussian"``): ``"gaussian"``: cluster means plus normal errors; ``"heavy_tails"``:
          the errors have Student's t distribution with two degrees of freedom; ``"category"``: text columns with
          ``n_levels`` (default: 4) levels each, which `Views` encodes as columns of zeros and ones. Each level has a
          score that depends on the cluster, N(0, ``separation``²), plus Gumbel errors times ``noise``, and the
          largest wins; ``"constant"``: columns of zeros with a one in a single sample; ``"copy"``: the columns of
          the view ``of`` once more;
        - ``partition`` (default: ``"labels"``): ``"other"`` makes the columns depend on a second partition that is
          independent of the labels.
    proportions : sequence of n_clusters positive numbers, default: None, all clusters have the same size
        Sizes of the clusters relative to each other; ``(20, 10, 5, 1)`` makes the first 20 times as large as the
        last. Counts are exact, by largest remainders; every cluster has at least one sample.
    error_correlation : float, or array of shape (V, V), default: 0
        Correlation between the errors of two views in columns of the same number: one value for all pairs of
        gaussian views, or a correlation matrix in the order of `views`. Other views must have zeros.
    outliers : float, default: 0
        Share of the samples whose errors are ten times as large in one of their gaussian or heavy-tailed views, drawn
        at random.
    random_state : int, RandomState, Generator or None, default: None
        The same integer gives the same data.

    Returns
    -------
    MadeDataset
        ``views`` and ``labels`` as of `load_dataset`, and what is known besides.

    Examples
    --------
    >>> from acova.data import make_views
    >>> sizes = {"n_features": 40, "n_informative": 10}
    >>> category = {"kind": "category", "n_features": 1, "n_informative": 0}
    >>> data = make_views(200, 3, {"rna": sizes, "adt": sizes, "site": category}, random_state=0)
    >>> data.views
    <Views of 200 samples (100% complete); rna: 40 (100% observed), adt: 40 (100% observed), site: 4 (100% observed)>
    >>> data.useful
    {'rna': True, 'adt': True, 'site': False}

    See Also
    --------
    make_observed : Draw which views each sample has.
    load_dataset : Real data.
    """
    check_number(_WHO, "n_clusters", n_clusters, minimum=1, maximum=_LARGEST, integer=True)
    check_number(_WHO, "n_samples", n_samples, minimum=n_clusters, maximum=_LARGEST, integer=True)
    check_number(_WHO, "outliers", outliers, minimum=0, maximum=1)
    specs = _specs_of(_EXAMPLE if views is None else views)
    correlation = _correlation_of(error_correlation, specs)
    counts = _counts(n_samples, n_clusters, proportions)
    streams = Streams(draw_seed(random_state, _WHO))
    in_order = np.repeat(np.arange(n_clusters), counts)
    partitions = {name: streams.numpy(name).permutation(in_order) for name in PARTITIONS}
    unusual = _outliers(n_samples, outliers, specs, streams.numpy("outliers"))
    errors = _errors(n_samples, specs, correlation, streams)
    for v, name in enumerate(specs):
        if name in errors:
            errors[name][unusual[:, v]] *= _OUTLIER
    tables: dict[str, pd.DataFrame] = {}
    for name in sorted(specs, key=lambda one: specs[one].kind == "copy"):  # copies need what they copy
        labels, stream = partitions[specs[name].partition], streams.child("view", name)
        tables[name] = _table(name, specs[name], labels, errors, tables, stream)
    made = Views.of({name: tables[name] for name in specs})
    sources = {name: spec if spec.kind != "copy" else specs[spec.of] for name, spec in specs.items()}
    return MadeDataset(
        "made",
        made,
        partitions["labels"],
        useful={name: spec.informative > 0 and spec.partition == "labels" for name, spec in sources.items()},
        informative={name: _informative(spec, tables[name]) for name, spec in sources.items()},
        other_labels=partitions["other"],
        outliers=unusual,
        error_correlation=correlation,
    )


# --- what is asked for --------------------------------------------------------------------------


def _specs_of(views: Mapping[str, Mapping[str, Any]]) -> dict[str, _View]:
    if not isinstance(views, Mapping) or not views:
        msg = f"{_WHO}: views must be a dict of name → dict with at least one view; got {views!r}."
        raise OptionError(msg)
    specs = {str(name): _spec_of(str(name), given) for name, given in views.items()}
    for name, spec in specs.items():
        if spec.kind == "copy":
            known = [other for other, one in specs.items() if one.kind != "copy"]
            check_choice(_WHO, f"view {name!r}: of", spec.of, known)
    return specs


def _spec_of(name: str, given: Mapping[str, Any]) -> _View:
    who, known = f"{_WHO}: view {name!r}", [one.name for one in fields(_View)]
    if not isinstance(given, Mapping):
        msg = f"{who} must be a dict with entries among {', '.join(known)}; got {given!r}."
        raise OptionError(msg)
    for key in given:
        if key not in known:
            msg = f"{who} has the unknown entry {key!r}; known are {', '.join(known)}.{near_miss(key, known)}"
            raise OptionError(msg)
    try:
        spec = msgspec.convert(dict(given), _View)
    except msgspec.ValidationError as error:
        msg = f"{who}: {error}."
        raise OptionError(msg) from error
    check_choice(who, "kind", spec.kind, KINDS)
    check_choice(who, "partition", spec.partition, PARTITIONS)
    check_number(who, "n_features", spec.n_features, minimum=1, maximum=_LARGEST, integer=True)
    check_number(who, "n_levels", spec.n_levels, minimum=2, maximum=50, integer=True)
    check_number(who, "n_informative", spec.informative, minimum=0, maximum=spec.n_features, integer=True)
    for option in ("separation", "noise"):
        check_number(who, option, getattr(spec, option), minimum=0)
    return spec


def _correlation_of(given: Any, specs: Mapping[str, _View]) -> NDArray[np.float64]:
    """Return the correlation matrix of the views' errors."""
    gaussian = np.array([spec.kind == "gaussian" for spec in specs.values()])
    count = len(specs)
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.full(1, np.nan)
    if matrix.ndim == 0:
        matrix = np.where(np.outer(gaussian, gaussian) & ~np.eye(count, dtype=bool), matrix, np.eye(count))
    rule = f"a number from -1 to 1 or a correlation matrix of shape ({count}, {count}), positive semi-definite"
    right = matrix.shape == (count, count) and bool(np.isfinite(matrix).all())
    right = right and np.allclose(matrix, matrix.T) and np.allclose(np.diag(matrix), 1)
    if not right or np.linalg.eigvalsh(matrix).min() < -1e-9:
        msg = f"{_WHO}: error_correlation must be {rule}; got {given!r}."
        raise OptionError(msg)
    if np.any(matrix[~gaussian] != np.eye(count)[~gaussian]):
        name = list(specs)[int(np.flatnonzero(~gaussian)[0])]
        msg = f"{_WHO}: error_correlation must be 0 for views that are not gaussian, such as {name!r}; got {given!r}."
        raise OptionError(msg)
    return np.asarray(matrix)


def _counts(n_samples: int, n_clusters: int, proportions: Sequence[float] | None) -> NDArray[np.int64]:
    """Return the sizes of the clusters: one sample each, the others by largest remainders."""
    shares = np.ones(n_clusters) if proportions is None else np.asarray(proportions, dtype=np.float64)
    if shares.shape != (n_clusters,) or not (np.isfinite(shares).all() and (shares > 0).all()):
        msg = f"{_WHO}: proportions must be {n_clusters} positive numbers, one per cluster; got {proportions!r}."
        raise OptionError(msg)
    exact = n_samples * shares / shares.sum()
    counts: NDArray[np.int64] = np.floor(exact).astype(np.int64)
    largest = np.argsort(counts - exact, kind="stable")[: n_samples - counts.sum()]
    counts[largest] += 1
    while (counts == 0).any():
        counts[counts.argmax()] -= 1
        counts[counts.argmin()] += 1
    return counts


# --- what is made -------------------------------------------------------------------------------


def _outliers(n_samples: int, share: float, specs: Mapping[str, _View], rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return which samples have large errors, and in which view, shape (n_samples, V)."""
    unusual = np.zeros((n_samples, len(specs)), dtype=bool)
    able = [v for v, spec in enumerate(specs.values()) if spec.kind in _WITH_ERRORS]
    if share and not able:
        msg = f"{_WHO}: outliers need a view of kind {' or '.join(map(repr, _WITH_ERRORS))}; there is none."
        raise OptionError(msg)
    rows = rng.permutation(n_samples)[: round(share * n_samples)]
    unusual[rows, rng.choice(able, size=len(rows)) if len(rows) else rows] = True
    return unusual


def _errors(
    n_samples: int, specs: Mapping[str, _View], correlation: NDArray[np.float64], streams: Streams
) -> dict[str, NDArray[np.float64]]:
    """Return the errors of the views that have any, in units of one."""
    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.clip(values, 0, None)) @ vectors.T  # symmetric: the identity for uncorrelated errors
    drawn: dict[str, NDArray[np.float64]] = {}
    for v, (name, spec) in enumerate(specs.items()):
        if spec.kind not in _WITH_ERRORS:
            continue
        errors = np.zeros((n_samples, spec.n_features))
        for u in np.flatnonzero(np.abs(root[v]) > 1e-12):
            # Column by column, so that the first ones are the same however wide the view is.
            stream = streams.child("view", list(specs)[u]).numpy("errors")
            errors += root[v, u] * stream.normal(size=(spec.n_features, n_samples)).T
        if spec.kind == "heavy_tails":
            squares = streams.child("view", name).numpy("tails").chisquare(_DEGREES_OF_FREEDOM, size=errors.shape)
            errors /= np.sqrt(squares / _DEGREES_OF_FREEDOM)
        drawn[name] = errors
    return drawn


def _table(
    name: str,
    spec: _View,
    labels: NDArray[np.int64],
    errors: Mapping[str, NDArray[np.float64]],
    tables: Mapping[str, pd.DataFrame],
    streams: Streams,
) -> pd.DataFrame:
    if spec.kind == "copy":
        source = tables[spec.of]
        return source.set_axis([f"{name}_{number}" for number in range(source.shape[1])], axis=1)
    columns = [f"{name}_{number}" for number in range(spec.n_features)]
    if spec.kind == "category":
        return pd.DataFrame(dict(zip(columns, _categories(spec, labels, streams), strict=True)))
    values = np.zeros((len(labels), spec.n_features))
    if spec.kind == "constant":
        values[streams.numpy("which").integers(len(labels), size=spec.n_features), range(spec.n_features)] = 1
        return pd.DataFrame(values, columns=columns)
    means = streams.numpy("means").normal(size=(spec.informative, labels.max() + 1)).T
    values[:, : spec.informative] = spec.separation * means[labels]
    return pd.DataFrame(values + spec.noise * errors[name], columns=columns)


def _categories(spec: _View, labels: NDArray[np.int64], streams: Streams) -> list[Any]:
    """Return the columns of a view of categories: per sample the level with the largest score."""
    scores = np.zeros((spec.n_features, labels.max() + 1, spec.n_levels))
    shape = (spec.informative, *scores.shape[1:])
    scores[: spec.informative] = spec.separation * streams.numpy("means").normal(size=shape)
    errors = streams.numpy("errors").gumbel(size=(spec.n_features, len(labels), spec.n_levels))
    levels = pd.Index([f"level {number}" for number in range(spec.n_levels)])
    chosen: NDArray[np.intp] = (scores[:, labels] + spec.noise * errors).argmax(axis=2)
    return [pd.Categorical.from_codes(codes, categories=levels) for codes in chosen]


def _informative(spec: _View, table: pd.DataFrame) -> NDArray[np.bool_]:
    """Return which features depend on a partition; a column of categories is as many features as levels occur in it."""
    found = np.arange(spec.n_features) < spec.informative
    return np.repeat(found, table.nunique()) if spec.kind == "category" else found
