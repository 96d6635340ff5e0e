"""How long the samples of each cluster survive: Kaplan-Meier curves and the log-rank test, by lifelines."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.base import DataError
from acova.base.errors import require
from acova.base.html import html_table

Floats = NDArray[np.float64]
LEAST_EVENTS = 5
"""Events below which survival is not compared."""
_EXPECTED = 5
"""Expected events of a cluster below which the chi-square distribution is a rough approximation."""


@dataclass(frozen=True, eq=False)
class Survival:
    """Survival by cluster, see `compare`.

    Attributes
    ----------
    chi2, p_value : float
        Of the log-rank test over all clusters.
    degrees_of_freedom : int
        Compared clusters minus one. A cluster of which no sample is at risk at any event says nothing and is not
        compared.
    clusters : DataFrame
        One row per cluster that has a sample with time and event: ``n_samples``, ``n_events``, ``expected`` (events,
        if all clusters survived alike), ``median`` (the first time at which at most half are without the event;
        infinite where the curve stays above one half).
    curves : DataFrame
        Kaplan-Meier curves, one row per cluster and time at which something happens: ``cluster``, ``time``,
        ``at_risk``, ``events``, ``survival``, and ``lower`` and ``upper``, its pointwise 95 % confidence interval
        (Greenwood's variance of log(-log)). Every curve starts at time 0.
    n_left_out : int
        Training samples without time or event.

    See Also
    --------
    acova.ACOVA.compare : Makes it.
    acova.plots.SurvivalDisplay : Draws the curves.
    """

    chi2: float
    p_value: float
    degrees_of_freedom: int
    clusters: pd.DataFrame
    curves: pd.DataFrame
    n_left_out: int

    @property
    def medians(self) -> "pd.Series[float]":
        """Median survival time of each cluster."""
        return self.clusters["median"]

    @property
    def summary(self) -> str:
        """The test in words, with what speaks against believing it."""
        samples, events = self.clusters["n_samples"].sum(), self.clusters["n_events"].sum()
        text = (
            f"Log-rank test: chi2 = {self.chi2:.2f}, {self.degrees_of_freedom} df, p = {self.p_value:.2g}; "
            f"{samples} samples with {events} events, {self.n_left_out} without time or event."
        )
        few = [str(k) for k, expected in self.clusters["expected"].items() if expected < _EXPECTED]
        if few:
            text += f" Fewer than {_EXPECTED} expected events in cluster {', '.join(few)}: p is a rough approximation."
        return text

    def __repr__(self) -> str:
        return f"{self.summary}\n{self.clusters.round(2).to_string()}"

    def _repr_html_(self) -> str:
        rows = [
            (cluster, *(f"{one[name]:.0f}" for name in ("n_samples", "n_events")), f"{one['expected']:.1f}",
             f"{one['median']:.4g}" if np.isfinite(one["median"]) else "not reached")
            for cluster, one in self.clusters.iterrows()
        ]  # fmt: skip
        return html_table("Survival", ("cluster", "samples", "events", "expected", "median"), rows, self.summary)


def compare_survival(
    who: str, labels: NDArray[np.int64], times: Floats, events: NDArray[np.bool_], n_left_out: int = 0
) -> Survival:
    """Return the survival of each cluster.

    Parameters
    ----------
    who : str
        Named in errors.
    labels, times, events : ndarray of shape (n,)
        Cluster, time from 0 on, and whether the event came at this time; otherwise the sample was observed up to it.
    n_left_out : int, default: 0
        Samples without time or event, to be told in the result.
    """
    if events.sum() < LEAST_EVENTS:
        msg = (
            f"{who}: survival needs at least {LEAST_EVENTS} events among the samples with time and event; got "
            f"{events.sum()} among {len(events)}. Check that 1 or True marks the event, not censoring."
        )
        raise DataError(msg)
    expected = expected_events(labels, times, events)
    compared = np.isin(labels, [k for k, number in expected.items() if number > 0])
    n_compared = len(np.unique(labels[compared]))
    if n_compared < 2:
        msg = f"{who}: survival needs at least two clusters with samples at risk when events come; got {n_compared}."
        raise DataError(msg)
    lifelines = require("lifelines", who, "survival")
    statistics = require("lifelines.statistics", who, "survival")
    test = statistics.multivariate_logrank_test(times[compared], labels[compared], events[compared])
    rows, curves = {}, []
    for k, number in expected.items():
        own = labels == k
        fitted = lifelines.KaplanMeierFitter().fit(times[own], events[own])
        curves.append(_curve(k, fitted))
        rows[k] = (int(own.sum()), int(events[own].sum()), number, _median(curves[-1]))
    clusters = pd.DataFrame.from_dict(rows, orient="index", columns=["n_samples", "n_events", "expected", "median"])
    return Survival(
        float(test.test_statistic),
        float(test.p_value),
        n_compared - 1,
        clusters.rename_axis("cluster"),
        pd.concat(curves, ignore_index=True),
        n_left_out,
    )


def expected_events(labels: NDArray[np.int64], times: Floats, events: NDArray[np.bool_]) -> dict[int, float]:
    """Return how many events each cluster would have if all survived alike.

    At each time the events are shared among the clusters as the samples at risk are.
    """
    moments, deaths = np.unique(times[events], return_counts=True)

    def at_risk(own: Floats) -> NDArray[np.int64]:
        return len(own) - np.searchsorted(np.sort(own), moments)

    hazard = deaths / at_risk(times)
    return {int(k): float(at_risk(times[labels == k]) @ hazard) for k in np.unique(labels)}


def _curve(cluster: int, fitted: Any) -> pd.DataFrame:
    """Return what lifelines found of one cluster, in the columns of `Survival.curves`."""
    table, interval = fitted.event_table, fitted.confidence_interval_
    return pd.DataFrame(
        {
            "cluster": cluster,
            "time": table.index.to_numpy(dtype=np.float64),
            "at_risk": table["at_risk"].to_numpy(dtype=np.int64),
            "events": table["observed"].to_numpy(dtype=np.int64),
            "survival": fitted.survival_function_.iloc[:, 0].to_numpy(dtype=np.float64),
            "lower": interval.iloc[:, 0].to_numpy(dtype=np.float64),
            "upper": interval.iloc[:, 1].to_numpy(dtype=np.float64),
        }
    )


def _median(curve: pd.DataFrame) -> float:
    """Return the first time at which survival is at most one half, which products of shares may miss by rounding."""
    reached = curve["time"][curve["survival"] <= 0.5 + 1e-9]
    return float(reached.iloc[0]) if len(reached) else np.inf
