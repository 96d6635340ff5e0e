"""Arguments that several commands have, and what they mean."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import DataError, OptionError
from acova.base.errors import near_miss

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
Holes = Annotated[str, typer.Option(help="Rows with single empty cells: refuse, or hide the view there.")]
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


def load(data: str, *, stream: bool, **reading: Any) -> "tuple[Any, NDArray[Any] | None]":
    """Return the views and, where they are known, the classes of the samples.

    Parameters
    ----------
    data : str
        A name of the catalogue, a file or a folder.
    stream : bool
        Whether the rows stay on disk.
    **reading
        Keywords of `acova.data.read_views`.
    """
    from acova.data import StoredViews, dataset_names, load_dataset, read_views

    if stream:
        if reading.get("drop") or reading.get("holes", "refuse") != "refuse":
            msg = "--drop and --holes are for data in memory; leave out --stream, or clean the files."
            raise OptionError(msg)
        return StoredViews.of(Path(data)), None
    dataset = load_dataset(data) if data in dataset_names() else read_views(existing(data), **reading)
    return dataset.views, dataset.labels
