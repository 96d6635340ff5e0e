"""What clusterers with a latent space share: `transform`, and the table of a result."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config

_TABLE_ROWS = 65536
Array = NDArray[np.float32]


class LatentMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """For clusterers whose samples have a place in a latent space."""

    latent_: NDArray[np.float32]
    index_: pd.Index

    def fit_transform(self, X: Any, y: Any = None, *, observed: Any = None) -> Any:
        """Fit, and return the place of each sample in the latent space; see `transform`."""
        self.fit(X, y, observed=observed)
        return self._in_container(self.latent_, self.index_)

    def _in_container(self, latent: NDArray[np.float32], index: pd.Index) -> Any:
        """Name the rows for pandas: scikit-learn finds names only in a single DataFrame, not in views."""
        if _get_output_config("transform", self)["dense"] != "pandas":
            return latent
        return pd.DataFrame(latent, index=index)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags


def table_of_assignments(
    index: pd.Index,
    probabilities: NDArray[np.float32],
    weights: NDArray[np.float32],
    names: Sequence[str],
    agreement: NDArray[np.float32] | None = None,
) -> pd.DataFrame:
    """Return one row per sample: label, confidence, agreement of a consensus, probabilities and weights of views."""
    table = {"label": probabilities.argmax(axis=1), "confidence": probabilities.max(axis=1)}
    if agreement is not None:
        table["agreement"] = agreement
    table |= {f"p_{k}": probabilities[:, k] for k in range(probabilities.shape[1])}
    table |= {f"weight_{name}": weights[:, v] for v, name in enumerate(names)}
    return pd.DataFrame(table, index=index)


def pieces_of(*per_sample: Array) -> Iterator[tuple[Array, ...]]:
    """Yield arrays with one row per sample piece by piece."""
    for start in range(0, len(per_sample[0]), _TABLE_ROWS):
        yield tuple(array[start : start + _TABLE_ROWS] for array in per_sample)


def tables_of_assignments(
    index: pd.Index, parts: Iterable[tuple[Array, ...]], names: Sequence[str], *, consensus: bool
) -> Iterator[pd.DataFrame]:
    """Yield `table_of_assignments` of consecutive samples, from their probabilities, weights and agreement."""
    start = 0
    for probabilities, weights, agreement in parts:
        rows = slice(start, start + len(probabilities))
        yield table_of_assignments(index[rows], probabilities, weights, names, agreement if consensus else None)
        start += len(probabilities)
