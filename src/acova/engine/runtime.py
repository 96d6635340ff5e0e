"""The device: which one, how precise, how much fits; and seeding that leaves torch's global state alone."""

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from acova.base import OptionError
from acova.engine.processes import local_device

PRECISIONS = ("auto", "float32", "tf32", "bf16")
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGE_LAYER = 2**18
"""Weights of a layer from which products, not the operations around them, take a CPU's time."""


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


def network_dtype(precision: str, device: torch.device, network: nn.Module) -> torch.dtype:
    """Return what a network is rounded to for products: bfloat16 where it is faster, if the precision allows it.

    That is on GPUs that have it, and on CPUs that have it if a layer is large; ``"bf16"`` asks for it in any.
    """
    wanted = False
    if precision in ("auto", "bf16"):
        if device.type == "cuda":
            wanted = torch.cuda.is_bf16_supported(including_emulation=False)
        elif device.type == "cpu" and _cpu_multiplies_bf16():
            wanted = precision == "bf16" or max(_weights_of_layers(network), default=0) >= _LARGE_LAYER
    return torch.bfloat16 if wanted else torch.float32


def _cpu_multiplies_bf16() -> bool:
    """Tell whether the processor has instructions for it (AVX512-BF16, AMX); elsewhere torch makes do with others."""
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", bool)())


def _weights_of_layers(network: nn.Module) -> Iterator[int]:
    return (p.shape[-2] * p.shape[-1] for p in network.parameters() if p.ndim >= 2)


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    """Let float32 products use TF32 inside the block, on GPUs that have it (not for ``"float32"``)."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision != "float32"
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


@contextmanager
def freed_memory_kept(device: torch.device) -> Iterator[None]:
    """Let glibc keep up to 256 MiB that a step on a CPU frees, so that the next one need not ask the system for it.

    After the block glibc is as it sets itself once an array of 32 MiB was freed. Other allocators are left alone.
    """
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if device.type == "cpu" and sys.platform == "linux" else None
    if tune is None:
        yield
        return
    tune(_M_MMAP_THRESHOLD, 2**25)
    tune(_M_TRIM_THRESHOLD, 2**28)
    try:
        yield
    finally:
        tune(_M_TRIM_THRESHOLD, 2**26)


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
