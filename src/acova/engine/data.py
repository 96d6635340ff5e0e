"""What training is fed: data that stay on the device, or windows of rows read from disk; with order and noise.

Order and noise come from a run's named streams: the order of a window's samples from the epoch and the window, the
noise of a block of samples from the epoch and the block. So neither batching, nor the runs beside it, nor the number of
processes that share the samples changes what is drawn.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from acova.base import Streams
from acova.engine.distributed import ALONE, Processes
from acova.engine.runtime import generator
from acova.functional import Batch

BLOCK = 1024
"""Samples that share one stream of noise, and that are read from disk at once."""
WINDOW_BYTES = 2**27
"""Memory of a window of rows read from disk."""
_MIN_BLOCKS = 16

Reader = Callable[[int, int], Batch]
"""``read(start, stop)`` gives the samples from `start` to `stop`."""


class RunData:
    """The data of R runs on the device; runs on the same data share one copy.

    Parameters
    ----------
    views : sequence of V tensors of shape (S, n, P_v)
        S distinct data sets.
    observed : Tensor of bool, shape (S, n, V)
    targets : sequence of V tensors of shape (S, n, P_v), or empty
        What the views are decoded to, if that is something else.
    labels : sequence of one Tensor of shape (S, n), or empty
        The cluster of samples of which it is known, -1 for the others.
    data_set : sequence of R int, optional
        Which of the S data sets each run has; by default run r has data set r, or all have the only one.
    n_samples : int, optional
        Number of samples of all processes together; by default those given.
    processes : Processes
        With several, the data given are this process's `share` of the samples.
    rows : Tensor of shape (R, m), optional
        The rows that an epoch of each run goes through; by default all.
    derived : bool
        Whether training writes to the views, so that a checkpoint must keep them.
    """

    def __init__(
        self,
        views: Sequence[Tensor],
        observed: Tensor,
        *,
        targets: Sequence[Tensor] = (),
        labels: Sequence[Tensor] = (),
        data_set: Sequence[int] | None = None,
        n_samples: int | None = None,
        processes: Processes = ALONE,
        rows: Tensor | None = None,
        derived: bool = False,
    ) -> None:
        self.views, self.observed, self.targets, self.labels = list(views), observed, list(targets), list(labels)
        self.data_set = list(range(len(observed)) if data_set is None else data_set)
        self._data_set = torch.tensor(self.data_set, device=observed.device)
        self.n_samples = observed.shape[1] if n_samples is None else n_samples
        self.device = observed.device
        self.processes = processes
        self.rows = rows
        self._derived = derived
        if rows is not None:
            self.n_samples = rows.shape[1]

    @property
    def resident(self) -> "RunData":
        """What batches are taken from."""
        return self

    def batch(self, rows: Tensor) -> Batch:
        """Return each run's own rows, with a leading axis of runs, for row numbers (R, B)."""
        at, numbers = self._data_set.unsqueeze(-1), rows.flatten()

        def take(part: Tensor) -> Tensor:
            if len(self.observed) > 1:
                return part[at, rows]
            return part[0].index_select(0, numbers).view(*rows.shape, *part.shape[2:])

        views, targets, labels = (list(map(take, parts)) for parts in (self.views, self.targets, self.labels))
        return Batch(views, take(self.observed), targets, labels)

    def of_run(self, run: int) -> Batch:
        """Return all samples of one run that this process has."""
        at = int(self._data_set[run]) if len(self.observed) > 1 else 0
        views, targets, labels = ([part[at] for part in parts] for parts in (self.views, self.targets, self.labels))
        return Batch(views, self.observed[at], targets, labels)

    def windows(self, streams: Sequence[Streams], epoch: int) -> Iterator["Window"]:
        """Yield all samples as one window."""
        share = self.processes.share(self.n_samples)
        order = torch.stack([_order(stream, epoch, 0, self.n_samples, self.device) for stream in streams])
        if self.rows is None:
            yield Window(order, share, [(share.start, share.stop)])
        else:
            yield Window(self.rows.gather(1, order), share, [(0, self.observed.shape[1])])

    def state(self) -> dict[str, Tensor]:
        """Return what training wrote to the views."""
        return {f"data.{v}": view for v, view in enumerate(self.views)} if self._derived else {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go back to an earlier `state`."""
        for v, view in enumerate(self.views if self._derived else ()):
            view.copy_(tensors[f"data.{v}"])


class StreamedData:
    """The data of one run on disk, read a window of blocks at a time into one fixed place on the device.

    An epoch takes the blocks in random order; a window holds as many as `window_bytes` allow, and its samples are
    shuffled. Memory is that of one window, however many samples there are.

    Parameters
    ----------
    read : callable
        See `Reader`; it gives tensors on the CPU.
    n_samples : int
    sizes : sequence of int
        Number of features of each view.
    device : torch.device
    processes : Processes
        With several, each reads its `share` of every window.
    window_bytes : int
    """

    def __init__(
        self,
        read: Reader,
        n_samples: int,
        sizes: Sequence[int],
        device: torch.device,
        *,
        processes: Processes = ALONE,
        window_bytes: int | None = None,
    ) -> None:
        self._read, self.n_samples, self.device, self.processes = read, n_samples, device, processes
        window_bytes = WINDOW_BYTES if window_bytes is None else window_bytes
        self.blocks = max(_MIN_BLOCKS, window_bytes // (4 * sum(sizes) * BLOCK))
        rows = -(-min(n_samples, self.blocks * BLOCK) // processes.size)
        rows = rows + BLOCK if processes.size > 1 else rows
        views = [torch.zeros(1, rows, size, dtype=torch.float32, device=device) for size in sizes]
        observed = torch.zeros(1, rows, len(views), dtype=torch.bool, device=device)
        self.resident = RunData(views, observed)

    @property
    def partial(self) -> bool:
        """Whether `of_run` gives some of the samples alone."""
        return -(-self.n_samples // BLOCK) > self.blocks

    def read(self, start: int, stop: int) -> Batch:
        """Return the samples with these numbers, whoever's share they are."""
        part = self._read(start, stop)
        return Batch([view.to(self.device) for view in part.views], part.observed.to(self.device))

    def windows(self, streams: Sequence[Streams], epoch: int) -> Iterator["Window"]:
        """Read one window after the other."""
        (stream,) = streams
        starts = _order(stream.child("blocks"), epoch, 0, -(-self.n_samples // BLOCK), torch.device("cpu")) * BLOCK
        for number, chosen in enumerate(torch.split(starts, self.blocks)):
            spans = [(start, min(start + BLOCK, self.n_samples)) for start in chosen.tolist()]
            size = sum(stop - start for start, stop in spans)
            share = self.processes.share(size)
            own = _cut(spans, share)
            self._load(own)
            yield Window(_order(stream, epoch, number, size, self.device).unsqueeze(0), share, own)

    def of_run(self, run: int) -> Batch:
        """Return as many samples as a window holds, from blocks spread evenly: enough to place clusters by."""
        count = -(-self.n_samples // BLOCK)
        chosen = sorted({count * i // self.blocks for i in range(self.blocks)})
        own = chosen[self.processes.share(len(chosen))]
        size = self._load([(block * BLOCK, min((block + 1) * BLOCK, self.n_samples)) for block in own])
        return self.resident.of_run(0).rows(slice(size))

    def _load(self, spans: Sequence[tuple[int, int]]) -> int:
        """Read samples into the first rows, and return how many there are."""
        at = 0
        for start, stop in spans:
            read = self._read(start, stop)
            places = (*self.resident.views, self.resident.observed)
            for place, part in zip(places, (*read.views, read.observed), strict=True):
                place[0, at : at + stop - start].copy_(part)
            at += stop - start
        return at


@dataclass(frozen=True)
class Window:
    """Samples an epoch goes through in one go.

    Attributes
    ----------
    order : Tensor of shape (R, W)
        Every run's order of the window's samples, those of other processes included.
    share : slice
        The positions of the window this process holds.
    spans : list of (start, stop)
        The numbers of the samples this process holds, in the order it holds them.
    """

    order: Tensor
    share: slice
    spans: list[tuple[int, int]]

    def batches(self, size: int, drop_last: str = "never") -> Iterator[tuple[Tensor, int]]:
        """Yield the rows each run has here of every batch, (R, b), and the size of the batch in all processes."""
        count = self.order.shape[1]
        whole = self.share == slice(0, count)
        sizes = batch_sizes(count, size, drop_last)
        for rows in torch.split(self.order[:, : sum(sizes)], sizes, dim=1) if sizes else ():
            if whole:
                yield rows, rows.shape[1]
            else:
                here = rows[(rows >= self.share.start) & (rows < self.share.stop)] - self.share.start
                yield here.unsqueeze(0), rows.shape[1]


def batch_sizes(count: int, size: int, drop_last: str = "never") -> list[int]:
    """Return the sizes of an epoch's batches.

    Parameters
    ----------
    count, size : int
        Number of samples, and of those in a batch.
    drop_last : {"never", "joined", "partial", "always"}
        What becomes of the last batch: it stays, a single sample joins the batch before it, it goes unless it is full,
        it always goes.
    """
    sizes = [min(size, count - start) for start in range(0, count, size)]
    match drop_last:
        case "joined" if len(sizes) > 1 and sizes[-1] == 1:
            return [*sizes[:-2], sizes[-2] + 1]
        case "partial":
            return [each for each in sizes if each == size]
        case "always":
            return sizes[:-1]
    return sizes


def fill_noise(noise: Tensor, spans: Sequence[tuple[int, int]], streams: Streams, *names: object) -> None:
    """Draw the noise of the samples with these numbers into the first rows of (rows, …); it belongs to the samples."""
    numbers, at = torch.Generator(noise.device), 0
    for start, stop in spans:
        for block in range(start // BLOCK, -(-stop // BLOCK)):
            low, high = max(start - block * BLOCK, 0), min(stop - block * BLOCK, BLOCK)
            place = noise[at : at + high - low]
            drawn = place if high - low == BLOCK else noise.new_empty(BLOCK, *noise.shape[1:])
            drawn.normal_(generator=numbers.manual_seed(streams.integer("noise", *names, block)))
            if drawn is not place:
                place.copy_(drawn[low:high])
            at += high - low


def _order(streams: Streams, epoch: int, window: int, size: int, device: torch.device) -> Tensor:
    numbers = generator(streams.integer("order", epoch, window), device)
    return torch.randperm(size, generator=numbers, device=device)


def _cut(spans: Sequence[tuple[int, int]], share: slice) -> list[tuple[int, int]]:
    """Return the part of consecutive spans that lies at the positions of `share`."""
    own, at = [], 0
    for start, stop in spans:
        low, high = max(share.start - at, 0), min(share.stop - at, stop - start)
        if low < high:
            own.append((start + low, start + high))
        at += stop - start
    return own
