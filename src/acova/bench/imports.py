"""``module:name`` of a benchmark: imported, which runs the code of the module, or only looked for."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from acova.base import OptionError
from acova.bench.checks import one_line


@contextmanager
def importable(folder: str) -> Iterator[None]:
    """Let modules beside the spec be imported inside the block."""
    if not folder:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        with suppress(ValueError):
            sys.path.remove(folder)


def imported(place: str, folder: str) -> Any:
    """Return what ``module:name`` means; this runs the code of the module."""
    module, _, name = place.partition(":")
    try:
        with importable(folder):
            found = import_module(module)
    except ImportError as error:
        beside = "" if "." in module else f", or put {module}.py beside the spec"
        msg = f"{place!r} cannot be imported ({error}); install it{beside}."
        raise OptionError(msg) from error
    except (Exception, SystemExit) as error:  # the code of a module may fail in any way
        msg = f"{place!r} cannot be imported: its code fails with {reason_of(error)}."
        raise OptionError(msg) from error
    beside_spec = Path(folder) / f"{module}.py"
    if folder and beside_spec.exists() and not _is_file_of(found, beside_spec):
        msg = f"{place!r} means {beside_spec}, but another module {module!r} is loaded. Give the file another name."
        raise OptionError(msg)
    thing = getattr(found, name, None)
    if not callable(thing):
        msg = f"{place!r} cannot be imported: module {module!r} has no {name!r} that can be called."
        raise OptionError(msg)
    return thing


def absence_of(place: str, folder: str) -> str:
    """Say that the package of ``module:name`` is not there, without running its code, or return an empty string."""
    package = package_of(place)
    beside = [Path(folder) / name for name in (f"{package}.py", package)] if folder else []
    try:
        found = find_spec(package) is not None
    except (ImportError, ValueError):
        found = False
    if found or any(path.exists() for path in beside):
        return ""
    return f"{place!r} cannot be imported (No module named {package!r}); install it."


def package_of(place: str) -> str:
    """Return the package of ``module:name``."""
    return place.partition(":")[0].partition(".")[0]


def reason_of(error: BaseException) -> str:
    """Return class and first line of an error."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {one_line(text[0])[:200] if text else ''}"


def _is_file_of(module: Any, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and os.path.realpath(file) == os.path.realpath(path)
