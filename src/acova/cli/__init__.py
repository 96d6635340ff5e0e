"""The ``acova`` command: it parses, calls the library and exits."""

from acova.cli.commands import app, main

__all__ = ["app", "main"]
