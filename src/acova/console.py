"""Tables on the terminal."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def plain(value: object) -> "Text":
    """Return a name as text in which brackets and colons have no meaning for rich."""
    from rich.text import Text

    return Text(str(value))


def csv_safe(value: Any) -> Any:
    """Return a cell of a csv file that no spreadsheet runs as a formula: an apostrophe before it, if it may be one.

    Numbers, also those that are written as text, stay as they are.
    """
    if not isinstance(value, str) or not value.startswith(_FORMULA):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value


def terminal(width: int = 120) -> "Console":
    """Return the terminal; a pipe has no width, so it gets this one: columns are not cut to fit a guess."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=width)


def show(table: "RenderableType") -> None:
    """Print a table."""
    terminal().print(table)


def score_table(scores: Mapping[str, Mapping[str, float]]) -> "Table":
    """Return scores by method."""
    from rich.table import Table

    names = {"acc": "ACC", "nmi": "NMI", "ari": "ARI", "purity": "purity"}
    table = Table("method", *names.values(), title="Agreement with the known classes")
    for method, values in scores.items():
        table.add_row(plain(method), *(f"{values[key]:.3f}" for key in names))
    return table


def correlation_table(model: Any) -> "Table":
    """Return the correlation of the views' errors."""
    from rich.table import Column, Table

    table = Table(
        "", *(Column(plain(name)) for name in model.view_names_), title="Learned correlation of the views' errors"
    )
    for name, row in zip(model.view_names_, model.correlation_, strict=True):
        table.add_row(plain(name), *(f"{value:+.2f}" for value in row))
    return table


def size_table(assignments: "Iterable[pd.DataFrame]") -> "Table":
    """Count the samples of each cluster in tables that come piece by piece."""
    import pandas as pd
    from rich.table import Table

    frames = (frame.reindex(columns=["label", "confidence"]) for frame in assignments)
    pieces = [frame.groupby("label")["confidence"].agg(["size", "sum", "count"]) for frame in frames]
    totals = pd.concat(pieces).groupby(level=0).sum()
    sure = bool(totals["count"].any())  # k-means alone tells no confidence
    table = Table("cluster", "samples", *(["mean confidence"] if sure else []), title="Clusters")
    for cluster, row in totals.iterrows():
        table.add_row(plain(cluster), f"{row['size']:.0f}", *([f"{row['sum'] / row['size']:.2f}"] if sure else []))
    return table
