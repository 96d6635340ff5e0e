"""Text and tables on the terminal: names from data reach it here, and only here, as plain text."""

import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from acova.base import FileError
from acova.base.files import file_errors

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text


def printable(text: object, *, keep: str = "") -> str:
    r"""Return text whose control characters are written as escapes (``\n``, ``\x1b``), so that none acts on a terminal.

    Lone surrogates, which stand for bytes of file names that are not UTF-8, are escaped too. Characters in `keep` stay.
    """
    return "".join(one if one.isprintable() or one in keep else ascii(one)[1:-1] for one in str(text))


def plain(text: object, style: str = "") -> "Text":
    """Return a name or message as text for rich, in which ``[red]`` and ``:smile:`` are no markup."""
    from rich.text import Text

    return Text(printable(text), style=style)


def plain_table(columns: Sequence[object], rows: Iterable[Sequence[object]], *, title: str) -> "Table":
    """Return a table whose title, headings and cells are plain text."""
    from rich.table import Table

    table = Table(title=plain(title, "table.title"))
    for column in columns:
        table.add_column(plain(column))
    for row in rows:
        table.add_row(*map(plain, row))
    return table


def say(text: object, *, error: bool = False) -> None:
    """Print lines of text to standard output, or to standard error."""
    stream = sys.stderr if error else sys.stdout
    line = printable(text, keep="\n") + "\n"
    encoding = stream.encoding or "utf-8"
    with _output_errors():
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()


@contextmanager
def _output_errors() -> Iterator[None]:
    """Turn a failure to print, such as a full disk that the output goes to, into a `FileError`."""
    try:
        with file_errors("writing to standard output"):
            yield
    except FileError as error:
        if isinstance(error.__cause__, BrokenPipeError):  # the reader has seen enough: the command ends quietly
            raise error.__cause__ from None
        # What is left in the buffer would fail again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


@contextmanager
def plain_warnings(worded: Callable[[str], str] = str) -> Iterator[None]:
    """Print each different warning once, as one line on standard error, while the block runs.

    `worded` may change its text before it is printed.
    """
    said: set[str] = set()

    def show_warning(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in said:
            said.add(str(message))
            say(f"warning: {worded(str(message))}", error=True)

    with warnings.catch_warnings():
        warnings.showwarning = show_warning
        yield


def count(value: int, noun: str) -> str:
    """Return a count with its noun, which gets an s for all counts but 1."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


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
    with _output_errors():
        terminal().print(table)


def score_table(scores: Mapping[str, Mapping[str, float]]) -> "Table":
    """Return scores by method."""
    names = {"acc": "ACC", "nmi": "NMI", "ari": "ARI", "purity": "purity"}
    rows = [[method, *(f"{values[key]:.3f}" for key in names)] for method, values in scores.items()]
    return plain_table(["method", *names.values()], rows, title="Agreement with the known classes")


def correlation_table(model: Any) -> "Table":
    """Return the correlation of the views' errors."""
    pairs = zip(model.view_names_, model.correlation_, strict=True)
    rows = [[name, *(f"{value:+z.2f}" for value in row)] for name, row in pairs]
    return plain_table(["", *model.view_names_], rows, title="Learned correlation of the views' errors")


def influence_table(model: Any) -> "Table":
    """Return what the clusters owe to each view."""
    columns = zip(model.view_names_, model.view_support_, model.view_influence_, strict=True)
    rows = [[name, f"{support:.2f}", f"{changed:.0%}"] for name, support, changed in columns]
    names = ["view", "support (kappa)", "change without it"]
    return plain_table(names, rows, title="What the clusters owe to each view")


def cluster_sizes(assignments: "pd.DataFrame") -> "pd.DataFrame":
    """Return ``size``, and ``sum`` and ``count`` of the confidence, of every cluster in a table of `assignments`."""
    known = assignments.reindex(columns=["label", "confidence"])
    return known.groupby("label")["confidence"].agg(["size", "sum", "count"])


def size_table(sizes: "Iterable[pd.DataFrame]") -> "Table":
    """Return the samples of each cluster, in the order of their numbers, from `cluster_sizes` of one or more tables."""
    import pandas as pd

    totals = pd.concat(list(sizes)).groupby(level=0).sum()
    sure = bool(totals["count"].any())  # k-means alone gives no confidence
    rows = [
        [label, f"{row['size']:.0f}", *([f"{row['sum'] / row['size']:.2f}"] if sure else [])]
        for label, row in totals.iterrows()
    ]
    return plain_table(["cluster", "samples", *(["mean confidence"] if sure else [])], rows, title="Clusters")
