"""Names of samples that differ in blanks and capitals alone, matched where a user asks for it."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from acova.base import DataError
from acova.data.sparse import SparseTable

Matches = Mapping[str, Mapping[str, str]]
"""View → name as written → name under which the sample is joined."""


def loosely(label: str) -> str:
    """Return a name without blanks and in small letters."""
    return "".join(label.split()).casefold()


def match_loosely(frames: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, str]]]:
    """Give samples one spelling in all tables, that of the first table that has them, without blanks around it.

    Parameters
    ----------
    frames : dict of name → DataFrame or SparseTable
        Other parts are left alone, and so are names that are no text.

    Returns
    -------
    frames : dict
        With the names replaced.
    matches : dict of name → (dict of name as written → name it became)
        Only names that changed.

    Raises
    ------
    DataError
        When two names of one table are the same but for blanks and capitals.
    """
    spellings: dict[str, str] = {}
    renamed, matches = dict(frames), {}
    for name, frame in frames.items():
        if not isinstance(frame, pd.DataFrame | SparseTable) or frame.index is None:
            continue
        labels = list(frame.index)
        here: dict[str, str] = {}
        for label in dict.fromkeys(label for label in labels if isinstance(label, str)):
            twin = here.setdefault(loosely(label), label)
            if twin != label:
                msg = (
                    f"View {name!r} has the samples {twin!r} and {label!r}, which match_ids='loosely' cannot tell "
                    "apart; rename one of them, or leave match_ids out and correct the names in the files."
                )
                raise DataError(msg)
            spellings.setdefault(loosely(label), label.strip())
        changed = {label: new for plain, label in here.items() if (new := spellings[plain]) != label}
        if changed:
            matches[name] = changed
            index = pd.Index([changed.get(label, label) for label in labels], dtype=object, name=frame.index.name)
            renamed[name] = frame.named(index) if isinstance(frame, SparseTable) else frame.set_axis(index, axis=0)
    return renamed, matches


def match_texts(matches: Matches) -> Iterator[tuple[str, str]]:
    """Yield each table whose names were matched, and a sentence about it."""
    for name, changed in matches.items():
        label, new = next(iter(changed.items()))
        names = "1 name was" if len(changed) == 1 else f"{len(changed)} names were"
        yield name, f"{names} matched loosely, first {label!r} as {new!r}"
