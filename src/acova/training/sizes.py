"""What settings become for a number of samples."""

import math
from collections.abc import Callable
from typing import Any

_FEW_SAMPLES, _NARROW_UP_TO, _SOME_SAMPLES, _MANY_SAMPLES = 2_000, 3_000, 5_000, 20_000


def auto_widths(n_samples: int) -> tuple[int, ...]:
    """Return the widths that ``hidden="auto"`` stands for: few samples need no wide network."""
    return (64, 64, 256) if n_samples <= _NARROW_UP_TO else (256, 256, 1024)


def auto_neighbor_weight(n_samples: int) -> float:
    """Return what ``neighbor_weight="auto"`` stands for: few samples need their neighbours, many do without."""
    return 0.5 * min(1.0, _FEW_SAMPLES / n_samples) ** 2 if n_samples <= _MANY_SAMPLES else 0.0


def auto_runs(n_samples: int) -> int:
    """Return how many runs ``n_init="auto"`` stands for: 5 up to 5,000 samples, 3 up to 20,000, else one."""
    return 5 if n_samples <= _SOME_SAMPLES else 3 if n_samples <= _MANY_SAMPLES else 1


def epochs_for(epochs: int, n_samples: int) -> int:
    """Return how many epochs the robust recipe takes: above 2,000 samples fewer by the fourth root of their number."""
    return max(1, round(epochs * math.pow(min(1.0, _FEW_SAMPLES / n_samples), 0.25)))


def rate_for(rate: float, n_samples: int) -> float:
    """Return the learning rate that the robust recipe takes: half of it for the narrow networks of few samples."""
    return rate / 2 if n_samples <= _NARROW_UP_TO else rate


BY_SIZE: dict[str, Callable[[Any, int], Any]] = {
    "pretrain_epochs": epochs_for,
    "warmup_epochs": epochs_for,
    "epochs": epochs_for,
    "learning_rate": rate_for,
}
"""Settings that the robust recipe suits to the number of samples where they are left to it."""
