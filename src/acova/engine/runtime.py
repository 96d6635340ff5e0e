"""The device: which one, how precise, how much fits; and random numbers that leave torch's global state alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from acova.base import OptionError

PRECISIONS = ("auto", "float32", "tf32")


def resolve_device(device: str | torch.device) -> torch.device:
    """Turn ``"auto"`` (a GPU if torch sees one), a name or a device into a device that works here."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError, TypeError) as error:
        msg = f"device must be 'auto' or a device torch can use here; got {device!r} ({error}). Try device='cpu'."
        raise OptionError(msg) from error
    return resolved


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let the networks' float32 products use TF32 inside the block, on GPUs that have it (not for ``"float32"``)."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def runs_that_fit(network: nn.Module, batch_size: int, per_run_bytes: int, device: torch.device) -> int:
    """Return how many runs of a network fit into the device's free memory; on a CPU always one.

    A run needs its parameters, gradients and Adam's two moments, its activations and their gradients, and
    `per_run_bytes` of data. A fifth of the memory is left alone.
    """
    if device.type != "cuda":
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    free += torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    parameters = sum(parameter.numel() for parameter in network.parameters())
    widths = sum(sum(parameter.shape) for parameter in network.parameters() if parameter.ndim == 2)
    need = 4 * (5 * parameters + 4 * batch_size * widths) + per_run_bytes
    return max(1, int(0.8 * free) // need)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block (weights are drawn there); its global state is restored after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def draw_noise(seed: int, *shape: int) -> Tensor:
    """Return standard normal noise on the CPU: the same numbers whatever device computes."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
