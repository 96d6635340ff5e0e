"""The data of the stress suite: two views that tell the clusters apart, and whatever stands beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

from acova.data import MadeDataset, make_views


def omics(
    beside: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    rna: Sequence[int] = (300, 60),
    protein: Sequence[int] = (40, 10),
    separation: float = 0.9,
    kind: str = "gaussian",
    **keywords: Any,
) -> MadeDataset:
    """Return RNA-like and protein-like views, and others beside them.

    Parameters
    ----------
    beside : dict of name → dict
        More views, as `acova.data.make_views` takes them; they leave the first two as they are.
    rna, protein : pair of int
        Columns, and how many of them are informative.
    separation : float
        Standard deviation of the clusters' means, in units of the errors.
    kind : {"gaussian", "heavy_tails"}
    **keywords
        For `acova.data.make_views`.
    """
    shared = {"separation": separation, "kind": kind}
    first = {
        name: {"n_features": size, "n_informative": informative, **shared}
        for name, (size, informative) in (("rna", rna), ("protein", protein))
    }
    return make_views(views={**first, **(beside or {})}, **keywords)
