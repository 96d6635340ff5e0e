"""How many clusters views have, and whether they have any: silhouettes on a graph, against data without clusters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, silhouette_score

from acova.base import Streams
from acova.clustering.agreement import agreement_weights, view_agreement
from acova.clustering.graphs import combined_graph, view_graphs
from acova.clustering.kmeans import k_means
from acova.clustering.nearest import Floats
from acova.clustering.reference import GaussianReference
from acova.clustering.spectral import link_weights, rows_of_length_one, spread_rows, walk_eigenvectors
from acova.engine.parallel import single_threaded

LINKED = 2_000
"""Samples that are linked, evenly spread where there are more."""
_COMPARED = 1_000
"""Samples whose silhouettes are averaged."""
_TYPICAL = 8
"""Number of clusters for which neighbourhoods have their size, the same for all candidates."""
_RESAMPLES, _KEPT, _RESTARTS = 5, 0.8, 3
_LEVEL = 0.05
_LEAST_GAIN = 0.1
"""Silhouette above that of data without clusters from which on clusters count as such."""
_LEAST_VALUE = 1e-3
FEWEST_REFERENCES = 19
"""References with which a p-value can be as small as 0.05."""
_SAMPLES_PER_CLUSTER = 3


@dataclass(frozen=True)
class ClusterNumbers:
    """How well each number of clusters fits, and which one was chosen; see `select_n_clusters`.

    Attributes
    ----------
    n_clusters : int
        The choice; 1 where no clusters can be distinguished from chance.
    reason : str
        The choice in words.
    p_value : float
        How often data without clusters gain as much as these.
    candidates : tuple of int
    silhouette, expected, spread, stability, eigengap : tuple of float
        One number per candidate, the columns of `table`.
    """

    n_clusters: int
    reason: str
    p_value: float
    candidates: tuple[int, ...]
    silhouette: tuple[float, ...]
    expected: tuple[float, ...]
    spread: tuple[float, ...]
    stability: tuple[float, ...]
    eigengap: tuple[float, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per candidate.

        ``silhouette``: of the clusters, in the space of the random walk on the graph of all views; ``expected`` and
        ``spread``: its mean and standard deviation in data without clusters; ``gain``: silhouette minus expected, by
        which the number is chosen; ``stability``: adjusted Rand index between the clusters of all samples and of 80 %
        of them, mean of five draws; ``eigengap``: by how much the walk's eigenvalues fall after this one.
        """
        columns = {name: getattr(self, name) for name in ("silhouette", "expected", "spread", "stability", "eigengap")}
        table = pd.DataFrame(columns, index=pd.Index(self.candidates, name="n_clusters"))
        table.insert(3, "gain", table["silhouette"] - table["expected"])
        return table


def most_candidates(n_samples: int) -> int:
    """Return the largest number of clusters that can be asked about."""
    return n_samples // _SAMPLES_PER_CLUSTER


@single_threaded()
def cluster_numbers(
    tables: Sequence[NDArray[Any]],
    observed: NDArray[np.bool_],
    candidates: Sequence[int],
    streams: Streams,
    n_references: int,
) -> ClusterNumbers:
    """Return how well each number of clusters fits scaled views.

    Parameters
    ----------
    tables : sequence of V arrays of shape (n_samples, P_v)
        Scaled views; hidden rows are not read. Of more than 2,000 samples, evenly spread ones are looked at.
    observed : array of bool, shape (n_samples, V)
    candidates : sequence of int
        Numbers from 2 to `most_candidates`, ascending.
    streams : Streams
    n_references : int
        Data sets without clusters to compare with.
    """
    rows = spread_rows(len(observed), LINKED)
    tables, observed = [np.asarray(table[rows], dtype=np.float64) for table in tables], observed[rows]
    reference = GaussianReference.of(tables, observed)
    graph = _graph(tables, observed)
    found = _Scan.of(graph, candidates, streams)
    expected = np.array(
        [
            _Scan.of(_graph(reference.draw(streams.numpy("reference", draw)), observed), candidates, streams).silhouette
            for draw in range(n_references)
        ]
    )
    gain = found.silhouette - expected.mean(axis=0)
    # A reference is compared with the others, as the data are compared with all of them.
    by_chance = (expected - expected.mean(axis=0)).max(axis=1) * n_references / (n_references - 1)
    p_value = float((1 + (by_chance >= gain.max()).sum()) / (n_references + 1))
    chosen = candidates[int(gain.argmax())] if p_value <= _LEVEL and gain.max() >= _LEAST_GAIN else 1
    stability = found.stability(graph, streams)
    reason = _reason(chosen, list(candidates), found.silhouette, gain, stability, p_value)
    return ClusterNumbers(
        chosen,
        reason,
        p_value,
        tuple(candidates),
        silhouette=_floats(found.silhouette),
        expected=_floats(expected.mean(axis=0)),
        spread=_floats(expected.std(axis=0, ddof=1)),
        stability=_floats(stability),
        eigengap=_floats(found.eigengap),
    )


def _floats(values: Floats) -> tuple[float, ...]:
    return tuple(values.tolist())


def _graph(tables: Sequence[Floats], observed: NDArray[np.bool_]) -> sp.csr_matrix:
    """Return the graph of all views, each trusted as far as it agrees with another."""
    agreement = view_agreement(tables, observed, _TYPICAL)
    trust = agreement_weights(agreement, tables, observed, _TYPICAL)
    return combined_graph(view_graphs(tables, observed, _TYPICAL), observed, trust)


@dataclass(frozen=True)
class _Scan:
    """The clusters of a graph for every candidate: labels (C, n), mean silhouettes (C,) and eigengaps (C,)."""

    candidates: Sequence[int]
    labels: NDArray[np.intp]
    silhouette: Floats
    eigengap: Floats

    @classmethod
    def of(cls, graph: sp.csr_matrix, candidates: Sequence[int], streams: Streams) -> "_Scan":
        values, vectors = (part[..., ::-1] for part in walk_eigenvectors(graph, max(candidates) + 1))
        weights, seed = link_weights(graph), streams.integer("k-means")
        rows = spread_rows(len(weights), _COMPARED)
        labels, silhouettes = [], []
        for count in candidates:
            points = rows_of_length_one(vectors[:, :count] * values[:count].clip(_LEAST_VALUE, 1))
            labels.append(k_means(points, count, seed, _RESTARTS, weights).labels)
            silhouettes.append(_silhouette(points[rows], labels[-1][rows]))
        gaps = values[np.array(candidates) - 1] - values[np.array(candidates)]
        return cls(candidates, np.array(labels), np.array(silhouettes), gaps)

    def stability(self, graph: sp.csr_matrix, streams: Streams) -> Floats:
        """Return how far the clusters of parts of the samples are those of all, by candidate: adjusted Rand index."""
        count = graph.shape[0]
        scores = []
        for draw in range(_RESAMPLES):
            kept = streams.numpy("resample", draw).permutation(count)[: max(round(_KEPT * count), 1)]
            kept.sort()
            part = _Scan.of(graph[kept][:, kept], self.candidates, streams)
            pairs = zip(self.labels[:, kept], part.labels, strict=True)
            scores.append([adjusted_rand_score(whole, some) for whole, some in pairs])
        return np.asarray(np.mean(scores, axis=0))


def _silhouette(points: Floats, labels: NDArray[np.intp]) -> float:
    """Return the mean silhouette; 0 where there are no two clusters, or no two samples in one."""
    if not 1 < len(np.unique(labels)) < len(labels):
        return 0.0
    return float(silhouette_score(points, labels))


def _reason(
    chosen: int, candidates: list[int], silhouette: Floats, gain: Floats, stability: Floats, p_value: float
) -> str:
    """Say in words what was chosen and why."""
    best = int(gain.argmax())
    if chosen == 1:
        return (
            f"No clusters: with {candidates[best]} clusters, the best number, the silhouette is "
            f"{silhouette[best]:.2f}, {_than(gain[best])} in data with the same covariance and missing views but "
            f"without clusters (p = {p_value:.2g}). That is within chance, or below the {_LEAST_GAIN} from which "
            "clusters count as such."
        )
    text = (
        f"{chosen} clusters: their silhouette is {silhouette[best]:.2f}, {_than(gain[best])} in data with the same "
        f"covariance and missing views but without clusters (p = {p_value:.2g}), more than for any other number. "
        f"Clusters of 80 % of the samples are the same up to an adjusted Rand index of {stability[best]:.2f}."
    )
    rest = np.delete(np.arange(len(gain)), best)
    if rest.size:
        second = int(rest[gain[rest].argmax()])
        text += f" The next best number is {candidates[second]}, {_than(gain[second])} without clusters."
    return text


def _than(gain: float) -> str:
    return f"{abs(gain):.2f} {'higher' if gain >= 0 else 'lower'} than"
