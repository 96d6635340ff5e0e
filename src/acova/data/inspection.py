"""What was understood of data before anything is trained, and what in them looks wrong."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from acova.base import DataError, OptionError
from acova.base.html import html_table
from acova.console import count, plain, plain_table
from acova.data.census import Census
from acova.data.covariates import Covariates, along_index, description
from acova.data.files.formats import Contents, read_contents
from acova.data.files.reading import Reading
from acova.data.findings import Finding, findings_of, ignored_findings, name_findings, overlap_findings
from acova.data.inputs import as_float_array, split_views
from acova.data.matching import match_texts
from acova.data.measurements import SUITED, measurements_of
from acova.data.names import union
from acova.data.sparse import is_sparse
from acova.data.stored import IN_MEMORY
from acova.data.views import Views, joined_views

if TYPE_CHECKING:
    from rich.console import RenderableType

_COLUMNS = ("view", "columns", "features", "samples", "observed", "empty cells", "looks like")
_OF_COVARIATES = ("covariate", "kind", "values", "empty cells")
_MOST_PATTERNS = 12
_SHOWN = 20
"""Findings that a notebook shows."""
_ALIKE = 4
"""Findings of one kind in one view that are shown one by one."""


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect_data`; ``rich.print`` shows it as tables.

    See Also
    --------
    inspect_data : Makes it.
    """

    views: pd.DataFrame
    """One row per view: columns as given, features after encoding, samples that have it, their share, how many of their
    cells are empty, as a number and a share, and what its numbers look like: ``"counts"``, ``"shares"``,
    ``"categories"`` or ``""``."""
    patterns: "pd.Series[int]"
    """Number of samples by the set of views they have (index: one level per view, True = has it), commonest first."""
    findings: tuple[Finding, ...]
    """What looks wrong, those that stop a fit first."""
    refusal: str | None
    """The error a fit would raise, or None when the data can be used."""
    covariates: pd.DataFrame | None = None
    """One row per covariate: whether it is words or numbers, how many values it has, and how many cells are empty."""

    @property
    def n_samples(self) -> int:
        """Number of samples of all views together."""
        return int(self.patterns.sum())

    def __rich_console__(self, console: Any, options: Any) -> "Iterator[RenderableType]":
        yield plain_table(_COLUMNS, self._sizes(), title=count(self.n_samples, "sample"))
        names = list(self.patterns.index.names)
        sets: list[tuple[object, ...]] = [
            (*("●" if one else "·" for one in np.atleast_1d(np.array(has))), count)
            for has, count in list(self.patterns.items())[:_MOST_PATTERNS]
        ]
        rest = self.patterns.iloc[_MOST_PATTERNS:]
        if len(rest):
            sets.append((*("…" for _ in names), f"{rest.sum()} in {len(rest)} other sets"))
        yield plain_table((*names, "samples"), sets, title="Which views the samples have")
        if self.covariates is not None:
            yield plain_table(_OF_COVARIATES, list(self.covariates.itertuples()), title="Covariates")
        if self.findings:
            yield self._remarks()
        for advice in self._advice():
            yield plain(advice)

    def _repr_html_(self) -> str:
        found = [("stops a fit" if one.stops else "", one.view, one.column, one.text) for one in self.findings[:_SHOWN]]
        note = " ".join(self._advice())
        if len(self.findings) > _SHOWN:
            note = f"… and {len(self.findings) - _SHOWN} more remarks. {note}"
        tables: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = [
            (count(self.n_samples, "sample"), _COLUMNS, self._sizes())
        ]
        if self.covariates is not None:
            tables.append(("Covariates", _OF_COVARIATES, list(self.covariates.itertuples())))
        if found:
            tables.append(("Worth a look", ("", "view", "column", "what"), found))
        notes = ["" for _ in tables[1:]] + [note]
        return "".join(html_table(*table, below) for table, below in zip(tables, notes, strict=True))

    def _sizes(self) -> list[tuple[object, ...]]:
        """Return what is shown of every view."""
        return [
            (
                *(name, f"{row['columns']:.0f}", _count(row["features"]), f"{row['samples']:.0f}"),
                *(f"{row['observed']:.0%}", _cells(row["empty"], row["empty_share"]), row["looks_like"]),
            )
            for name, row in self.views.iterrows()
        ]

    def _advice(self) -> Iterator[str]:
        """Return which likelihoods suit the views, and at last whether the data can be used."""
        for word in sorted(set(self.views["looks_like"]) - {""}):
            yield f"Views of {word} can be given likelihood={SUITED[word]!r}; 'suited' chooses it, 'auto' does not."
        yield "These data can be used." if self.refusal is None else f"A fit would stop: {self.refusal}"

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


def _cells(count: float, share: float) -> str:
    return f"{count:.0f} ({share:.2%})" if count else "0"


def _count(number: float) -> str:
    return "?" if np.isnan(number) else f"{number:.0f}"


def inspect_data(
    X: Any,
    observed: Any = None,
    *,
    drop: str | Sequence[str] = (),
    drop_sample: str | Sequence[str] = (),
    id_column: str | Sequence[str] = (),
    transpose: str | Sequence[str] = (),
    match_ids: str = "exactly",
    holes: str = "keep",
    layer: str | None = None,
    covariates: pd.DataFrame | pd.Series | None = None,
) -> Inspection:
    """Show how a fit would read data, without refusing what a fit would refuse.

    Parameters
    ----------
    X : path, or anything that `Views.of` takes
    observed : as in `Views.of`
    drop, drop_sample, id_column, transpose, match_ids, holes, layer : as in `read_views`
        ``id_column`` and ``transpose`` are for files.
    covariates : DataFrame or Series, optional
        As in `ACOVA.fit`.

    Returns
    -------
    Inspection

    See Also
    --------
    acova.select_n_clusters : How many clusters the data have.
    read_views : Reads files without remarks.
    """
    words = {"drop": drop, "drop_sample": drop_sample, "id_column": id_column, "transpose": transpose}
    reading = Reading.of("inspect_data", **words, match_ids=match_ids, holes=holes, layer=layer)
    lenient = replace(reading, holes="hide" if reading.holes == "hide" else "keep")
    contents = _contents_of(X, observed, lenient).cleaned(lenient)
    for name, part in contents.parts.items():
        if is_sparse(part) and 4 * part.shape[0] * part.shape[1] > IN_MEMORY:
            msg = (
                f"inspect_data: view {name!r} would take {4e-9 * part.shape[0] * part.shape[1]:.1f} GB when dense, and "
                "every cell is looked at; inspect some of its features or samples."
            )
            raise DataError(msg)
    frames = {name: _as_frame(name, part) for name, part in contents.parts.items()}
    named = frames if _joined(contents.parts) else None
    refusal, views = None, None
    try:
        if reading.holes == "refuse":
            contents.refuse_empty_cells()
        views, _ = joined_views(contents.parts, contents.observed)
        Census.of(views).check("fit", views)
        if covariates is not None:
            Covariates.learn(along_index(covariates, views.index))
    except DataError as error:
        refusal = str(error)
    present = _presence(frames) if views is None else pd.DataFrame(views.observed, views.index, list(views.names))
    findings = [*ignored_findings(contents.ignored), *findings_of(frames)]
    findings += (Finding("matched", name, "", text) for name, text in match_texts(contents.matches))
    findings += name_findings(frames) if named is not None else ()
    findings += overlap_findings(list(frames), present.to_numpy(dtype=bool), named)
    findings.sort(key=lambda one: not one.stops)
    empty = {name: _empty_cells(frame, present[name]) for name, frame in frames.items()}
    table = pd.DataFrame(
        {
            "columns": [frame.shape[1] for frame in frames.values()],
            "features": [np.nan] * len(frames) if views is None else list(views.sizes),
            "samples": present.sum().to_numpy(),
            "observed": present.mean().to_numpy(),
            "empty": [count for count, _ in empty.values()],
            "empty_share": [share for _, share in empty.values()],
            "looks_like": [""] * len(frames) if views is None else measurements_of(views),
        },
        index=list(frames),
    )
    about = description(pd.DataFrame(covariates)) if isinstance(covariates, pd.DataFrame | pd.Series) else None
    return Inspection(table, present.value_counts(), tuple(findings), refusal, about)


def _contents_of(X: Any, observed: Any, reading: Reading) -> Contents:
    if isinstance(X, str | os.PathLike):
        return read_contents(Path(X), reading)
    if reading.id_column or reading.transpose:
        msg = "inspect_data: id_column and transpose are for files; set the index of a frame, or pass frame.T."
        raise OptionError(msg)
    if isinstance(X, Views):
        frames = {
            name: pd.DataFrame(array, X.index, columns)
            for name, array, columns in zip(X.names, X.arrays, X.columns, strict=True)
        }
        return Contents(frames, observed=observed)
    return Contents(split_views(X, None, reading.layer), observed=observed)


def _joined(parts: Mapping[str, Any]) -> bool:
    return all(isinstance(part, pd.DataFrame) for part in parts.values())


def _as_frame(name: str, part: Any) -> pd.DataFrame:
    return part if isinstance(part, pd.DataFrame) else pd.DataFrame(as_float_array(name, part))


def _empty_cells(frame: pd.DataFrame, present: "pd.Series[bool]") -> tuple[int, float]:
    """Return how many cells of a view's observed rows are empty, and their share."""
    rows = frame[frame.index.isin(present.index[present.to_numpy(dtype=bool)])]
    count = int(rows.isna().to_numpy().sum())
    return count, count / max(rows.size, 1)


def _presence(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return which sample has which view, though the views may not fit together."""
    rows = {name: frame.notna().any(axis=1) for name, frame in frames.items()}
    rows = {name: has[~has.index.duplicated()] for name, has in rows.items()}
    samples = union(pd.Index(has.index, dtype=object) for has in rows.values())
    seen = {name: samples.isin(pd.Index(has.index[has], dtype=object)) for name, has in rows.items()}
    return pd.DataFrame(seen, index=samples)
