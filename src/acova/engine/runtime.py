"""The device: which one, how precise, how much fits; and computations that torch's global settings do not change."""

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn

from acova.base import OptionError
from acova.engine.distributed import local_device
from acova.engine.parallel import threads_for
from acova.engine.switches import SharedSwitch

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


def precision_for(precision: str, device: torch.device, network: nn.Module) -> str:
    """Return the precision that ``"auto"`` stands for on a device, for a network; any other is itself."""
    if precision != "auto":
        return precision
    if network_dtype(precision, device, network) == torch.bfloat16:
        return "bf16"
    return "tf32" if device.type == "cuda" else "float32"


def _cpu_multiplies_bf16() -> bool:
    """Tell whether the processor has instructions for it (AVX512-BF16, AMX); elsewhere torch makes do with others."""
    return bool(getattr(torch.cpu, "_is_avx512_bf16_supported", bool)())


def _weights_of_layers(network: nn.Module) -> Iterator[int]:
    return (p.shape[-2] * p.shape[-1] for p in network.parameters() if p.ndim >= 2)


@contextmanager
def computation(products: float = 0) -> Iterator[None]:
    """Compute as in a fresh process, on as many threads as this many multiplications pay for.

    What users turned on around a fit does not reach it: inference mode, no gradients, autocast, a default device.
    All of it belongs to this Python thread. A default type is not touched: what is computed here names its types.
    """
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for device in ("cpu", "cuda"):
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        stack.enter_context(threads_for(products))
        yield


class _TensorFloats:
    """Whether float32 products on a GPU use TF32: while fits compute there, if all of them allow it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wishes: list[bool] = []
        self._switch: tuple[Callable[[bool], None], Callable[[], None]] | None = None

    @contextmanager
    def allowed(self, wish: bool) -> Iterator[None]:
        with self._lock:
            self._switch = self._switch or _tf32_switch()
            self._wishes.append(wish)
            self._turn()
        try:
            yield
        finally:
            with self._lock:
                self._wishes.remove(wish)
                self._turn()

    def _turn(self) -> None:
        if self._switch is None:
            return
        turn, turn_back = self._switch
        if self._wishes:
            turn(all(self._wishes))
        else:
            turn_back()
            self._switch = None


def _tf32_switch() -> tuple[Callable[[bool], None], Callable[[], None]]:
    """Return what sets TF32 and what restores it, by the one of torch's two interfaces that its user chose."""
    matmul: Any = torch.backends.cuda.matmul
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:  # set by `fp32_precision`; torch refuses to mix the two
        new: str = matmul.fp32_precision
        return (
            lambda wish: setattr(matmul, "fp32_precision", "tf32" if wish else "ieee"),
            lambda: setattr(matmul, "fp32_precision", new),
        )
    return (
        lambda wish: setattr(matmul, "allow_tf32", wish),
        # Not by `allow_tf32`: after "medium" torch would no longer tell its precision.
        lambda: torch.set_float32_matmul_precision(before),
    )


_TENSOR_FLOATS = _TensorFloats()
_TURNS: dict[torch.device, threading.RLock] = {}


@contextmanager
def gpu_for_training(precision: str, device: torch.device) -> Iterator[None]:
    """Take a GPU for one fit of this process at a time, and let float32 products use TF32 (not for ``"float32"``).

    A step that is being captured must not meet the work of another fit. On other devices nothing happens.
    """
    if device.type != "cuda":
        yield
        return
    with _TURNS.setdefault(device, threading.RLock()), _TENSOR_FLOATS.allowed(precision != "float32"):
        yield


def _keep_freed_memory(tune: Callable[[int, int], int]) -> Callable[[], object]:
    tune(_M_MMAP_THRESHOLD, 2**25)
    tune(_M_TRIM_THRESHOLD, 2**28)
    return partial(tune, _M_TRIM_THRESHOLD, 2**26)


def _memory_switch() -> SharedSwitch | None:
    tune = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return None if tune is None else SharedSwitch(partial(_keep_freed_memory, tune))


_KEPT_MEMORY = _memory_switch()


@contextmanager
def freed_memory_kept(device: torch.device) -> Iterator[None]:
    """Let glibc keep up to 256 MiB that a step on a CPU frees, so that the next one need not ask the system for it.

    After the block glibc is as it sets itself once an array of 32 MiB was freed. Other allocators are left alone.
    """
    if device.type != "cpu" or _KEPT_MEMORY is None:
        yield
        return
    with _KEPT_MEMORY:
        yield


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


def generator(seed: int, device: str | torch.device = "cpu") -> torch.Generator:
    """Return a new generator of random numbers that starts from a seed."""
    return torch.Generator(device).manual_seed(seed)
