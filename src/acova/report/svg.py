"""Training as lines of an SVG picture."""

from typing import Any

import numpy as np
import pandas as pd

PARTS = {
    "total": "total",
    "reconstruction": "reconstruction",
    "kl_z": "KL z",
    "kl_c": "KL c",
    "alignment": "alignment",
    "correlation_distance": "‖R − I‖",
}
WIDTH, HEIGHT = 720, 280
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 34, 34


def convergence_chart(history: pd.DataFrame) -> dict[str, Any] | None:
    """Return what a drawing of the objective's parts over the epochs consists of, on a logarithmic scale.

    ``lines`` (name and path), ``phases`` (name, x, y of the text), ``ticks_x`` and ``ticks_y`` (text and place); None
    when there is nothing to draw.
    """
    parts = [part for part in PARTS if part in history]
    values = history[parts].where(history[parts] > 0) if parts else pd.DataFrame()
    finite = values.to_numpy(dtype=float)[np.isfinite(values.to_numpy(dtype=float))]
    if len(history) < 2 or not finite.size:
        return None
    low, high = np.floor(np.log10(finite.min())), np.ceil(np.log10(finite.max()))
    high = max(high, low + 1)
    across, up = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    x = _LEFT + np.arange(len(history)) / (len(history) - 1) * across
    phase = history["phase"].astype(str)
    # Pretraining has another loss, so lines are broken between the phases.
    breaks = phase.ne(phase.shift(fill_value=phase.iloc[0])).to_numpy()
    lines = []
    for part in parts:
        logs = np.log10(values[part].to_numpy(dtype=float))
        if part == "reconstruction":  # the total of pretraining is its reconstruction
            logs = np.where(phase == "pretrain", np.nan, logs)
        lines.append({"name": PARTS[part], "path": _path(x, _TOP + (high - logs) / (high - low) * up, breaks)})
    powers = range(int(low), int(high) + 1, max(int(high - low) // 5, 1))
    steps = np.unique(np.linspace(1, len(history), 6).round().astype(int))
    return {
        "lines": lines,
        "phases": _phases(phase, x, breaks),
        "ticks_x": [(str(step), float(x[step - 1])) for step in steps],
        "ticks_y": [(_power(power), float(_TOP + (high - power) / (high - low) * up)) for power in powers],
        "box": (_LEFT, _TOP, across, up),
        "size": (WIDTH, HEIGHT),
    }


def _path(x: Any, y: Any, breaks: Any) -> str:
    """Return an SVG path that is broken where a value is missing or a phase begins."""
    path, pen_down = [], False
    for here, there, new in zip(x, y, breaks, strict=True):
        if not np.isfinite(there):
            pen_down = False
            continue
        path.append(f"{'L' if pen_down and not new else 'M'}{here:.1f} {there:.1f}")
        pen_down = True
    return "".join(path)


def _phases(phase: Any, x: Any, breaks: Any) -> list[dict[str, Any]]:
    """Return names and places of the phases; names of short phases stand on several lines."""
    phases: list[dict[str, Any]] = []
    ends = [-np.inf] * (len(phase) + 1)
    for start in np.flatnonzero(breaks | (np.arange(len(phase)) == 0)):
        name = phase.iloc[start]
        level = next(level for level, end in enumerate(ends) if x[start] > end)
        ends[level] = x[start] + 7.5 * len(name)
        phases.append({"name": name, "x": float(x[start]), "y": _TOP - 5 - 12 * level})
    return phases


def _power(power: int) -> str:
    return f"{10.0**power:g}" if -3 <= power <= 5 else f"1e{power}"
