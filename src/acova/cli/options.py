"""``acova options``, and the settings of a method from and to the words of a command line."""

import ast
import re
from collections.abc import Sequence
from inspect import getdoc
from typing import Any

from acova.base import OptionError
from acova.base.errors import near_miss
from acova.cli.arguments import Method
from acova.console import plain_table, show

OWN_OPTIONS = ("n_clusters", "random_state", "verbose", "view_sizes", "checkpoint")
"""Settings that `fit` offers in its own way, or that files settle."""


def options(method: Method = "ACOVA") -> None:
    """List the options of fit that are settings of a method, with their defaults."""
    from acova.estimators._settings import Training, setting_parameters
    from acova.estimators.registry import method_class

    chosen = method_class(method)
    texts = parameter_texts(getdoc(Training) or "") | parameter_texts(getdoc(chosen) or "")
    rows = []
    for name, parameter in setting_parameters(chosen).items():
        if name not in OWN_OPTIONS:
            default = parameter.default
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            rows.append((option_flag(name), shown, texts.get(name, "")))
    show(plain_table(("option", "default", "meaning"), rows, title=f"Options of acova fit --method {chosen.__name__}"))


def method_options(method: str, arguments: Sequence[str], others: Sequence[str] = ()) -> dict[str, Any]:
    """Turn ``--latent-dim 12 --hidden=128,128`` into settings of a method.

    `others` are options that the command has besides; one of them may have been meant.
    """
    from acova.estimators._settings import setting_parameters
    from acova.estimators.registry import method_class

    parameters = setting_parameters(method_class(method))
    known = {name: p.annotation for name, p in parameters.items() if name not in OWN_OPTIONS}
    settings = {}
    left = list(arguments)
    while left:
        flag, given, text = left.pop(0).partition("=")
        name = _setting_name(flag)
        if not flag.startswith("--") or name not in known:
            listed = "acova options" if method == "ACOVA" else f"acova options --method {method}"
            words = [option.removeprefix("--") for option in (*others, *map(option_flag, known))]
            meant = near_miss(flag.removeprefix("--"), words).replace("'", "'--", 1)
            msg = f"fit: unknown option {flag!r}.{meant} '{listed}' lists those of the method."
            raise OptionError(msg)
        if not given and (not left or left[0].startswith("--")):
            example = " true" if known[name] in (bool, bool | None) else ""
            msg = f"fit: option {flag!r} needs a value{example and f', such as {flag}{example}'}."
            raise OptionError(msg)
        value = read_value(text if given else left.pop(0))
        if known[name] in (bool, bool | None) and not isinstance(value, bool):
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


def parameter_texts(doc: str) -> dict[str, str]:
    """Return parameter → first sentence from a numpydoc docstring."""
    section = re.split(r"\n\w[\w ]*\n-{3,}\n", doc.split("Parameters\n----------\n", 1)[-1])[0]
    texts: dict[str, str] = {}
    for names, body in re.findall(r"^(\w[\w, ]*) : [^\n]*\n((?:    [^\n]*\n?|\n)*)", section, flags=re.MULTILINE):
        sentence = " ".join(body.split()).replace("``", "").split(". ")[0].rstrip(".")
        texts |= {name.strip(): sentence for name in names.split(",")}
    return texts
