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
    """

    views: Sequence[Tensor]
    observed: Tensor
    targets: Sequence[Tensor] = ()

    @property
    def decoded(self) -> Sequence[Tensor]:
        """What latent vectors are decoded to."""
        return self.targets or self.views

    def rows(self, rows: slice) -> "Batch":
        """Return some of the samples."""
        return Batch([view[rows] for view in self.views], self.observed[rows], [part[rows] for part in self.targets])

    def split(self, size: int) -> list["Batch"]:
        """Cut the samples into pieces of at most this many."""
        views, targets = ([torch.split(part, size) for part in parts] for parts in (self.views, self.targets))
        return [
            Batch([part[i] for part in views], observed, [part[i] for part in targets])
            for i, observed in enumerate(torch.split(self.observed, size))
        ]
