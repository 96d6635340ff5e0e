"""What a benchmark compares: TOML on one side, frozen dataclasses on the other."""

import hashlib
import itertools
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from acova.base import OptionError, check_choice, check_number, near_miss

PAPER = Path(__file__).parent / "paper"
METRICS = ("acc", "nmi", "ari", "purity")
TIMES = ("seconds", "seconds_per_epoch")
SCALES = ("none", "zscore", "balanced")
LABELS = ("found", "oracle")
RECORDS = ("correlation", "history", "embedding")


@dataclass(frozen=True)
class DataSpec:
    """Data to cluster.

    Attributes
    ----------
    name : str
        How tables call it.
    source : str
        A name of the catalogue, a file or folder (relative to the spec), or ``module:function``, which returns a
        `Dataset` or a pair of views and labels; `name` by default.
    views : tuple of str
        Only these views, in this order; all by default.
    options : dict
        Keywords for the function.
    """

    name: str
    source: str = ""
    views: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "source", self.source or self.name)


@dataclass(frozen=True)
class MethodSpec:
    """A method and its settings.

    Attributes
    ----------
    name : str
        How tables call it.
    use : str
        A method of the library, the name of an entry point in the group ``acova.methods``, or ``module:Class``;
        `name` by default.
    settings : dict
        Keywords; they replace those of the method's preset for the data set.
    on : dict
        Name of a data set → keywords for that one alone, which replace both.
    preset : bool
        Whether to start from the method's preset for the data set.
    published : str
        Its name in the published tables, if it is there.
    family : str
        What the members of a sweep have in common.
    scale : {"none", "zscore", "balanced"}
        What is done to the views before a foreign method gets them: z-scores of observed rows, and every view divided
        by the root of its width. Methods of the library scale by settings of their own.
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
        check_choice(f"method {self.name!r}", "scale", self.scale, SCALES)
        check_choice(f"method {self.name!r}", "labels", self.labels, LABELS)


@dataclass(frozen=True)
class Job:
    """One fit: a method on one data set under one mask, with one seed for both."""

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
        data is not: whoever changes that (`BY_SIZE` and the ``auto_`` functions of `estimators.presets`, `Features` of
        `data.preprocessing`) removes the rows that were made before.
        """
        from acova.bench.fitting import recipe_of, settings_of

        method = self.method
        settings = settings_of(method, self.data)
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
        if recipe := recipe_of(method, settings):
            identity["recipe"] = recipe
        if self.alone:  # then the time counts
            identity["alone"] = True
        text = json.dumps(identity, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class BenchSpec:
    """Data × missing rates × methods × runs, and what to show of them.

    Attributes
    ----------
    name, title, about : str
    data, methods : tuples of DataSpec, MethodSpec
    missing : tuple of numbers
        Percent of the samples that lack views.
    pattern : str
        See `acova.data.make_observed`.
    runs : int
        Run r has mask seed = training seed = r.
    metrics : tuple of str
        Which scores or times are shown; methods are compared by the first one.
    record : tuple of str
        What rows keep besides scores: "correlation", "history" (of training), "embedding" (a t-SNE map).
    alone : bool
        Fit one after the other, because the time of a fit is the result.
    figure : str
        How the result is drawn; see `acova.bench.figures.FIGURES`.
    x : str
        The setting that a sweep varies.
    published : str
        File of published values: columns dataset, method, missing_percent, metric, mean, std.
    reference : str
        The method to which differences, paired by mask and seed, are shown; none by default.
    kind : str
        What the methods are, the name of their column in the CSV file.
    quick : dict
        What ``--quick`` changes: ``data``, ``methods`` (names), ``missing``, ``runs``, ``settings`` (of those methods
        that know them).
    folder : str
        Where relative paths start.
    """

    name: str
    data: tuple[DataSpec, ...]
    methods: tuple[MethodSpec, ...]
    title: str = ""
    about: str = ""
    missing: tuple[float, ...] = (10, 30, 50, 70)
    pattern: str = "uniform_size"
    runs: int = 5
    metrics: tuple[str, ...] = METRICS
    record: tuple[str, ...] = ()
    alone: bool = False
    figure: str = "ranks"
    x: str = ""
    published: str = ""
    reference: str = ""
    kind: str = "method"
    quick: Mapping[str, Any] = field(default_factory=dict)
    folder: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        from acova.data.masks import PATTERNS

        who = f"benchmark {self.name!r}"
        for kind, items in (("data", self.data), ("methods", self.methods)):
            names = [item.name for item in items]
            if not names:
                msg = f"{who}: {kind} is empty; name at least one."
                raise OptionError(msg)
            if len(set(names)) < len(names):
                msg = f"{who}: {kind} must have different names; got {names}. Give some a 'name' of their own."
                raise OptionError(msg)
        if self.reference:
            check_choice(who, "reference", self.reference, [method.name for method in self.methods])
        for rate in self.missing:
            check_number(who, "missing", rate, minimum=0, maximum=100)
        check_number(who, "runs", self.runs, minimum=1, integer=True)
        check_choice(who, "pattern", self.pattern, PATTERNS)
        for option, known in (("metrics", METRICS + TIMES), ("record", RECORDS)):
            for word in getattr(self, option):
                check_choice(who, option, word, known)

    def jobs(self) -> list[Job]:
        """Return every fit, ordered by data set, method, rate and run."""
        return [
            Job(data, missing, self.pattern, method, run, self.record, self.folder, self.alone)
            for data in self.data
            for method in self.methods
            for missing in self.missing
            for run in range(self.runs)
        ]

    def limited_to(
        self,
        *,
        data: Sequence[str] = (),
        methods: Sequence[str] = (),
        missing: Sequence[float] = (),
        runs: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Self:
        """Return part of this benchmark; a method that it does not have is added by its name, data likewise."""
        chosen = tuple(one for name in methods for one in _chosen(name, self.methods, MethodSpec)) or self.methods
        wanted = tuple(one for name in data for one in _chosen(name, self.data, DataSpec)) or self.data
        if settings:
            chosen = tuple(_with(method, settings) for method in chosen)
        rates, count = tuple(missing) or self.missing, runs or self.runs
        kept = self.reference if self.reference in [method.name for method in chosen] else ""
        return replace(self, data=wanted, methods=chosen, missing=rates, runs=count, reference=kept)

    def quickly(self) -> Self:
        """Return the part that takes minutes on two cores, under a name of its own."""
        quick = dict(self.quick)
        settings = quick.pop("settings", {})
        part = self.limited_to(**quick)
        methods = tuple(_with(m, {**_known_to(m, settings), **m.settings}) for m in part.methods)
        return replace(part, name=f"{self.name}-quick", methods=methods)

    # --- TOML -----------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, path: str | Path) -> Self:
        """Read a spec from a file."""
        path = Path(path)
        try:
            held = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            msg = f"There is no file {path}; 'acova paper table1 --spec' prints one to start from."
            raise OptionError(msg) from None
        except tomllib.TOMLDecodeError as error:
            msg = f"{path} is no TOML: {error}."
            raise OptionError(msg) from None
        return cls.from_dict({"name": path.stem, **held}, folder=str(path.parent.resolve()))

    @classmethod
    def from_dict(cls, held: Mapping[str, Any], folder: str = "") -> Self:
        """Make a spec from the content of a TOML file."""
        who = f"benchmark {held.get('name', '?')!r}"
        _check_names(who, held, cls, "folder")
        for kind in ("data", "methods"):
            if not isinstance(held.get(kind), list):
                msg = f"{who}: {kind} must be a list of names or tables; got {held.get(kind)!r}."
                raise OptionError(msg)
        content = {name: _from_toml(value) for name, value in held.items()}
        content["data"] = tuple(_one(who, DataSpec, item) for item in content["data"])
        content["methods"] = tuple(member for item in content["methods"] for member in _swept(who, _as_table(item)))
        return cls(**content, folder=folder)

    def to_toml(self) -> str:
        """Return the text from which `from_toml` makes the same spec, sweeps written out."""
        import tomli_w

        content = {name: value for name, value in asdict(self).items() if name != "folder"}
        content["data"] = [_spare(item) for item in self.data]
        content["methods"] = [_spare(item) for item in self.methods]
        return tomli_w.dumps(_to_toml(content))


def paper_names() -> list[str]:
    """Return the names of the paper's experiments."""
    return sorted(path.stem for path in PAPER.glob("*.toml"))


def paper_spec(name: str) -> BenchSpec:
    """Return an experiment of the paper."""
    check_choice("acova paper", "experiment", name, paper_names())
    return BenchSpec.from_toml(PAPER / f"{name}.toml")


def _as_table(item: Any) -> dict[str, Any]:
    return dict(item) if isinstance(item, Mapping) else {"name": item}


def _one(who: str, kind: type, item: Any) -> Any:
    table = _as_table(item)
    _check_names(f"{who}, {table.get('name', '?')!r}", table, kind)
    return kind(**table)


def _swept(who: str, table: dict[str, Any]) -> Iterator[MethodSpec]:
    """Yield one method per combination of the values in ``sweep``."""
    sweep = table.pop("sweep", {})
    family = table.get("name", "")
    for values in itertools.product(*sweep.values()):
        at = dict(zip(sweep, values, strict=True))
        name = ", ".join([family, *(f"{key}={value}" for key, value in at.items())])
        settings = {**table.get("settings", {}), **at}
        yield _one(who, MethodSpec, {"family": family, "use": family, **table, "name": name, "settings": settings})


def _chosen(name: str, known: Sequence[Any], kind: type) -> list[Any]:
    """Return the items of a name, or of a family; else a new one."""
    same = [one for one in known if str(name).lower() == one.name.lower()]
    same = same or [one for one in known if str(name).lower() == getattr(one, "family", one.name).lower()]
    return same or [kind(name)]


def _with(method: MethodSpec, settings: Mapping[str, Any]) -> MethodSpec:
    return replace(method, settings={**method.settings, **settings})


def _known_to(method: MethodSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    from acova.bench.fitting import keywords_of

    known = keywords_of(method)
    return {name: value for name, value in settings.items() if name in known}


def _check_names(who: str, held: Mapping[str, Any], kind: type, *not_these: str) -> None:
    known = [each.name for each in fields(kind) if each.name not in not_these]
    for name in held:
        if name not in known:
            msg = f"{who}: unknown entry {name!r}; known are {', '.join(known)}.{near_miss(name, known)}"
            raise OptionError(msg)


def _spare(item: Any) -> dict[str, Any]:
    """Return the entries that differ from their defaults."""
    base = type(item)(item.name)
    return {"name": item.name} | {key: value for key, value in vars(item).items() if value != getattr(base, key)}


def _from_toml(value: Any) -> Any:
    """Turn lists into tuples and the word "none" into None, which TOML does not have."""
    if isinstance(value, Mapping):
        return {key: _from_toml(each) for key, each in value.items()}
    if isinstance(value, list):
        return tuple(_from_toml(each) for each in value)
    return None if value == "none" else value


def _to_toml(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _to_toml(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_to_toml(each) for each in value]
    return "none" if value is None else value
