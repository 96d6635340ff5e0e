"""What was understood of data before anything is trained, and what in them looks wrong."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from acova.base import DataError
from acova.base.html import html_table
from acova.console import count, plain, plain_table
from acova.data.files.formats import Contents, read_contents
from acova.data.findings import Finding, findings_of, ignored_findings, name_findings, overlap_findings
from acova.data.inputs import as_float_array, split_views
from acova.data.names import union
from acova.data.views import Views, joined_views

if TYPE_CHECKING:
    from rich.console import RenderableType

_MOST_PATTERNS = 12
_SHOWN = 20
"""Findings that a notebook shows."""
_ALIKE = 4
"""Findings of one kind in one view that are shown one by one."""


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect_data`; ``rich.print`` shows it as tables."""

    views: pd.DataFrame
    """One row per view: columns as given, features after encoding, samples that have it, their share."""
    patterns: "pd.Series[int]"
    """Number of samples by the set of views they have (index: one level per view, True = has it), commonest first."""
    findings: tuple[Finding, ...]
    """What looks wrong, those that stop a fit first."""
    refusal: str | None
    """The error a fit would raise, or None when the data can be used."""

    @property
    def n_samples(self) -> int:
        """Number of samples of all views together."""
        return int(self.patterns.sum())

    def __rich_console__(self, console: Any, options: Any) -> "Iterator[RenderableType]":
        sizes = [
            (name, f"{row['columns']:.0f}", _count(row["features"]), f"{row['samples']:.0f}", f"{row['observed']:.0%}")
            for name, row in self.views.iterrows()
        ]
        columns = ("view", "columns", "features", "samples", "observed")
        yield plain_table(columns, sizes, title=count(self.n_samples, "sample"))
        names = list(self.patterns.index.names)
        sets: list[tuple[object, ...]] = [
            (*("●" if one else "·" for one in np.atleast_1d(np.array(has))), count)
            for has, count in list(self.patterns.items())[:_MOST_PATTERNS]
        ]
        rest = self.patterns.iloc[_MOST_PATTERNS:]
        if len(rest):
            sets.append((*("…" for _ in names), f"{rest.sum()} in {len(rest)} other sets"))
        yield plain_table((*names, "samples"), sets, title="Which views the samples have")
        if self.findings:
            yield self._remarks()
        yield plain("These data can be used." if self.refusal is None else f"A fit would stop: {self.refusal}")

    def _repr_html_(self) -> str:
        sizes = [
            (name, f"{row['columns']:.0f}", _count(row["features"]), f"{row['samples']:.0f}", f"{row['observed']:.0%}")
            for name, row in self.views.iterrows()
        ]
        found = [("stops a fit" if one.stops else "", one.view, one.column, one.text) for one in self.findings[:_SHOWN]]
        note = "These data can be used." if self.refusal is None else f"A fit would stop: {self.refusal}"
        if len(self.findings) > _SHOWN:
            note = f"… and {len(self.findings) - _SHOWN} more remarks. {note}"
        columns = ("view", "columns", "features", "samples", "observed")
        if not found:
            return html_table(count(self.n_samples, "sample"), columns, sizes, note)
        return html_table(count(self.n_samples, "sample"), columns, sizes) + html_table(
            "Worth a look", ("", "view", "column", "what"), found, note
        )

    def _remarks(self) -> "RenderableType":
        """Return the findings as a table; those of one kind in one view share a row."""
        rows: list[tuple[str, ...]] = []
        groups: dict[tuple[str, str, bool], list[Finding]] = {}
        for one in self.findings:
            groups.setdefault((one.kind, one.view, one.stops), []).append(one)
        for (_, view, stops), alike in groups.items():
            rows += [("stops" if stops else "", view, one.column, one.text) for one in alike[:_ALIKE]]
            if len(alike) > _ALIKE:
                rows.append(("", view, f"… and {len(alike) - _ALIKE} more", "like these"))
        return plain_table(("", "view", "column", "what"), rows, title="Worth a look")


def _count(number: float) -> str:
    return "?" if np.isnan(number) else f"{number:.0f}"


def inspect_data(X: Any, observed: Any = None, *, drop: Sequence[str] = (), holes: str = "refuse") -> Inspection:
    """Tell what a fit would see, without refusing what a fit would refuse.

    Parameters
    ----------
    X : path, or anything that `Views.of` takes
    observed : as in `Views.of`
    drop, holes : as in `read_views`

    Returns
    -------
    Inspection
    """
    contents = read_contents(Path(X)) if isinstance(X, str | os.PathLike) else _contents_of(X, observed)
    contents = contents.cleaned(drop, holes)
    frames = {name: _as_frame(name, part) for name, part in contents.parts.items()}
    named = frames if _joined(contents.parts) else None
    refusal, views = None, None
    try:
        views, _ = joined_views(contents.parts, contents.observed)
    except DataError as error:
        refusal = str(error)
    present = _presence(frames) if views is None else pd.DataFrame(views.observed, views.index, list(views.names))
    findings = [*ignored_findings(contents.ignored), *findings_of(frames)]
    findings += name_findings(frames) if named is not None else ()
    findings += overlap_findings(list(frames), present.to_numpy(dtype=bool), named)
    findings.sort(key=lambda one: not one.stops)
    table = pd.DataFrame(
        {
            "columns": [frame.shape[1] for frame in frames.values()],
            "features": [np.nan] * len(frames) if views is None else list(views.sizes),
            "samples": present.sum().to_numpy(),
            "observed": present.mean().to_numpy(),
        },
        index=list(frames),
    )
    return Inspection(table, present.value_counts(), tuple(findings), refusal)


def _contents_of(X: Any, observed: Any) -> Contents:
    if isinstance(X, Views):
        frames = {
            name: pd.DataFrame(array, X.index, columns)
            for name, array, columns in zip(X.names, X.arrays, X.columns, strict=True)
        }
        return Contents(frames, observed=observed)
    return Contents(split_views(X, None), observed=observed)


def _joined(parts: Mapping[str, Any]) -> bool:
    return all(isinstance(part, pd.DataFrame) for part in parts.values())


def _as_frame(name: str, part: Any) -> pd.DataFrame:
    return part if isinstance(part, pd.DataFrame) else pd.DataFrame(as_float_array(name, part))


def _presence(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return which sample has which view, though the views may not fit together."""
    rows = {name: frame.notna().any(axis=1) for name, frame in frames.items()}
    rows = {name: has[~has.index.duplicated()] for name, has in rows.items()}
    samples = union(pd.Index(has.index, dtype=object) for has in rows.values())
    seen = {name: samples.isin(pd.Index(has.index[has], dtype=object)) for name, has in rows.items()}
    return pd.DataFrame(seen, index=samples)
