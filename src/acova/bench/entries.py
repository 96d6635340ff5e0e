"""The entries of a benchmark: data, methods, and each fit of a method on data."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from acova.base import OptionError
from acova.base.errors import check_choice, check_number
from acova.bench.checks import check_different, check_label

SCALES = ("none", "zscore", "balanced", "auto")
LABELS = ("found", "oracle")


@dataclass(frozen=True)
class DataSpec:
    """Data to cluster.

    Attributes
    ----------
    name : str
        How tables call it.
    source : str
        A name of the catalogue, a file or folder (relative to the spec), or ``module:function``, which returns a
        `Dataset` or a pair of views and labels; `name` by default. A benchmark that runs imports the module and calls
        the function: run only specs whose modules you trust.
    views : tuple of str
        Only these views, in this order; all by default.
    options : dict
        Keywords for the function.
    seed : str
        The keyword of the function that gets the number of the run, so that every run has data of its own; a value
        in `options` is added to it. The same data for all runs by default.
    missing : tuple of numbers
        Percent of the samples that lack views, instead of the benchmark's: ``[0]`` takes data as they come.
    """

    name: str
    source: str = ""
    views: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: str = ""
    missing: tuple[int | float, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or self.name)
        check_label("data set", "name", self.name)
        check_label(f"data set {self.name!r}", "source", self.source)
        check_different(f"data set {self.name!r}", "views", self.views, empty=True)
        check_different(f"data set {self.name!r}", "missing", self.missing, empty=True)
        for rate in self.missing:
            check_number(f"data set {self.name!r}", "missing", rate, minimum=0, maximum=100)
        self._check_seed()

    def _check_seed(self) -> None:
        first = self.options.get(self.seed, 0) if self.seed else 0
        if self.seed and ":" not in self.source:
            msg = f"data set {self.name!r}: seed is for data of a function, module:function; {self.source!r} is none."
            raise OptionError(msg)
        check_number(f"data set {self.name!r}", f"options.{self.seed}", first, minimum=0, integer=True)


@dataclass(frozen=True)
class MethodSpec:
    """A method and its settings.

    Attributes
    ----------
    name : str
        How tables call it.
    use : str
        A method of the library, the name of an entry point in the group ``acova.methods``, or ``module:Class``;
        `name` by default. A benchmark that runs imports the module and calls the class: run only specs whose modules
        you trust.
    settings : dict
        Settings by their flat names; they replace those of the method's preset for the data set.
    on : dict
        Name of a data set → settings for that one alone, which replace both.
    preset : bool
        Whether to start from the method's preset for the data set.
    published : str
        Its name in the published tables, if it is there.
    family : str
        What the members of a sweep have in common.
    scale : {"none", "zscore", "balanced", "auto"}
        What is done to the views before a foreign method gets them: "zscore", z-scores of observed rows; "balanced",
        the same, and every view divided by the root of its width; "auto", the rule of ``standardize="auto"``, and
        every view divided by the root of its width, as `KNNImpute` does. Methods of the library scale by settings of
        their own.
    labels : {"found", "oracle"}
        Which labels are scored; "oracle" is for methods that are defined to choose by the known classes (BSV).
    """

    name: str
    use: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    on: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    preset: bool = True
    published: str = ""
    family: str = ""
    scale: str = "none"
    labels: str = "found"

    def __post_init__(self) -> None:
        object.__setattr__(self, "use", self.use or self.name)
        object.__setattr__(self, "family", self.family or self.name)
        check_label("method", "name", self.name)
        for option in ("use", "family", "published"):
            check_label(f"method {self.name!r}", option, getattr(self, option), empty=option == "published")
        check_choice(f"method {self.name!r}", "scale", self.scale, SCALES)
        check_choice(f"method {self.name!r}", "labels", self.labels, LABELS)


@dataclass(frozen=True)
class Quick:
    """The part of a benchmark that ``--quick`` runs.

    Attributes
    ----------
    data, methods : tuple of str
        Names; all by default.
    missing : tuple of numbers
        Percent; all rates by default.
    runs : int, optional
    settings : dict
        Settings for those methods of the library that know them.
    """

    data: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    missing: tuple[int | float, ...] = ()
    runs: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Fit:
    """A method on one data set under one mask, with one seed for both."""

    data: DataSpec
    missing: float
    pattern: str
    method: MethodSpec
    run: int
    record: tuple[str, ...] = ()
    folder: str = ""
    alone: bool = False

    @cached_property
    def key(self) -> str:
        """Name what decides the result: the same in every benchmark that asks for the same fit.

        What a recipe stands for is part of it: rows of another recipe are not taken for this one's. How it follows the
        data is not: whoever changes that (`BY_SIZE` and the ``auto_`` functions of `acova.training.sizes`,
        `Features` of `acova.data.scaling`) removes the rows that were made before.
        """
        from acova.bench.methods import recipe_of, settings_of

        method = self.method
        settings = settings_of(method, self.data)
        recipe = recipe_of(method, settings)
        if settings.get("recipe") == "robust":  # it was the default when the first rows were stored
            settings = {name: value for name, value in settings.items() if name != "recipe"}
        identity = {
            "source": self.data.source,
            "views": self.data.views,
            "options": dict(self.data.options),
            "missing": float(self.missing),
            "pattern": self.pattern,
            "use": method.use,
            "settings": settings,
            "scale": method.scale,
            "labels": method.labels,
            "run": self.run,
        }
        if self.data.seed:
            identity["seed"] = self.data.seed
        if recipe:
            identity["recipe"] = recipe
        if self.alone:  # then the time counts
            identity["alone"] = True
        text = json.dumps(identity, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]
