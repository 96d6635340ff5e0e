"""What clusterers with a latent space share: `transform`, and the table of a result."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._set_output import _get_output_config


class LatentMixin(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """For clusterers whose samples have a place in a latent space."""

    latent_: NDArray[np.float32]
    index_: pd.Index

    def fit_transform(self, X: Any, y: Any = None, *, observed: Any = None) -> Any:
        """Fit, and return the place of each sample in the latent space; see `transform`."""
        self.fit(X, observed=observed)
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
