"""Short tables for notebooks: every text is escaped."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> str:
    """Return a table with a title above and a note below it; the first cell of a row is its heading."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in columns)
    body = "".join(_row(row) for row in rows)
    below = f"<div>{escape(note)}</div>" if note else ""
    return (
        f"<div><strong>{escape(title)}</strong>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}</div>"
    )


def _row(cells: Sequence[object]) -> str:
    first, *others = [escape(str(cell)) for cell in cells]
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>'
