"""Several processes that train one model: started by torchrun, or by whoever initialised torch.distributed."""

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from acova.base import AcovaError, ProcessError

_TIMEOUT = timedelta(minutes=2)
"""How long a process waits for the others before it takes them for lost."""


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

    def gather(self, own: Tensor) -> Tensor:
        """Return every process's rows, in the order of the processes; their numbers may differ."""
        if self.size == 1:
            return own
        counts = self.sum(torch.eye(self.size, dtype=torch.int64)[self.rank] * len(own)).tolist()
        carried = _to_carry(own)
        padded = carried.new_zeros(max(counts), *own.shape[1:])
        padded[: len(own)] = carried
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)]).to(own.device)

    def wait(self) -> None:
        """Return when every process has come here."""
        if self.size > 1:
            dist.barrier()

    def agree(self, number: int) -> int:
        """Return the first process's number."""
        return int(self.sum(torch.tensor(int(number) if self.is_first else 0)))

    @property
    def is_first(self) -> bool:
        """Tell whether this process is the one that writes and speaks."""
        return self.rank == 0

    def first_does(self, act: Callable[[], object]) -> None:
        """Let the first process act on files that all share, while the others wait; its failure ends all of them."""
        failure = None
        if self.is_first:
            try:
                act()
            except AcovaError as error:
                failure = error
        if self.agree(failure is not None):
            msg = f"process {self.rank} of {self.size} ends because process 0 failed; the message of that one says why."
            raise failure or ProcessError(msg)


ALONE = Processes()


@contextmanager
def job_processes() -> Iterator[Processes]:
    """Give this process's place in its job, joining the group that torchrun prepared if need be.

    The group stays for further fits, until Python ends. When another process is gone, the error of a collective
    operation becomes one that says so.
    """
    if not dist.is_available():
        yield ALONE
        return
    if not dist.is_initialized() and _in_a_job():
        place = Processes(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
        with clear_loss_of_contact(place):
            dist.init_process_group(_backend(), timeout=_TIMEOUT)
    processes = Processes(dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else ALONE
    atexit.unregister(_leave)  # after a failure it could wait for those that are gone
    with clear_loss_of_contact(processes):
        yield processes
        processes.wait()  # nobody leaves while another still listens
    atexit.register(_leave)


def _leave() -> None:
    """End the group while Python still runs: its threads, left to the end of the process, can abort it."""
    if dist.is_initialized():
        dist.destroy_process_group()


def _in_a_job() -> bool:
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and {"MASTER_ADDR", "RANK"} <= os.environ.keys()


def local_device() -> int:
    """Return the number of the GPU that belongs to this process."""
    return int(os.environ.get("LOCAL_RANK", "0")) % max(torch.cuda.device_count(), 1)


@contextmanager
def clear_loss_of_contact(processes: Processes) -> Iterator[None]:
    """Turn the error of an exchange with a process that is gone into one that says so."""
    try:
        yield
    except ProcessError:
        raise
    except RuntimeError as error:
        words = ("connection", "peer", "socket", "timed out", "timeout", "nccl", "gloo", "recv", "broken pipe")
        if processes.size == 1 or not any(word in str(error).lower() for word in words):
            raise
        reason = str(error).strip().splitlines()[0].split(". ")[0]
        msg = (
            f"process {processes.rank} of {processes.size} lost contact with another process of this job, which was "
            f"killed or failed ({reason}). This fit wrote nothing but its last checkpoint, if it keeps one: start all "
            "processes again, with the same settings and checkpoint or with 'acova fit --resume RUN', to go on from it."
        )
        raise ProcessError(msg) from error


def _to_carry(tensor: Tensor) -> Tensor:
    """Return the tensor where the processes can exchange it: NCCL alone knows no memory but the GPU's."""
    return tensor.cuda() if dist.get_backend() == "nccl" else tensor


def _backend() -> str:
    each_its_own = torch.cuda.device_count() >= int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and each_its_own and dist.is_nccl_available() else "gloo"
