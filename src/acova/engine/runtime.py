"""The device, and random numbers for torch that leave its global state alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from acova.base import OptionError


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
def seeded(seed: int) -> Iterator[None]:
    """Seed torch inside the block (weights are drawn there); its global state is restored after it."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def draw_noise(seed: int, *shape: int) -> Tensor:
    """Return standard normal noise on the CPU: the same numbers whatever device trains."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
