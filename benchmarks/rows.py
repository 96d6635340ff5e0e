"""Rows of measurements: files of JSON lines, settings given on the command line, where a row comes from."""

import ast
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def rows_of(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a file of JSON lines; none if there is no such file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def settings_of(items: Sequence[str]) -> dict[str, Any]:
    """Turn ``NAME=VALUE`` items into keywords; values are Python literals, or words."""
    return {name: _value(text) for name, text in (item.split("=", 1) for item in items)}


def commit() -> str:
    """Return the commit at hand, or what ACOVA_COMMIT says where the code lies without its history."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or os.environ.get("ACOVA_COMMIT", "")


def _value(text: str) -> Any:
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
