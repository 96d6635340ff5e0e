"""Where a result comes from."""

import platform
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import torch

from acova.base.version import __version__


def provenance(device: torch.device | str) -> dict[str, Any]:
    """Return the versions, the device and the time of a fit that ends now."""
    device = torch.device(device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    packages = {name: version(name) for name in ("torch", "numpy", "scikit-learn")}
    return {
        "acova": __version__,
        "python": platform.python_version(),
        **packages,
        "system": platform.system(),
        "device": f"{device} ({name})",
        "fitted": datetime.now(UTC).isoformat(timespec="seconds"),
    }
