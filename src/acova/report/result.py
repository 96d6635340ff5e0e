"""The result that a report is about, with what several sections need of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from acova.plots import ClusterDisplay
from acova.report.islands import Islands, find_islands
from acova.report.samples import choose_samples, sample_columns

MAX_SAMPLES = 3000
"""Samples that the map and the table show."""


@dataclass(frozen=True)
class Result:
    """A fitted model and the choices of who asks for the report.

    Attributes
    ----------
    model : fitted estimator
    method : {"t-SNE", "PCA", "UMAP"}
        How the map of the samples is made.
    covariates : dict of name → Series
        Numbers or categories by which the map can be coloured, each with the index of the model's samples.
    other : fitted estimator, optional
        Another result of the same samples, to compare with.
    other_name : str
        What the report calls it.
    given : tuple of str
        The covariates that were given, and are no features of the views.
    time, event : str, optional
        Those of them that say how long samples survived.
    """

    model: Any
    method: str = "t-SNE"
    covariates: Mapping[str, pd.Series] = field(default_factory=dict)
    other: Any = None
    other_name: str = "the other run"
    given: tuple[str, ...] = ()
    time: str | None = None
    event: str | None = None

    def frame(self, names: Sequence[str]) -> pd.DataFrame:
        """Return some covariates under the samples' names; infinite numbers are left out."""
        columns = {name: self.covariates[name].to_numpy() for name in names}
        return pd.DataFrame(columns, index=self.model.index_).replace([np.inf, -np.inf], np.nan)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The cluster of every sample."""
        return np.asarray(self.model.labels_)

    @cached_property
    def confidence(self) -> NDArray[Any] | None:
        """The probability of every sample's cluster; None where the method has no probabilities."""
        shares = getattr(self.model, "probabilities_", None)
        return None if shares is None else np.asarray(shares).max(axis=1)

    @cached_property
    def agreement(self) -> NDArray[Any] | None:
        """The share of runs that agree on every sample's cluster; None where one run decides."""
        several = getattr(self.model, "n_voters_", 1) > 1
        return np.asarray(self.model.agreement_) if several else None

    @cached_property
    def display(self) -> ClusterDisplay:
        """Sizes and bands of confidence by cluster."""
        return ClusterDisplay(self.labels, self.confidence, n_clusters=self.model.n_clusters_)

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """Positions of the samples that are shown."""
        return choose_samples(self.labels, self.model.n_clusters_, MAX_SAMPLES)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The samples that are shown, as `sample_columns` gives them."""
        return sample_columns(self.model, self.rows, self.method)

    @cached_property
    def islands(self) -> Islands | None:
        """The islands of the clusters on the map; None without a map."""
        if "x" not in self.columns:
            return None
        points = np.column_stack([self.columns["x"], self.columns["y"]])
        latent = np.asarray(self.model.latent_[self.rows], dtype=np.float64)
        return find_islands(points, latent, self.labels[self.rows], self.model.n_clusters_)
