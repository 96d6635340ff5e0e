"""Several processes that train one model: started by torchrun, or by whoever initialised torch.distributed."""

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from acova.base import ProcessError

_TIMEOUT = timedelta(minutes=10)


@dataclass(frozen=True)
class Processes:
    """The place of this process among those of its job."""

    rank: int = 0
    size: int = 1

    def share(self, count: int) -> slice:
        """Return the part of `count` things that this process holds: an equal, contiguous one."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)

    def sum(self, tensor: Tensor) -> Tensor:
        """Return the sum of every process's tensor."""
        if self.size == 1:
            return tensor
        carried = _to_carry(tensor).clone()
        dist.all_reduce(carried)
        return carried.to(tensor.device)

    def gather(self, mine: Tensor) -> Tensor:
        """Return every process's rows, in the order of the processes; their numbers may differ."""
        if self.size == 1:
            return mine
        counts = self.sum(torch.eye(self.size, dtype=torch.int64)[self.rank] * len(mine)).tolist()
        carried = _to_carry(mine)
        padded = carried.new_zeros(max(counts), *mine.shape[1:])
        padded[: len(mine)] = carried
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)]).to(mine.device)

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.size > 1:
            dist.barrier()

    def agree(self, number: int) -> int:
        """Return the first process's number."""
        return int(self.sum(torch.tensor(number if self.rank == 0 else 0)))


ALONE = Processes()


def current_processes() -> Processes:
    """Return this process's place in the job, joining the group that torchrun prepared if need be."""
    if not dist.is_available():
        return ALONE
    if not dist.is_initialized():
        if int(os.environ.get("WORLD_SIZE", "1")) < 2 or "MASTER_ADDR" not in os.environ:
            return ALONE
        dist.init_process_group(_backend(), timeout=_TIMEOUT)
        atexit.register(_leave)
    return Processes(dist.get_rank(), dist.get_world_size())


def local_device() -> int:
    """Return the number of the GPU that belongs to this process."""
    return int(os.environ.get("LOCAL_RANK", "0")) % max(torch.cuda.device_count(), 1)


@contextmanager
def clear_loss_of_contact(processes: Processes) -> Iterator[None]:
    """Turn the error of a collective operation, when another process is gone, into one that says so."""
    try:
        yield
    except RuntimeError as error:
        words = ("connection", "peer", "socket", "timed out", "timeout", "nccl", "gloo", "recv", "broken pipe")
        if processes.size == 1 or not any(word in str(error).lower() for word in words):
            raise
        reason = str(error).strip().splitlines()[0]
        msg = (
            f"process {processes.rank} of {processes.size} lost contact with another process of this job, which was "
            f"killed or failed ({reason}). Nothing was written by this fit but its last checkpoint, if it keeps one; "
            "start all processes again with the same command to go on from there."
        )
        raise ProcessError(msg) from error


def _to_carry(tensor: Tensor) -> Tensor:
    """Return the tensor where the processes can exchange it: NCCL alone knows no memory but the GPU's."""
    return tensor.cuda() if dist.get_backend() == "nccl" else tensor


def _backend() -> str:
    each_its_own = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and each_its_own and dist.is_nccl_available() else "gloo"


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
