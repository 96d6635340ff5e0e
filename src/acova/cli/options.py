"""``acova options``, and the settings of a method from and to the words of a command line."""

import ast
import re
from collections.abc import Mapping, Sequence
from inspect import getdoc
from typing import Annotated, Any

import typer

from acova.base import OptionError
from acova.base.errors import check_choice, near_miss
from acova.cli.arguments import Method
from acova.console import plain_table, show

OWN_OPTIONS = ("n_clusters", "random_state", "verbose", "view_sizes", "checkpoint")
"""Settings that `fit` offers in its own way, or that files settle."""
_FLAGS = (bool, bool | None)
"""Annotations of settings that are True or False: ``--consensus`` and ``--no-consensus`` need no value."""


def options(
    method: Method = "ACOVA",
    recipe: Annotated[str | None, typer.Option(help="Show the defaults of this recipe.")] = None,
) -> None:
    """List the options of fit that are settings of a method: allowed values, defaults and meaning."""
    from acova.estimators._settings import setting_parameters
    from acova.estimators.recipes import OTHERWISE, RECIPES
    from acova.estimators.registry import method_class

    chosen = method_class(method)
    parameters, texts, types = setting_parameters(chosen), *setting_texts(chosen)
    if recipe is not None and "recipe" not in parameters:
        msg = f"options: --method {chosen.__name__} has no recipes; leave out --recipe."
        raise OptionError(msg)
    given = {} if recipe is None else {"recipe": canonical(recipe, words_of(types.get("recipe", "")))}
    if recipe is not None:
        check_choice("options", "--recipe", given["recipe"], words_of(types["recipe"]))
    in_force = given.get("recipe", parameters["recipe"].default) if "recipe" in parameters else ""
    recipes = OTHERWISE | RECIPES.get(in_force, {}) if in_force else {}
    filled = {name: value for name, value in recipes.items() if name in parameters}
    rows = []
    for name, parameter in parameters.items():
        if name not in OWN_OPTIONS:
            default = filled.get(name) if parameter.default is None else given.get(name, parameter.default)
            rows.append(
                (option_flag(name), allowed_values(types.get(name, "")), as_typed(default), texts.get(name, ""))
            )
    title = f"Options of acova fit --method {chosen.__name__}"
    if filled:
        title += f" (defaults of recipe {in_force})"
    show(plain_table(("option", "values", "default", "meaning"), rows, title=title))


def _worded(texts: Mapping[str, str], name: str) -> str:
    """Return the meaning of a setting in the words of the command line."""
    from acova.cli.messages import as_options

    return as_options(texts.get(name, "").replace("`", ""))


def method_options(method: str, arguments: Sequence[str], others: Sequence[str] = ()) -> dict[str, Any]:
    """Turn ``--latent-dim 12 --hidden=128,128`` into settings of a method.

    `others` are options that the command has besides; one of them may have been meant.
    """
    from acova.estimators._settings import setting_parameters
    from acova.estimators.registry import method_class

    parameters = setting_parameters(method_class(method))
    known = {name: p.annotation for name, p in parameters.items() if name not in OWN_OPTIONS}
    types = setting_texts(method_class(method))[1]
    settings: dict[str, Any] = {}
    left = list(arguments)
    while left:
        flag, given, text = left.pop(0).partition("=")
        name = _setting_name(flag)
        negated = name.removeprefix("no_")
        if not given and name not in known and known.get(negated) in _FLAGS:
            settings[negated] = False
            continue
        if not flag.startswith("--") or name not in known:
            listed = "acova options" if method == "ACOVA" else f"acova options --method {method}"
            words = [option.removeprefix("--") for option in (*others, *map(option_flag, known))]
            meant = near_miss(flag.removeprefix("--"), words).replace("'", "'--", 1)
            msg = f"fit: unknown option {flag!r}.{meant} '{listed}' lists those of the method."
            raise OptionError(msg)
        alone = not given and (not left or left[0].startswith("--"))
        if alone and known[name] in _FLAGS:
            settings[name] = True
            continue
        if alone:
            msg = f"fit: option {flag!r} needs a value."
            raise OptionError(msg)
        value = canonical(read_value(text if given else left.pop(0)), words_of(types.get(name, "")))
        if known[name] in _FLAGS and not isinstance(value, bool):
            msg = f"fit: option {flag!r} must be true or false; got {value!r}."
            raise OptionError(msg)
        settings[name] = (value,) if name == "hidden" and isinstance(value, int) else value
    return settings


def option_flag(name: str) -> str:
    """Return the option of a setting: ``missing`` is ``--missing-form``, since ``--missing`` hides views."""
    return f"--{'missing-form' if name == 'missing' else name.replace('_', '-')}"


def _setting_name(flag: str) -> str:
    return "missing" if flag == "--missing-form" else flag.removeprefix("--").replace("-", "_")


def read_value(text: str) -> Any:
    """Read ``500,500,2000`` as a tuple, ``0.5`` as a number, ``none``/``true``/``false``, and words as words."""
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return tuple(text.split(",")) if "," in text else text


def canonical(value: Any, words: Sequence[str]) -> Any:
    """Return a word as it is spelled among the known ones, whatever its capitals; other values as they are."""
    if isinstance(value, str):
        return {word.lower(): word for word in words}.get(value.lower(), value)
    return value


def as_typed(value: Any) -> str:
    """Return a value as it is typed on the command line."""
    if isinstance(value, tuple):
        return ",".join(map(as_typed, value))
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def setting_texts(chosen: type) -> tuple[dict[str, str], dict[str, str]]:
    """Return what the docstrings of a method and of `Training` say: setting → first sentence, setting → type."""
    from acova.estimators._settings import Training

    docs = [getdoc(Training) or "", getdoc(chosen) or ""]
    texts, types = ({name: part for doc in docs for name, part in read(doc).items()} for read in _READERS)
    return texts, types


def words_of(kind: str) -> tuple[str, ...]:
    """Return the words that a type of a docstring names: ``{"shared", "robust"} or None`` has two."""
    return tuple(re.findall(r'"([^"]+)"', kind))


def allowed_values(kind: str) -> str:
    """Return a type of a docstring as the values of an option: words, and what else may be given."""
    words = list(words_of(kind))
    others = {
        "number": r"\b(float|number|int)\b", "true": r"\bbool\b", "false": r"\bbool\b|\bFalse\b",
        "a,b,…": r"\b(tuple|sequence|Sequence)\b",
    }  # fmt: skip
    rest = re.sub(r"(tuple|sequence|Sequence|array|dict)( or dict)? of \w+", r"\1", kind)
    return ", ".join([*words, *(text for text, pattern in others.items() if re.search(pattern, rest))])


def parameter_texts(doc: str) -> dict[str, str]:
    """Return parameter → first sentence from a numpydoc docstring."""
    return {
        name: " ".join(body.split()).replace("``", "").split(". ")[0].rstrip(".") for name, _, body in _entries(doc)
    }


def parameter_types(doc: str) -> dict[str, str]:
    """Return parameter → type, as a numpydoc docstring writes it."""
    return {name: kind for name, kind, _ in _entries(doc)}


def _entries(doc: str) -> list[tuple[str, str, str]]:
    """Return name, type and text of the parameters of a numpydoc docstring."""
    section = re.split(r"\n\w[\w ]*\n-{3,}\n", doc.split("Parameters\n----------\n", 1)[-1])[0]
    found = re.findall(r"^(\w[\w, ]*) : ([^\n]*)\n((?:    [^\n]*\n?|\n)*)", section, flags=re.MULTILINE)
    return [(name.strip(), kind, body) for names, kind, body in found for name in names.split(",")]


_READERS = (parameter_texts, parameter_types)
