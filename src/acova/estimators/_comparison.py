"""What clusters mean outside of the data that were clustered: other columns, and survival."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from sklearn.utils.validation import check_is_fitted

from acova.base import DataError, OptionError
from acova.base.errors import check_number, near_miss
from acova.base.html import html_table
from acova.clustering.survival import Survival, compare_survival
from acova.estimators._checks import aligned


@dataclass(frozen=True, eq=False)
class ClusterComparison:
    """Clusters compared by columns that were not clustered, as ``model.compare(frame, time, event)`` returns it.

    Attributes
    ----------
    table : DataFrame
        One row per column: ``kind``, ``effect``, ``p_value``, ``q_value`` and ``n_samples``, as `check_against` of the
        model returns them.
    survival : acova.estimators.Survival or None
        Survival by cluster, where `time` and `event` were given.

    See Also
    --------
    Survival : Survival by cluster.
    acova.ACOVA.check_against : The table alone.
    """

    table: pd.DataFrame
    survival: Survival | None = None

    def __repr__(self) -> str:
        parts = [] if self.table.empty else [self.table.round(3).to_string()]
        return "\n\n".join(parts + ([] if self.survival is None else [repr(self.survival)]))

    def _repr_html_(self) -> str:
        columns = ("column", "kind", "effect", "p", "q", "samples")
        rows = [
            (name, one["kind"], *(_number(one[key]) for key in ("effect", "p_value", "q_value")), one["n_samples"])
            for name, one in self.table.iterrows()
        ]
        text = html_table("What the clusters go with", columns, rows) if rows else ""
        return text if self.survival is None else text + self.survival._repr_html_()


class ComparisonMixin:
    """For clusterers with `ChecksMixin`: their clusters compared by what was not clustered."""

    labels_: NDArray[np.int64]
    index_: pd.Index
    check_against: Callable[..., pd.DataFrame]

    def compare(
        self, frame: Any, time: Any = None, event: Any = None, *, n_permutations: int = 9999
    ) -> ClusterComparison:
        """Compare the clusters by columns that were not clustered, and by survival.

        Parameters
        ----------
        frame : DataFrame, or dict of column → values
            One row per sample under the names of the training samples (`index_`); samples may be absent, or in another
            order. Without an index of names, rows are in the order of the training samples.
        time : str, default: None
            The column of `frame` that says how long the sample was observed, from 0 on. With it survival is compared,
            which needs ``pip install 'acova[survival]'``.
        event : str, default: None
            The column of `frame` that says whether the event (death, relapse) came at that time: 1 or True; 0 or False
            where the sample was only observed until then (censored).
        n_permutations : int, default: 9999
            For the p-values of the columns.

        Returns
        -------
        ClusterComparison
            ``table`` is that of `check_against` for all columns but `time` and `event`. ``survival`` has the log-rank
            test over all clusters (``chi2``, ``p_value``), a row per cluster (``clusters``, ``medians``) and
            Kaplan-Meier curves (``curves``). Samples without time or event are left out of it and counted
            (``n_left_out``). `acova.plots.SurvivalDisplay` draws the curves.

        Notes
        -----
        Do not test what was clustered. If a column was a feature of a view, or survival was known to the clustering (it
        chose the features, the settings or the number of clusters), clusters differ in it by construction, and the
        p-values mean nothing.

        See Also
        --------
        missingness_check : Do the clusters follow who lacks which view?
        acova.plots.SurvivalDisplay : Kaplan-Meier curves.
        """
        check_is_fitted(self, "labels_")
        who = f"{type(self).__name__}.compare"
        check_number(who, "n_permutations", n_permutations, minimum=1, integer=True)
        table = aligned(who, frame, self.index_)
        if time is None and event is None:
            return ClusterComparison(self.check_against(table, n_permutations=n_permutations))
        _check_names(who, table, time, event)
        survival = _survival(who, table[time], table[event], np.asarray(self.labels_))
        others = table.drop(columns=[time, event])
        return ClusterComparison(self.check_against(others, n_permutations=n_permutations), survival)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.3g}"


def _check_names(who: str, table: pd.DataFrame, time: Any, event: Any) -> None:
    if time is None or event is None:
        given, lacking = ("time", "event") if event is None else ("event", "time")
        msg = f"{who}: {given} needs {lacking}; name the columns of both, or neither."
        raise OptionError(msg)
    for option, name in (("time", time), ("event", event)):
        if not isinstance(name, Hashable):
            msg = f"{who}: {option} must name a column of frame; got {type(name).__name__}."
            raise OptionError(msg)
        if name not in table.columns:
            known = ", ".join(map(repr, table.columns))
            hint = near_miss(name, map(str, table.columns))
            msg = f"{who}: {option} must name a column of frame ({known}); got {name!r}.{hint}"
            raise OptionError(msg)
    if time == event:
        msg = f"{who}: time and event must be two columns; got {time!r} for both."
        raise OptionError(msg)


def _survival(who: str, time: "pd.Series[Any]", event: "pd.Series[Any]", labels: NDArray[np.int64]) -> Survival:
    """Return the survival of the samples that have time and event."""
    known = (time.notna() & event.notna()).to_numpy()
    times, events = _times(who, time[known]), _events(who, event[known])
    return compare_survival(who, labels[known], times, events, int((~known).sum()))


def _times(who: str, column: "pd.Series[Any]") -> NDArray[np.float64]:
    rule = f"{who}: the times in column {column.name!r} must be finite numbers from 0 on"
    if is_bool_dtype(column.dtype) or not is_numeric_dtype(column.dtype):
        msg = f"{rule}; got {column.dtype}. Convert dates to durations, such as days since diagnosis."
        raise DataError(msg)
    times = column.to_numpy(dtype=np.float64)
    wrong = ~(np.isfinite(times) & (times >= 0))
    if wrong.any():
        place = int(wrong.argmax())
        msg = (
            f"{rule}; got {times[place]:g} for sample {column.index.tolist()[place]!r}. Correct it, or leave it empty."
        )
        raise DataError(msg)
    return times


def _events(who: str, column: "pd.Series[Any]") -> NDArray[np.bool_]:
    wrong = ~column.isin([0, 1]).to_numpy()
    if wrong.any():
        place = int(wrong.argmax())
        msg = (
            f"{who}: column {column.name!r} must say of each event 1 or True (it came), or 0 or False (censored); got "
            f"{column.tolist()[place]!r} for sample {column.index.tolist()[place]!r}. Translate it, or leave it empty."
        )
        raise DataError(msg)
    return column.to_numpy(dtype=bool)
