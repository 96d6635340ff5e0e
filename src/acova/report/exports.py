"""The numbers of a report as JSON."""

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from acova.base.outputs import check_output, new_file
from acova.report.result import Result


def as_json(value: Any) -> Any:
    """Return what the sections found as dicts, lists, texts and numbers; a number that is not finite is None."""
    if isinstance(value, np.generic):
        value = value.item()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
    elif isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): as_json(one) for name, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [as_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | type(None)) else str(value)


def write_numbers(result: Result, path: Path) -> None:
    """Write the numbers of every section to a JSON file."""
    from acova.report.sections import SECTIONS

    check_output(path)
    found = {section.name: section.data(result) for section in SECTIONS}
    kept = {name: data for name, data in found.items() if data is not None}
    with new_file(path) as part:
        part.write_text(json.dumps(as_json(kept), indent=1, ensure_ascii=True), encoding="utf-8")
