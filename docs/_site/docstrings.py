"""Types and defaults of the reference as the docstrings and the signatures have them.

The parser of numpydoc takes the first of ``{"a", "b"}`` for the default, and forgets what stands behind the braces. A
setting whose default None stands for the value of a recipe gets these values in its description.
"""

import re
from typing import Any

import griffe

from acova.estimators.recipes import OTHERWISE, RECIPES


class AsWritten(griffe.Extension):
    """Replaces what the parser made of the parameters of a class or function."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Walk through the package once it is loaded."""
        self._correct(pkg)

    def _correct(self, owner: griffe.Object) -> None:
        for member in owner.members.values():
            if not member.is_alias:
                self._correct(member)
        if owner.docstring is None or not (owner.is_class or owner.is_function):
            return
        types = dict(re.findall(r"^(\w[\w, ]*) : (.+)$", owner.docstring.value, flags=re.MULTILINE))
        follows_recipe = owner.is_class and (owner.name == "Training" or "recipe" in owner.parameters)
        for section in owner.docstring.parsed:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for parameter in section.value:
                    self._rewrite(parameter, types, owner.parameters)
                    if follows_recipe and parameter.value == "None":
                        parameter.description += resolved(parameter.name)

    @staticmethod
    def _rewrite(parameter: Any, types: dict[str, str], signature: Any) -> None:
        written = next((text for names, text in types.items() if parameter.name in names.split(", ")), None)
        if written is not None:
            parameter.annotation = written.removesuffix(", optional")
        if parameter.name in signature:
            parameter.value = signature[parameter.name].default


def resolved(name: str) -> str:
    """Return the sentence that says what the default None of a setting stands for, or nothing."""
    values: dict[str, list[str]] = {}
    for recipe in ("shared", "robust", "paper"):
        filled = OTHERWISE | RECIPES[recipe]
        if name in filled:
            values.setdefault(repr(filled[name]), []).append(recipe)
    if not values:
        return ""
    said = ", ".join(f"`{value}` ({', '.join(recipes)})" for value, recipes in values.items())
    return f"\n\n*None: the value of the [recipe](../settings.md#recipes):* {said}."
