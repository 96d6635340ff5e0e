"""Rules for the names in a benchmark, and for the files that it reads."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from acova.base import FileError, OptionError
from acova.base.files import file_errors

_FORBIDDEN = '/\\<>:"|?*'
_RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(1, 10))}
_LONGEST_FILE_NAME = 150
"""Bytes; the longest suffix and the marks of an unfinished file fit into the 255 that file systems allow."""
_LONGEST_LABEL = 200


def check_label(who: str, option: str, value: Any, *, empty: bool = False, lines: bool = False) -> None:
    """Raise `OptionError` unless a name is a text of printable characters, as tables and terminals need it.

    Parameters
    ----------
    who, option : str
        Who complains, and the field that the name is in.
    value : object
        The name.
    empty : bool, default: False
        Whether an empty text is allowed.
    lines : bool, default: False
        Whether the text may have several lines and any length.
    """
    rule = ""
    if not isinstance(value, str):
        rule = "a text"
    elif not (empty or value.strip()):
        rule = "a text that is not empty"
    elif not (value.replace("\n", "").replace("\t", "") if lines else value).isprintable():
        rule = "a text without control characters"
    elif not lines and len(value) > _LONGEST_LABEL:
        rule = f"at most {_LONGEST_LABEL} characters long"
    if rule:
        msg = f"{who}: {option} must be {rule}; got {_shown(value)}."
        raise OptionError(msg)


def check_file_name(who: str, option: str, value: Any) -> None:
    """Raise `OptionError` unless files can be called by a name, on every system and inside one folder."""
    check_label(who, option, value)
    rule = ""
    if any(sign in value for sign in _FORBIDDEN):
        rule = f"must not contain any of {' '.join(_FORBIDDEN)}"
    elif value[0] in ".- " or value[-1] in ". ":
        rule = "must not start with a dot, dash or blank, nor end with a dot or blank"
    elif value.partition(".")[0].lower() in _RESERVED:
        rule = "must not be a name that Windows reserves for a device"
    elif len(value.encode()) > _LONGEST_FILE_NAME:
        rule = f"must be at most {_LONGEST_FILE_NAME} bytes long"
    if rule:
        msg = (
            f"{who}: {option} {rule}, because result files are called by it; got {_shown(value)}. Choose another name."
        )
        raise OptionError(msg)


def check_different(who: str, option: str, items: Sequence[Any], *, empty: bool = False, remedy: str = "") -> None:
    """Raise `OptionError` where an entry is there twice, or where there is none although there must be."""
    if not items and not empty:
        msg = f"{who}: {option} is empty; name at least one."
        raise OptionError(msg)
    if len(set(items)) < len(items):
        what, remedy = ("names", remedy) if remedy else ("entries", "Leave out what is there twice.")
        msg = f"{who}: {option} must have different {what}; got {list(items)}. {remedy}"
        raise OptionError(msg)


def check_regular_file(path: Path, what: str) -> None:
    """Raise `FileError` if a path leads to anything but a file; a path without anything passes.

    Parameters
    ----------
    path : Path
    what : str
        What is expected there, such as ``"a store of benchmark rows"``.
    """
    if "\0" in str(path):
        msg = f"{str(path)!r} is no path: it contains a NUL character. Give {what} another name."
        raise FileError(msg)
    try:
        with file_errors(f"looking at {path}"):
            mode = os.stat(path).st_mode
    except FileError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        raise
    if stat.S_ISREG(mode):
        return
    kind = "a folder" if stat.S_ISDIR(mode) else "a device, pipe or socket"
    msg = f"{path} is {kind}, not {what}. Give the path of a file."
    raise FileError(msg)


def one_line(text: Any) -> str:
    """Return a text for one line of a table or terminal: blanks joined, control characters replaced."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in " ".join(str(text).split()))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
