"""Where a row comes from: what was fitted, by which versions, on which machine."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from acova.bench.entries import Fit, MethodSpec
from acova.bench.imports import package_of
from acova.bench.methods import settings_of
from acova.bench.sources import options_of

_PACKAGES = ("acova", "torch", "numpy", "scikit-learn")


def identity_of(fit: Fit) -> dict[str, Any]:
    """Return what a fit is and where its row comes from."""
    return {
        "key": fit.key,
        "dataset": fit.data.name,
        "missing_percent": fit.missing,
        "pattern": fit.pattern,
        "method": fit.method.name,
        "run": fit.run,
        "source": fit.data.source,
        "views": list(fit.data.views),
        "options": options_of(fit.data, fit.run),
        "use": fit.method.use,
        "settings": settings_of(fit.method, fit.data),
        "scale": fit.method.scale,
        "versions": {name: found for name in _PACKAGES if (found := _version(name))} | _foreign_version(fit.method),
        "python": platform.python_version(),
        "commit": commit(),
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def device_of(model: Any) -> str:
    """Return the name of the GPU or of the processor that a model was trained on."""
    network = getattr(model, "network_", None)
    if network is not None:
        import torch

        parameter = next(network.parameters())
        if parameter.is_cuda:
            return torch.cuda.get_device_name(parameter.device)
    return platform.processor() or platform.machine()


@cache
def commit() -> str:
    """Return what ACOVA_COMMIT says, else the commit of the library's checkout, marked where files differ from it."""
    if named := os.environ.get("ACOVA_COMMIT"):
        return named
    here = Path(__file__).resolve().parent
    try:
        ask = ["git", "-C", str(here), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        found = subprocess.run(ask, capture_output=True, text=True, check=False, timeout=20)
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip() if found.returncode == 0 else ""


def _foreign_version(method: MethodSpec) -> dict[str, str]:
    package = package_of(method.use) if ":" in method.use else ""
    found = _version(package) if package else ""
    return {package: found} if found else {}


@cache
def _version(package: str) -> str:
    from acova.base.version import __version__

    try:
        return __version__ if package == "acova" else version(package)
    except PackageNotFoundError:
        return ""
