"""Messages of the library in the words of the command line: options instead of keywords."""

import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from acova.cli.options import option_flag

if TYPE_CHECKING:
    from acova.data import Inspection

_OWN = {
    "n_clusters": "--clusters", "random_state": "--seed", "checkpoint": "--resume",
    "verbose": "--quiet",
}  # fmt: skip
_PHRASES = {
    "overwrite=True": "--force", "call calibrate_imputation(X)": "add --calibrate",
    "return_std and quantiles": "--std and --quantiles", "in files, match_ids='loosely'": "--match-ids loosely",
    "(frame.T; files: transpose)": "(--transpose VIEW)",
}  # fmt: skip
_QUOTED = r"(?<![\w/'\"\\.-])"
"""Where no name of a file, column or view can be."""


@cache
def _settings() -> dict[str, str]:
    """Return the option of every setting of every method of the library."""
    from acova.estimators._settings import setting_parameters
    from acova.estimators.registry import HOMES, method_class

    names = {name for method in HOMES for name in setting_parameters(method_class(method))}
    return {name: option_flag(name) for name in names} | _OWN


def as_options(text: str) -> str:
    """Return a message in which settings are named by their options.

    ``n_init=10`` becomes ``--n-init 10``, ``consensus=True`` becomes ``--consensus``, and a name with an underscore,
    or before a rule (``alpha must be ...``), becomes the option. Names in quotes stay.
    """
    for phrase, said in _PHRASES.items():
        text = text.replace(phrase, said)
    text = re.sub(r"holes='(\w+)'(, --holes \1)?", r"--holes \1", text)
    options = _settings()
    names = "|".join(sorted(map(re.escape, options), key=len, reverse=True))
    text = re.sub(rf"{_QUOTED}({names})=True\b", lambda found: options[found[1]], text)
    text = re.sub(rf"{_QUOTED}({names})=False\b", lambda found: f"{options[found[1]]} false", text)
    text = re.sub(rf"{_QUOTED}({names})=[\"']?([\w.-]*\w)[\"']?", lambda f: f"{options[f[1]]} {f[2]}", text)
    text = re.sub(rf"(?<=: )({names})(?= must )", lambda found: options[found[1]], text)
    long = "|".join(name for name in sorted(options, key=len, reverse=True) if "_" in name)
    return re.sub(rf"{_QUOTED}({long})(?![\w/'\"=(])", lambda found: options[found[1]], text)


def inspection_in_options(found: "Inspection") -> "Inspection":
    """Return what was found in data with settings named by their options."""
    findings = tuple(replace(one, text=as_options(one.text)) for one in found.findings)
    return replace(found, findings=findings, refusal=None if found.refusal is None else as_options(found.refusal))
