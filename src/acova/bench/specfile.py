"""Benchmarks as TOML: read against a schema, with errors that name the file and the field, and written."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from acova.base import FileError, OptionError
from acova.base.errors import check_choice, near_miss
from acova.base.files import read_toml
from acova.bench.checks import check_regular_file, one_line
from acova.bench.entries import DataSpec, MethodSpec, Quick
from acova.bench.spec import BenchSpec

T = TypeVar("T")

_DEEPEST = 20
"""Levels of tables and lists in a setting."""
_MOST_METHODS = 10_000
_LARGEST = 10_000_000
"""Bytes of a spec."""
_MANUAL = "docs/benchmarks.md describes the fields of a spec."


@dataclass(frozen=True)
class _Sweep(MethodSpec):
    """A method of a file, which may stand for several: one per combination of the values in ``sweep``."""

    sweep: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Names:
    """The schema of what must be there, whatever else is."""

    name: str
    data: tuple[str | dict[str, Any], ...]
    methods: tuple[str | dict[str, Any], ...]


def read_spec(path: Path) -> BenchSpec:
    """Read a spec from a file; `FileError` for a file that is not TOML, `OptionError` for a wrong field."""
    check_regular_file(path, "a benchmark in TOML")
    if not path.exists():
        msg = f"There is no file {path}; 'acova paper table1 --spec' prints one to start from."
        raise FileError(msg)
    if path.stat().st_size > _LARGEST:
        msg = f"{path} has more than {_LARGEST:,} bytes, so it is no benchmark in TOML. {_MANUAL}"
        raise FileError(msg)
    content = read_toml(path, dict[str, Any])
    return spec_of({"name": path.stem, **content}, str(path.parent.resolve()), where=f"{path}: ")


def spec_of(content: Mapping[str, Any], folder: str = "", where: str = "") -> BenchSpec:
    """Make a spec from the content of a file; `where` starts every message."""
    try:
        return _spec_of(content, folder)
    except OptionError as error:
        msg = f"{where}{error}"
        raise OptionError(msg) from error


def _spec_of(content: Mapping[str, Any], folder: str) -> BenchSpec:
    who = f"benchmark {one_line(content.get('name', '?'))!r}"
    _check_fields(who, content, BenchSpec, "folder")
    entries = _converted(who, content, _Names)
    made: dict[str, Any] = {**content, "data": (), "methods": ()}
    made["data"] = [_data_of(who, f"data[{place}]", item) for place, item in enumerate(entries.data)]
    made["methods"] = [
        method for place, item in enumerate(entries.methods) for method in _methods_of(who, f"methods[{place}]", item)
    ]
    if "quick" in content:
        made["quick"] = _quick_of(who, content["quick"])
    spec = _converted(who, {**made, "folder": folder}, BenchSpec)
    _check_places(who, spec)
    return spec


def _data_of(who: str, place: str, item: str | Mapping[str, Any]) -> DataSpec:
    data = _entry(who, place, item, DataSpec)
    return replace(data, options=_settings(who, f"{place}.options", data.options))


def _methods_of(who: str, place: str, item: str | Mapping[str, Any]) -> Iterator[MethodSpec]:
    """Yield one method per combination of the values in ``sweep``."""
    entry = _entry(who, place, item, _Sweep)
    sweep = _settings(who, f"{place}.sweep", entry.sweep)
    for key, values in sweep.items():
        if not values:
            msg = f"{who}: {place}.sweep.{key} is empty; give at least one value."
            raise OptionError(msg)
    if math.prod(map(len, sweep.values())) > _MOST_METHODS:
        msg = f"{who}: {place}.sweep has more than {_MOST_METHODS:,} combinations. Leave out some of its values."
        raise OptionError(msg)
    content = {one.name: getattr(entry, one.name) for one in fields(MethodSpec)}
    content["settings"] = _settings(who, f"{place}.settings", entry.settings)
    content["on"] = _settings(who, f"{place}.on", entry.on)
    for values in itertools.product(*sweep.values()):
        at = dict(zip(sweep, values, strict=True))
        name = ", ".join([entry.name, *(f"{key}={value}" for key, value in at.items())])
        yield MethodSpec(**{**content, "name": name, "settings": {**content["settings"], **at}})


def _quick_of(who: str, table: Any) -> Quick:
    if not isinstance(table, Mapping):
        msg = f"{who}: quick must be a table; got {table!r}. {_MANUAL}"
        raise OptionError(msg)
    _check_fields(f"{who}, quick", table, Quick)
    quick = _converted(who, table, Quick, "quick")
    return replace(quick, settings=_settings(who, "quick.settings", quick.settings))


def _entry(who: str, place: str, item: str | Mapping[str, Any], kind: type[T]) -> T:
    """Return data or a method from its name or table."""
    table = {"name": item} if isinstance(item, str) else item
    _check_fields(f"{who}, {one_line(table.get('name', place))!r}", table, kind)
    return _converted(who, table, kind, place)


def _converted(who: str, content: Any, kind: type[T], place: str = "") -> T:
    """Check a table against a schema."""
    try:
        return msgspec.convert(content, kind, from_attributes=True)
    except msgspec.ValidationError as error:
        reason, _, path = str(error).partition(" - at `$")
        where = f"{place}{path.rstrip('`')}".lstrip(".").replace("[...]", "")
        if isinstance(error.__cause__, OptionError):
            raise OptionError(f"{who}: {where}: {reason}" if where else reason) from error
        msg = f"{who}: {where + ': ' if where else ''}{_in_toml(reason)}. {_MANUAL}"
        raise OptionError(msg) from error
    except RecursionError as error:
        msg = f"{who}: {place or 'the spec'} is nested too deeply. {_MANUAL}"
        raise OptionError(msg) from error


def _in_toml(reason: str) -> str:
    """Return what msgspec says in the words of TOML."""
    words = {
        "array": "list",
        "object": "table",
        "str": "text",
        "int": "integer",
        "float": "number",
        "bool": "true/false",
    }

    def renamed(found: re.Match[str]) -> str:
        return " or ".join(words.get(word, word) for word in found[1].split(" | "))

    text = re.sub(r"`([\w |]+)`", renamed, reason)
    text = re.sub(r"^Expected (.*), got (.*)$", r"must be a \1; got a \2", text)
    return text[:1].lower() + text[1:]


def _check_fields(who: str, table: Mapping[str, Any], kind: type[Any], *not_these: str) -> None:
    known = [each.name for each in fields(kind) if each.name not in not_these]
    for name in table:
        if name not in known:
            shown = one_line(name)
            msg = f"{who}: unknown entry {shown!r}; known are {', '.join(known)}.{near_miss(shown, known)}"
            raise OptionError(msg)


def _check_places(who: str, spec: BenchSpec) -> None:
    """Check that settings for one data set alone name one of the spec or of the catalogue."""
    from acova.data import dataset_names

    names = list(dict.fromkeys([*(data.name for data in spec.data), *spec.quick.data, *dataset_names()]))
    for method in spec.methods:
        for name in method.on:
            check_choice(f"{who}, method {method.name!r}", "on", name, names)


def _settings(who: str, place: str, table: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _setting(who, f"{place}.{one_line(key)}", value, 0) for key, value in table.items()}


def _setting(who: str, place: str, value: Any, depth: int) -> Any:
    """Turn lists into tuples and the word "none" into None, which TOML does not have."""
    if depth > _DEEPEST:
        msg = f"{who}: {place[:60]}… is nested deeper than {_DEEPEST} levels."
        raise OptionError(msg)
    if isinstance(value, Mapping):
        return {key: _setting(who, f"{place}.{one_line(key)}", each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(_setting(who, f"{place}[{number}]", each, depth + 1) for number, each in enumerate(value))
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and not math.isnan(value)):
        return None if value == "none" else value
    msg = f"{who}: {place} must be a number, text, true, false, list or table; got {value!r}."
    raise OptionError(msg)


def spec_text(spec: BenchSpec) -> str:
    """Return a spec as TOML."""
    import tomli_w

    content = {one.name: getattr(spec, one.name) for one in fields(spec) if one.name != "folder"}
    content["data"] = [_spare(data, DataSpec(data.name)) for data in spec.data]
    content["methods"] = [_spare(method, MethodSpec(method.name)) for method in spec.methods]
    content["quick"] = _spare(spec.quick, Quick())
    return tomli_w.dumps(_to_toml(content))


def _spare(item: Any, default: Any) -> dict[str, Any]:
    """Return the name, and the entries that differ from their defaults."""
    content = {one.name: getattr(item, one.name) for one in fields(item)}
    return {key: value for key, value in content.items() if key == "name" or value != getattr(default, key)}


def _to_toml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_toml(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_to_toml(each) for each in value]
    return "none" if value is None else value
