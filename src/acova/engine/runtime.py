"""The device: which one, how precise, how much fits; and seeding that leaves torch's global state alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from acova.base import OptionError
from acova.engine.processes import local_device

PRECISIONS = ("auto", "float32", "tf32", "bf16")


def resolve_device(device: str | torch.device) -> torch.device:
    """Turn ``"auto"`` (a GPU if torch sees one), a name or a device into a device that works here.

    ``"auto"`` and ``"cuda"`` give each of several processes a GPU of its own, as far as there are enough.
    """
    if device == "auto" or (device == "cuda" and torch.cuda.is_available()):
        return torch.device("cuda", local_device()) if torch.cuda.is_available() else torch.device("cpu")
    try:
        resolved = torch.device(device)
        torch.empty(0, device=resolved)
    except (RuntimeError, AssertionError, TypeError) as error:
        msg = f"device must be 'auto' or a device torch can use here; got {device!r} ({error}). Try device='cpu'."
        raise OptionError(msg) from error
    return resolved


def network_dtype(precision: str, device: torch.device) -> torch.dtype:
    """Return what networks are rounded to for products: bfloat16 on GPUs that have it, if the precision allows it."""
    wanted = (
        precision in ("auto", "bf16")
        and device.type == "cuda"
        and torch.cuda.is_bf16_supported(including_emulation=False)
    )
    return torch.bfloat16 if wanted else torch.float32


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let float32 products use TF32 inside the block, on GPUs that have it (not for ``"float32"``)."""
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
    outputs = sum(p.numel() // p.shape[-2] for p in network.parameters() if p.ndim >= 2)
    need = 4 * (5 * parameters + 8 * batch_size * outputs) + per_run_bytes
    return max(1, int(0.8 * free) // need)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block (weights are drawn there); its global state is restored after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
