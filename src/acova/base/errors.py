"""Errors that say who complains, the rule, what was given and the way out."""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from numbers import Integral, Real
from typing import Any


class AcovaError(Exception):
    """Base of every error this package raises on purpose."""


class OptionError(AcovaError, ValueError):
    """A setting has a value it cannot have."""


class DataError(AcovaError, ValueError):
    """The data cannot be used as they are."""


class FileError(AcovaError, OSError):
    """A file or folder cannot be read or written, or does not hold what it should."""


class RunFolderError(FileError):
    """A saved run cannot be read, or must not be overwritten."""


class ProcessError(AcovaError, RuntimeError):
    """Another process of a job is gone."""


class TrainingError(AcovaError, ArithmeticError):
    """Training left the range of finite numbers."""


class MissingExtraError(DataError, ImportError):
    """An optional package is needed and not installed."""


class DataWarning(UserWarning):
    """The data can be used, but probably do not say what their owner means."""


def require(module: str, who: str, extra: str) -> Any:
    """Import an optional package, or raise an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        msg = f"{who} needs {module}, which cannot be imported ({error}); install it with: pip install 'acova[{extra}]'"
        raise MissingExtraError(msg) from error


def near_miss(name: object, known: Iterable[str]) -> str:
    """Return `` Did you mean 'x'?`` when `name` resembles a known name, else an empty string."""
    close = get_close_matches(str(name), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def check_choice(who: str, option: str, value: object, known: Iterable[str], also: str = "") -> None:
    """Raise `OptionError` unless `value` is one of the `known` words.

    `also` names, in words, what else the caller accepts (checked by the caller beforehand).
    """
    known = list(known)
    if isinstance(value, str) and value in known:
        return
    words = ", ".join(map(repr, known)) + (f" or {also}" if also else "")
    msg = f"{who}: {option} must be {words}; got {value!r}.{near_miss(value, known)}"
    raise OptionError(msg)


def check_number(
    who: str,
    option: str,
    value: Any,
    *,
    minimum: float,
    maximum: float | None = None,
    integer: bool = False,
    strict: bool = False,
) -> None:
    """Raise `OptionError` unless `value` is a finite number from (`strict`: above) `minimum` to `maximum`."""
    kind: type = Integral if integer else Real
    right_kind = isinstance(value, kind) and not isinstance(value, bool)
    low_enough = value <= maximum if right_kind and maximum is not None else True
    if right_kind and (value > minimum or (value == minimum and not strict)) and low_enough and value < float("inf"):
        return
    rule = f"{'above' if strict else 'at least'} {minimum}" + (f" and at most {maximum}" if maximum is not None else "")
    msg = f"{who}: {option} must be {'an integer' if integer else 'a number'} {rule}; got {value!r}."
    raise OptionError(msg)
