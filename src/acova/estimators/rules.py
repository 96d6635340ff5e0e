"""Rules of settings, for the `_rules` of a method of your own; see `acova.estimators._validation`."""

from acova.estimators._validation import (
    COUNT,
    EPOCHS,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    Rule,
    anything,
    check_flag,
    either,
    number,
    optional,
    widths,
    word,
)

__all__ = [
    "COUNT",
    "EPOCHS",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "Rule",
    "anything",
    "check_flag",
    "either",
    "number",
    "optional",
    "widths",
    "word",
]
