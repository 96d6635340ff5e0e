"""Survival by cluster, as curves and numbers."""

from typing import Any

import numpy as np
import pandas as pd

from acova.report.result import Result

WIDTH, HEIGHT = 720, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 12, 12, 40
_BANDS = 6
"""Clusters up to which each curve has the band of its confidence interval."""


def survival_by_cluster(result: Result) -> dict[str, Any] | None:
    """Return Kaplan-Meier curves as a drawing, a row per cluster, and the test in words; None without times."""
    if result.time is None and result.event is None:
        return None
    names = [name for name in (result.time, result.event) if name in result.given]
    found = result.model.compare(result.frame(names), result.time, result.event, n_permutations=1).survival
    rows = [
        {"cluster": int(cluster), "samples": int(row["n_samples"]), "events": int(row["n_events"])}
        | {"expected": float(row["expected"]), "median": float(row["median"]) if np.isfinite(row["median"]) else None}
        for cluster, row in found.clusters.iterrows()
    ]
    test = {"chi2": found.chi2, "df": found.degrees_of_freedom, "p": found.p_value}
    names_of = {"time": result.time, "event": result.event}
    return {"words": found.summary, **names_of, **test, "rows": rows, "chart": _chart(found.curves)}


def _chart(curves: pd.DataFrame) -> dict[str, Any]:
    """Return ``lines`` (cluster, path, band, ticks of censored samples) and ``ticks_x`` and ``ticks_y``."""
    across, up = WIDTH - _LEFT - _RIGHT, HEIGHT - _TOP - _BOTTOM
    latest = float(curves["time"].max()) or 1.0
    groups: list[tuple[Any, pd.DataFrame]] = list(curves.groupby("cluster", sort=True))

    def place(times: Any, shares: Any) -> tuple[Any, Any]:
        return _LEFT + np.asarray(times) / latest * across, _TOP + (1 - np.asarray(shares)) * up

    lines = []
    for cluster, curve in groups:
        x, y = place(curve["time"], curve["survival"])
        known = curve[["lower", "upper"]].notna().all(axis=1).to_numpy()
        low, high = (place(curve["time"][known], curve[name][known])[1] for name in ("lower", "upper"))
        censored = -np.diff(curve["at_risk"], append=0) > curve["events"].to_numpy()
        lines.append(
            {
                "cluster": int(cluster),
                "path": _steps(x, y),
                "band": _band(x[known], low, high) if len(groups) <= _BANDS and known.any() else "",
                "ticks": "".join(f"M{a:.1f} {b - 4:.1f}v8" for a, b in zip(x[censored], y[censored], strict=True)),
            }
        )
    step = _round_step(latest / 5)
    values = np.arange(0, latest + 1e-9 * latest, step)
    return {
        "lines": lines,
        "ticks_x": [(f"{value:g}", float(place(value, 0)[0])) for value in values.tolist()],
        "ticks_y": [(f"{share:.0%}", float(place(0, share)[1])) for share in (0, 0.25, 0.5, 0.75, 1)],
        "box": (_LEFT, _TOP, across, up),
        "size": (WIDTH, HEIGHT),
    }


def _steps(x: Any, y: Any) -> str:
    """Return the path of a curve that stays until it falls."""
    parts = [f"M{x[0]:.1f} {y[0]:.1f}"]
    parts += [f"H{a:.1f}" + (f"V{b:.1f}" if b != before else "") for a, b, before in zip(x[1:], y[1:], y, strict=False)]
    return "".join(parts)


def _band(x: Any, low: Any, high: Any) -> str:
    """Return the area between two curves of steps."""
    back = [f"V{b:.1f}H{a:.1f}" for a, b in zip(x[-2::-1], low[-2::-1], strict=True)]
    return _steps(x, high) + f"V{low[-1]:.1f}" + "".join(back) + "Z"


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2 and 5 times a power of ten that is not smaller."""
    power = 10.0 ** np.floor(np.log10(least))
    return float(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9)))
