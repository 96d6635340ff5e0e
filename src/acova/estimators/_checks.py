"""What clusters go with: who lacks which view, and anything else that is known of the samples."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from scipy.stats import false_discovery_control
from sklearn.utils.validation import check_is_fitted

from acova.base import DataError, Streams
from acova.base.errors import check_number
from acova.clustering.association import Association, of_counts, of_numbers
from acova.data import Summary

WHOLE_PATTERN = "(whole pattern)"
"""The row of `missingness_check` that is about the views that samples have together."""
_AT_FIT = 999
_STRONG, _LIKELY, _BY_HIDING = 0.2, 0.01, 0.5
"""Association, p-value and share reproduced by hiding from which on clusters mirror a missing view."""


class ChecksMixin:
    """For clusterers: what the clusters of the training samples go with."""

    labels_: NDArray[np.int64]
    index_: pd.Index
    summary_: Summary
    view_names_: list[str]
    seed_: int
    view_shift_: NDArray[np.float64] | None = None

    def missingness_check(self, *, n_permutations: int = 9999) -> pd.DataFrame:
        """Return how strongly the clusters go with who lacks which view.

        An association alone is no fault: where the groups decide what is measured, clusters that find the groups go
        with the missing views. It is one where hiding a view changes the cluster, see ``by_hiding``.

        Parameters
        ----------
        n_permutations : int, default: 9999

        Returns
        -------
        DataFrame
            One row per view, and ``(whole pattern)`` for the views that samples have together.

            - ``effect``: Cramér's V without bias: 0 for no association, 1 where one determines the other;
            - ``p_value``: share of permutations with as strong an association; NaN where no sample or every one lacks
              the view;
            - ``n_missing``: samples that lack the view, or any;
            - ``by_hiding``: how much of the difference between the clusters of samples with and without the view comes
              about when the view is hidden from samples that have it: near 0 where the groups decide who lacks it, near
              1 where the lack decides the cluster. NaN for methods that do not say.
        """
        check_is_fitted(self, "labels_")
        who = f"{type(self).__name__}.missingness_check"
        check_number(who, "n_permutations", n_permutations, minimum=1, integer=True)
        if self.summary_.by_cluster is None:
            msg = f"{who}: this model was saved by an earlier version, which did not keep what this needs; fit again."
            raise DataError(msg)
        return missingness_table(self.summary_, self.view_names_, self.view_shift_, self.seed_, n_permutations)

    def check_against(self, frame: Any, *, n_permutations: int = 9999) -> pd.DataFrame:
        """Return how strongly the clusters go with columns that were not clustered, such as batch, sex or age.

        Parameters
        ----------
        frame : DataFrame, or dict of column → values
            One row per sample under the names of the training samples (`index_`); samples may be absent, or in another
            order. Without an index of names, rows are in the order of the training samples.
        n_permutations : int, default: 9999

        Returns
        -------
        DataFrame
            One row per column, in the order given.

            - ``kind``: ``"category"`` for text, categories and booleans, else ``"number"``;
            - ``effect``: of categories Cramér's V without bias; of numbers epsilon squared, the share of the ranks'
              variance between clusters, corrected for chance;
            - ``p_value``: by permutation, of chi-square or of Kruskal and Wallis; NaN where nothing varies;
            - ``q_value``: the p-value with control of false discoveries among all columns (Benjamini and Hochberg);
            - ``n_samples``: training samples with a value.

            Columns that were among the clustered features differ between clusters by construction: their p-values mean
            nothing.
        """
        check_is_fitted(self, "labels_")
        who = f"{type(self).__name__}.check_against"
        check_number(who, "n_permutations", n_permutations, minimum=1, integer=True)
        table = aligned(who, frame, self.index_)
        streams = Streams(self.seed_).child("check")
        labels = np.asarray(self.labels_)
        rows = {}
        for position, name in enumerate(table.columns):
            rng = streams.numpy("column", name)
            kind, found = _of_column(who, name, table.iloc[:, position], labels, rng, n_permutations)
            rows[name] = (kind, found.effect, found.p_value, found.n_samples)
        result = pd.DataFrame.from_dict(rows, orient="index", columns=["kind", "effect", "p_value", "n_samples"])
        known = result["p_value"].notna()
        result.insert(3, "q_value", np.nan)
        if known.any():
            result.loc[known, "q_value"] = false_discovery_control(result.loc[known, "p_value"])
        return result


def missingness_table(
    summary: Summary, names: list[str], shift: NDArray[np.float64] | None, seed: int, n_permutations: int = _AT_FIT
) -> pd.DataFrame:
    """Return the table of `ChecksMixin.missingness_check`."""
    patterns, by_cluster = summary.patterns, np.asarray(summary.by_cluster)
    streams = Streams(seed).child("check")
    rows = {}
    for v, name in enumerate(names):
        counts = np.stack([by_cluster[patterns[:, v] == has].sum(axis=0) for has in (False, True)])
        found = of_counts(counts, streams.numpy("missing", name), n_permutations)
        caused = np.nan if shift is None or np.isnan(found.effect) else float(shift[v])
        rows[name] = (found.effect, found.p_value, int(counts[0].sum()), caused)
    found = of_counts(by_cluster, streams.numpy("pattern"), n_permutations)
    incomplete = int(summary.counts[~patterns.all(axis=1)].sum())
    rows[WHOLE_PATTERN] = (found.effect, found.p_value, incomplete, np.nan)
    return pd.DataFrame.from_dict(rows, orient="index", columns=["effect", "p_value", "n_missing", "by_hiding"])


def missingness_words(model: ChecksMixin) -> str | None:
    """Say in a sentence or two how far clusters go with missing views; None where no view is missing."""
    summary = model.summary_
    if summary.by_cluster is None or summary.patterns.all() or summary.by_cluster.shape[1] < 2:
        return None
    table = missingness_table(summary, model.view_names_, model.view_shift_, model.seed_)
    effect, p_value = (float(table[name].iloc[-1]) for name in ("effect", "p_value"))
    if np.isnan(effect):
        return None
    numbers = f"(Cramér's V {effect:.2f}, p = {p_value:.2g})"
    if p_value > _LIKELY:
        return f"The clusters do not go with who lacks which view {numbers}."
    text = f"The clusters go with who lacks which view {numbers}."
    caused = table["by_hiding"].iloc[:-1].where(table["p_value"].iloc[:-1] <= _LIKELY)
    if caused.notna().any():
        name, share = caused.idxmax(), float(np.clip(caused.max(), 0, 1))
        text += f" Hiding view {name!r} from samples that have it reproduces {share:.0%} of its part."
    return f"{text} Where the groups decide what is measured this is expected, else look at missingness_check()."


def doubts_about_missingness(
    summary: Summary, names: list[str], shift: NDArray[np.float64] | None, seed: int
) -> list[str]:
    """Say which views the clusters mirror the lack of: one sentence, about the strongest."""
    mirrored = _mirrored(summary, names, shift, seed)
    if mirrored is None or mirrored.empty:
        return []
    place = int(mirrored["effect"].to_numpy().argmax())
    worst = mirrored.index[place]
    effect, p_value, caused = (float(mirrored[name].iloc[place]) for name in ("effect", "p_value", "by_hiding"))
    return [
        f"the clusters mirror who lacks view {worst!r}: they go with it (Cramér's V {effect:.2f}, p = {p_value:.2g}), "
        f"and hiding the view from samples that have it brings about {min(caused, 1):.0%} of the difference. "
        "Compare with a fit without the samples that lack it (refit_without_missingness), or without the view; see "
        "missingness_check()."
    ]


def mirrored_views(summary: Summary, names: list[str], shift: NDArray[np.float64] | None, seed: int) -> list[str]:
    """Return the views whose lack the clusters mirror, see `doubts_about_missingness`."""
    mirrored = _mirrored(summary, names, shift, seed)
    return [] if mirrored is None else [str(name) for name in mirrored.index]


def _mirrored(summary: Summary, names: list[str], shift: NDArray[np.float64] | None, seed: int) -> pd.DataFrame | None:
    if shift is None or summary.by_cluster is None or summary.patterns.all():
        return None
    table = missingness_table(summary, names, shift, seed).drop(WHOLE_PATTERN)
    return table.query("effect >= @_STRONG and p_value <= @_LIKELY and by_hiding >= @_BY_HIDING")


def aligned(who: str, frame: Any, index: pd.Index) -> pd.DataFrame:
    """Return one row per training sample."""
    if isinstance(frame, pd.Series):
        frame = frame.to_frame()
    named = isinstance(frame, pd.DataFrame)
    if not named and not isinstance(frame, Mapping):
        msg = f"{who}: frame must be a DataFrame or a dict of column → values; got {type(frame).__name__}."
        raise DataError(msg)
    table = frame if named else pd.DataFrame({name: np.asarray(values) for name, values in frame.items()})
    if not table.columns.is_unique or not table.index.is_unique:
        msg = f"{who}: frame must have each column and each sample once."
        raise DataError(msg)
    if not named or (isinstance(table.index, pd.RangeIndex) and not isinstance(index, pd.RangeIndex)):
        if len(table) != len(index):
            msg = f"{who}: frame has {len(table)} rows without names for {len(index)} training samples."
            raise DataError(msg)
        return table.set_axis(index)
    if not table.index.isin(index).any():
        msg = f"{who}: frame names no training sample; its index must be like index_, such as {index[0]!r}."
        raise DataError(msg)
    return table.reindex(index)


def _of_column(
    who: str,
    name: Any,
    column: "pd.Series[Any]",
    labels: NDArray[np.int64],
    rng: np.random.Generator,
    n_permutations: int,
) -> tuple[str, Association]:
    """Return what kind of column it is, and how it goes with the clusters."""
    known = column.notna().to_numpy()
    column, labels = column[known], labels[known]
    if is_numeric_dtype(column.dtype) and not is_bool_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64)
        if not np.isfinite(values).all():
            msg = f"{who}: column {name!r} holds an infinite value; correct it, or leave it empty."
            raise DataError(msg)
        return "number", of_numbers(values, labels, rng, n_permutations)
    groups = pd.factorize(column.astype(str))[0]
    counts = np.zeros((groups.max(initial=0) + 1, labels.max(initial=0) + 1), dtype=np.int64)
    np.add.at(counts, (groups, labels), 1)
    return "category", of_counts(counts, rng, n_permutations)
