"""Types and defaults of the reference as the docstrings and the signatures have them.

The parser of numpydoc takes the first of ``{"a", "b"}`` for the default, and forgets what stands behind the braces.
"""

import re
from typing import Any

import griffe


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
        for section in owner.docstring.parsed:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for parameter in section.value:
                    self._rewrite(parameter, types, owner.parameters)

    @staticmethod
    def _rewrite(parameter: Any, types: dict[str, str], signature: Any) -> None:
        written = next((text for names, text in types.items() if parameter.name in names.split(", ")), None)
        if written is not None:
            parameter.annotation = written.removesuffix(", optional")
        if parameter.name in signature:
            parameter.value = signature[parameter.name].default
