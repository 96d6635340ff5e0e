"""What a loss is given of some samples."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Batch(NamedTuple):
    """Samples with their views; with a leading axis of runs where several runs train together.

    Attributes
    ----------
    views : sequence of V tensors of shape (N, P_v)
        What is encoded; rows of hidden views mean nothing.
    observed : Tensor of bool, shape (N, V)
    targets : sequence of V tensors of shape (N, P_v), or empty
        What latent vectors are decoded to; empty means the views.
    labels : sequence of one Tensor of int, shape (N,), or empty
        The cluster of samples of which it is known, -1 for the others.
    """

    views: Sequence[Tensor]
    observed: Tensor
    targets: Sequence[Tensor] = ()
    labels: Sequence[Tensor] = ()

    @property
    def decoded(self) -> Sequence[Tensor]:
        """What latent vectors are decoded to."""
        return self.targets or self.views

    def rows(self, rows: slice) -> "Batch":
        """Return some of the samples."""
        parts = ([part[rows] for part in kind] for kind in (self.views, self.targets, self.labels))
        views, targets, labels = parts
        return Batch(views, self.observed[rows], targets, labels)

    def split(self, size: int) -> list["Batch"]:
        """Cut the samples into pieces of at most this many."""
        kinds = (self.views, self.targets, self.labels)
        views, targets, labels = ([torch.split(part, size) for part in parts] for parts in kinds)
        return [
            Batch([part[i] for part in views], observed, [part[i] for part in targets], [part[i] for part in labels])
            for i, observed in enumerate(torch.split(self.observed, size))
        ]
