"""What settings may be: each message says the estimator, the option, the rule, what it got and the way out."""

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from acova.base import OptionError
from acova.base.errors import check_choice, check_number
from acova.base.seeds import check_seed
from acova.engine.runtime import PRECISIONS
from acova.training.correlation_starts import CORRELATION_STARTS
from acova.training.phases import LEARNED_CORRELATIONS
from acova.training.starts import STARTS

__all__ = [
    "COUNT",
    "EPOCHS",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "Rule",
    "anything",
    "check_flag",
    "each_view",
    "either",
    "number",
    "optional",
    "widths",
    "word",
]

Rule = Callable[[str, str, Any], None]
"""``rule(who, option, value)`` raises `OptionError` for a value that the option cannot have."""


def number(**limits: Any) -> Rule:
    """Return the rule of a number within limits, see `check_number`."""
    return lambda who, option, value: check_number(who, option, value, **limits)


def word(*known: str) -> Rule:
    """Return the rule of a word."""
    return lambda who, option, value: check_choice(who, option, value, known)


def either(words: Sequence[str], other: Rule, otherwise: str) -> Rule:
    """Return the rule of a word or of something else, which `otherwise` says in words."""

    def check(who: str, option: str, value: Any) -> None:
        if isinstance(value, str):
            check_choice(who, option, value, words, otherwise)
        else:
            other(who, option, value)

    return check


def optional(rule: Rule, nothing: Any = None) -> Rule:
    """Return a rule that also lets None, or False, pass."""
    return lambda who, option, value: None if value is nothing else rule(who, option, value)


def each_view(rule: Rule) -> Rule:
    """Return the rule of one value for all views, or one per view; how many there must be is checked with the data."""

    def check(who: str, option: str, value: Any) -> None:
        values = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else [value]
        for each in values:
            rule(who, option, each)

    return check


def check_flag(who: str, option: str, value: Any) -> None:
    """Raise `OptionError` unless `value` is True or False; `verbose` may be a number, as elsewhere in scikit-learn."""
    if isinstance(value, bool | np.bool_) or (option == "verbose" and isinstance(value, Integral)):
        return
    msg = f"{who}: {option} must be True or False; got {value!r}."
    raise OptionError(msg)


def widths(or_auto: str = "") -> Rule:
    """Return the rule of a sequence of widths; `or_auto` is what messages say may stand in its place."""

    def check(who: str, option: str, value: Any) -> None:
        if or_auto and isinstance(value, str) and value == "auto":
            return
        if isinstance(value, str) or not isinstance(value, Sequence):
            msg = f"{who}: {option} must be {or_auto}widths of layers, such as (500, 500, 2000); got {value!r}."
            raise OptionError(msg)
        for width in value:
            check_number(who, option, width, minimum=1, integer=True)

    return check


def anything(who: str, option: str, value: Any) -> None:
    """Let every value pass: it is checked where the data are known."""


COUNT = number(minimum=1, integer=True)
EPOCHS = number(minimum=0, integer=True)
POSITIVE = number(minimum=0, strict=True)
NOT_NEGATIVE = number(minimum=0)
SHARE = number(minimum=0, maximum=1)
_MATRIX = "a number or a matrix"

RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("n_clusters", "latent_dim", "batch_size", "checkpoint_every"), COUNT),
    **dict.fromkeys(("n_neighbors", "decay_every", "n_correlations"), COUNT),
    "n_init": COUNT,
    **dict.fromkeys(("pretrain_epochs", "warmup_epochs", "epochs"), EPOCHS),
    **dict.fromkeys(("learning_rate", "prior_learning_rate", "correlation_learning_rate"), POSITIVE),
    **dict.fromkeys(("pretrain_learning_rate", "learning_rate_decay", "min_std"), POSITIVE),
    **dict.fromkeys(("alpha", "elbo_weight", "warmup_kl", "weight_learning_rate", "tol"), NOT_NEGATIVE),
    "patience": optional(COUNT),
    "clip_norm": optional(POSITIVE),
    "balance": optional(SHARE, False),
    "reconstruction_scale": optional(POSITIVE, False),
    "neighbor_weight": either(("auto",), SHARE, "a number from 0 to 1"),
    "hidden": widths(),
    "correlation": either((*LEARNED_CORRELATIONS, "identity"), anything, _MATRIX),
    "correlation_start": either(CORRELATION_STARTS, anything, _MATRIX),
    "missing": word("precision", "marginal"),
    "covariate_use": word("both", "adjust", "decode", "encode"),
    "precision": word(*PRECISIONS),
    "cluster_start": word(*STARTS),
    "final_clusters": word("graph", "mixture"),
    "temperature": either(("auto",), POSITIVE, "a number above 0"),
    "assignment": word("draw", "exact"),
    **dict.fromkeys(("consensus", "drop_last", "verbose"), check_flag),
    "random_state": lambda who, _, value: check_seed(who, value),
    **dict.fromkeys(("recipe", "likelihood", "view_weights", "standardize"), anything),
    **dict.fromkeys(("view_sizes", "device", "checkpoint"), anything),
}
"""What the settings that several methods have may be; a method says in `_rules` what its own may be."""
BY_SIZE: Mapping[str, Rule] = {
    "n_init": either(("auto",), COUNT, "a number of runs"),
    "hidden": widths("'auto' or "),
}
"""The same where they may be suited to the number of samples."""


def rules_of(cls: type, settings: Sequence[str]) -> dict[str, Rule]:
    """Return the rule of every setting of a method; raise `TypeError` for one without, and for a rule without one."""
    by_size = BY_SIZE if "recipe" in settings else {}
    known: Mapping[str, Rule] = {**RULES, **by_size, **getattr(cls, "_rules", {})}
    for name in vars(cls).get("_rules", {}):  # a class may inherit more rules than it has settings
        if name not in settings:
            msg = f"{cls.__name__}: _rules names {name!r}, which is no setting."
            raise TypeError(msg)
    for name in settings:
        if name not in known:
            msg = f"{cls.__name__}: {name!r} has no rule; every setting needs one, in _rules or in RULES."
            raise TypeError(msg)
    return {name: known[name] for name in settings}


def check_settings(who: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Raise `OptionError` for the first setting with a value that it cannot have."""
    for option, rule in rules.items():
        rule(who, option, values[option])
