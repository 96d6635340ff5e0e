"""Arguments that several commands have, and what they mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import DataError, OptionError
from acova.base.errors import near_miss
from acova.console import say

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from acova.data.files.reading import Reading


def share(text: str | float) -> float:
    """Read a share: ``0.5`` or ``50%``."""
    given = str(text).strip()
    try:
        value = float(given.removesuffix("%"))
    except ValueError:
        msg = f"a share must be a number such as 0.5, or percent such as 50%; got {text!r}."
        raise OptionError(msg) from None
    return value / 100 if given.endswith("%") else value


def data_names(incomplete: str) -> list[str]:
    """Complete a data set of the catalogue; the shell adds files and folders."""
    from acova.data import dataset_names

    return [name for name in dataset_names() if name.startswith(incomplete)]


def method_names(incomplete: str) -> list[str]:
    """Complete a method, also one of another package; no class is imported for that."""
    from acova.estimators.registry import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


Method = Annotated[
    str, typer.Option(help="ACOVA, or one of the methods it is compared with.", autocompletion=method_names)
]
Drop = Annotated[list[str] | None, typer.Option(help="Leave out a column, or VIEW:COLUMN; may be repeated.")]
READING = ("drop", "drop_sample", "id_column", "transpose", "match_ids", "holes", "layer")
"""Options that say how tables are read; a run remembers them."""
DropSample = Annotated[list[str] | None, typer.Option(help="Leave out a sample by its name; may be repeated.")]
IdColumn = Annotated[
    list[str] | None,
    typer.Option(help="Column that names the samples, or VIEW:COLUMN; the first one by default; may be repeated."),
]
Transpose = Annotated[
    list[str] | None, typer.Option(help="VIEW with samples in columns and features in rows; may be repeated.")
]
MatchIds = Annotated[str, typer.Option(help="Names of samples: exactly, or loosely (blanks and capitals ignored).")]
Holes = Annotated[
    str,
    typer.Option(help="Rows with single empty cells: keep (leave out these cells), hide the view there, or refuse."),
]
Layer = Annotated[str | None, typer.Option(help="Layer of a .h5ad or .h5mu file to read in the place of X.")]
Stream = Annotated[bool, typer.Option("--stream", help="Leave the rows on disk; files match row by row.")]
Missing = typer.Option(parser=share, metavar="SHARE", help="Hide views of this share of the samples: 0.5 or 50%.")
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]


def existing(data: str) -> Path:
    """Return a path to data; refuse what is neither a data set nor a path, with the name that may have been meant."""
    from acova.data import dataset_names

    if not Path(data).exists() and not Path(data).suffix:
        msg = f"{data!r} is neither a data set of the catalogue ({', '.join(dataset_names())}) nor a file or folder."
        beside = [path.name for path in Path(data).parent.glob("*")]
        raise DataError(msg + (near_miss(data, dataset_names()) or near_miss(Path(data).name, beside)))
    return Path(data)


def cluster_count(text: str) -> int | str:
    """Return ``"auto"``, or a number of clusters."""
    if text == "auto":
        return text
    try:
        return int(text)
    except ValueError:
        msg = f"--clusters must be an integer at least 1, or auto; got {text!r}."
        raise OptionError(msg) from None


def load(data: str, reading: "Reading", *, stream: bool, model: Any = None) -> "tuple[Any, NDArray[Any] | None]":
    """Return the views and, where they are known, the classes of the samples; say which names were matched loosely.

    Parameters
    ----------
    data : str
        A name of the catalogue, a file or a folder.
    reading : Reading
        How tables are read.
    stream : bool
        Whether the rows stay on disk.
    model : estimator, optional
        The fitted model that the data are for: its categories are used, and its samples are not warned of again.
    """
    from acova.data import StoredViews, dataset_names, load_dataset
    from acova.data.census import Census
    from acova.data.files.formats import read_dataset
    from acova.data.matching import match_texts

    known = () if model is None else (model.categories_, model.index_)
    given = reading.given()
    if stream:
        given = {name: value for name, value in given.items() if (name, value) != ("holes", "refuse")}
    if given and (stream or data in dataset_names()):
        flags = ", ".join(map(reading_flag, given))
        way = "leave out --stream, or clean the files" if stream else "leave them out for a data set of the catalogue"
        msg = f"{flags}: these options say how tables are read into memory; {way}."
        raise OptionError(msg)
    if stream:
        stored = StoredViews.of(Path(data))
        if reading.holes == "refuse":
            Census.of(stored).refuse_empty_cells(stored)
        return stored, None
    dataset = load_dataset(data) if data in dataset_names() else read_dataset(existing(data), reading, *known)
    for name, text in match_texts(dataset.matches):
        say(f"View {name!r}: {text}.", error=True)
    return dataset.views, dataset.labels


def reading_of(who: str, **words: Any) -> "Reading":
    """Return how tables are read, from options of which those that were left out are None, in any capitals."""
    from acova.data.files.reading import Reading

    return Reading.of(who, **spelled({name: value for name, value in words.items() if value is not None}))


def spelled(words: dict[str, Any]) -> dict[str, Any]:
    """Return options that say how tables are read as the library spells them, whatever their capitals."""
    from acova.cli.options import canonical
    from acova.data.files.reading import HOLES, MATCHES

    known = {"holes": HOLES, "match_ids": MATCHES}
    return {name: canonical(value, known.get(name, ())) for name, value in words.items()}


def reading_flag(name: str) -> str:
    """Return the option of one of the words of `READING`."""
    return f"--{name.replace('_', '-')}"
