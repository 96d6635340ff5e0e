"""Batches that take as many rows from each of several groups."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from acova.base import Streams
from acova.engine.data import RunData, Window
from acova.engine.runtime import generator


class StratifiedData(RunData):
    """The data of R runs, of which an epoch is one batch: a number of rows from each group of rows.

    A group is gone through in one random order after the other, so a group that is smaller than its part of the batch
    has rows in it twice. What a batch holds depends on its number alone.

    Parameters
    ----------
    data : RunData
        Shares its memory.
    groups : sequence of tensors of shape (R, m_g)
        Every run's rows of each group.
    count : int
        Rows of each group in a batch, which come in the order of the groups.
    derived : bool
        As for `RunData`.
    """

    def __init__(self, data: RunData, groups: Sequence[Tensor], count: int, *, derived: bool = False) -> None:
        super().__init__(
            data.views, data.observed, data_set=data.data_set, n_samples=count * len(groups), derived=derived
        )
        self._groups, self._count = list(groups), count

    def windows(self, streams: Sequence[Streams], epoch: int) -> Iterator[Window]:
        """Yield the batch with this number."""
        runs = [
            torch.cat([self._drawn(group[run], number, stream, epoch) for number, group in enumerate(self._groups)])
            for run, stream in enumerate(streams)
        ]
        yield Window(torch.stack(runs), slice(0, self.n_samples), [(0, self.observed.shape[1])])

    def _drawn(self, rows: Tensor, group: int, streams: Streams, epoch: int) -> Tensor:
        """Return the rows at the batch's places in the endless row of orders."""
        start, stop = epoch * self._count, (epoch + 1) * self._count
        size, parts = len(rows), []
        for turn in range(start // size, -(-stop // size)):
            seed = streams.integer("group", group, turn)
            order = torch.randperm(size, generator=generator(seed, self.device), device=self.device)
            parts.append(order[max(start - turn * size, 0) : stop - turn * size])
        return rows[torch.cat(parts)]
