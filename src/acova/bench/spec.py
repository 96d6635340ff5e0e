"""What a benchmark compares: frozen dataclasses, which `specfile` reads from TOML and writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from acova.base import OptionError
from acova.base.errors import check_choice, check_number
from acova.bench.checks import check_different, check_file_name, check_label
from acova.bench.entries import DataSpec, Fit, MethodSpec, Quick

PAPER = Path(__file__).parent / "paper"
METRICS = ("acc", "nmi", "ari", "purity")
TIMES = ("seconds", "seconds_per_epoch")
LOSSES = ("brier", "ece", "brier_drawn", "ece_drawn")
"""Of calibration, those of which less is better."""
CALIBRATION = (*LOSSES, "auroc", "auroc_drawn", "auroc_latent", "coverage", "surer")
"""What a row with the record "calibration" tells besides scores."""
RESULT = ("confidence", "overconfidence", "auroc_confidence", "auroc_agreement", "warned")
"""What a fit with cluster probabilities says of its own result; every row has it."""
RECORDS = ("correlation", "history", "calibration", "embedding")
FIGURES = (
    "ranks",
    "differences",
    "rates",
    "sweep",
    "views",
    "runtime",
    "convergence",
    "simulation",
    "r_epochs",
    "r_stability",
    "tsne",
    "reliability",
    "r_missing",
)
MOST_FITS = 1_000_000
MOST_RUNS = 10_000


@dataclass(frozen=True)
class BenchSpec:
    """Data × missing rates × methods × runs, and what to show of them.

    Attributes
    ----------
    name, title, about : str
        Result files are called by the name.
    data, methods : tuples of DataSpec, MethodSpec
    missing : tuple of numbers
        Percent of the samples that lack views, in data sets without rates of their own.
    pattern : str
        See `acova.data.make_observed`.
    runs : int
        Run r has mask seed = training seed = r.
    metrics : tuple of str
        Which scores, times or measures of calibration are shown; methods are compared by the first one.
    record : tuple of str
        What rows keep besides scores: "correlation", "history" (of training), "calibration" (how far uncertainty can
        be believed), "embedding" (a t-SNE map).
    alone : bool
        Fit one after the other, because the time of a fit is the result.
    figure : str
        How the result is drawn, one of `FIGURES`.
    x : str
        The setting that a sweep varies.
    published : str
        File of published values: columns dataset, method, missing_percent, metric, mean, std.
    reference : str
        The method to which differences, paired by mask and seed, are shown; none by default.
    kind : str
        What the methods are, the name of their column in the CSV file.
    quick : Quick
        What ``--quick`` changes.
    folder : str
        Where relative paths start.
    """

    name: str
    data: tuple[DataSpec, ...]
    methods: tuple[MethodSpec, ...]
    title: str = ""
    about: str = ""
    missing: tuple[int | float, ...] = (10, 30, 50, 70)
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
    quick: Quick = field(default_factory=Quick)
    folder: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        check_file_name("benchmark", "name", self.name)
        who = f"benchmark {self.name!r}"
        for option in ("title", "about", "x", "published", "kind"):
            check_label(who, option, getattr(self, option), empty=option != "kind", lines=option == "about")
        check_different(who, "data", [one.name for one in self.data], remedy="Give some a 'name' of their own.")
        check_different(who, "methods", [one.name for one in self.methods], remedy="Give some a 'name' of their own.")
        if self.reference:
            check_choice(who, "reference", self.reference, [method.name for method in self.methods])
        self._check_options(who)
        self._check_size(who)

    def _check_options(self, who: str) -> None:
        from acova.data.masks import PATTERNS

        for rate in (*self.missing, *self.quick.missing):
            check_number(who, "missing", rate, minimum=0, maximum=100)
        check_different(who, "missing", self.missing)
        check_number(who, "runs", self.runs, minimum=1, maximum=MOST_RUNS, integer=True)
        if self.quick.runs is not None:
            check_number(who, "quick.runs", self.quick.runs, minimum=1, maximum=MOST_RUNS, integer=True)
        check_choice(who, "pattern", self.pattern, PATTERNS)
        check_choice(who, "figure", self.figure, FIGURES)
        if self.figure in ("sweep", "convergence", "r_epochs") and not self.x:
            msg = f"{who}: figure {self.figure!r} needs x, the name of the setting that differs between the methods."
            raise OptionError(msg)
        for option, known in (("metrics", METRICS + TIMES + CALIBRATION + RESULT), ("record", RECORDS)):
            for word in getattr(self, option):
                check_choice(who, option, word, known)
            check_different(who, option, getattr(self, option), empty=option == "record")

    def _check_size(self, who: str) -> None:
        count = sum(len(self.rates(data)) for data in self.data) * len(self.methods) * self.runs
        if count > MOST_FITS:
            msg = (
                f"{who} would be {count:,} fits; at most {MOST_FITS:,} are possible. Split it into several benchmarks."
            )
            raise OptionError(msg)

    def rates(self, data: DataSpec) -> tuple[int | float, ...]:
        """Return the rates at which views of a data set are hidden: its own, or the benchmark's."""
        return data.missing or self.missing

    def fits(self) -> list[Fit]:
        """Return every fit, ordered by data set, method, rate and run."""
        return [
            Fit(data, missing, self.pattern, method, run, self.record, self.folder, self.alone)
            for data in self.data
            for method in self.methods
            for missing in self.rates(data)
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
        chosen_methods = _chosen(methods, self.methods, MethodSpec)
        if settings:
            chosen_methods = tuple(_with(method, settings) for method in chosen_methods)
        reference = self.reference if self.reference in [method.name for method in chosen_methods] else ""
        return replace(
            self,
            data=_chosen(data, self.data, DataSpec),
            methods=chosen_methods,
            missing=tuple(dict.fromkeys(missing)) or self.missing,
            runs=self.runs if runs is None else runs,
            reference=reference,
        )

    def quickly(self) -> Self:
        """Return the part that takes minutes on two cores, under a name of its own."""
        quick = self.quick
        part = self.limited_to(data=quick.data, methods=quick.methods, missing=quick.missing, runs=quick.runs)
        methods = tuple(_with(m, {**_known_to(m, quick.settings), **m.settings}) for m in part.methods)
        return replace(part, name=f"{self.name}-quick", methods=methods)

    # --- TOML -----------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, path: str | Path) -> "BenchSpec":
        """Read a spec from a file."""
        from acova.bench.specfile import read_spec

        return read_spec(Path(path))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], folder: str = "") -> "BenchSpec":
        """Make a spec from the content of a TOML file."""
        from acova.bench.specfile import spec_of

        return spec_of(content, folder)

    def to_toml(self) -> str:
        """Return the text from which `from_toml` makes the same spec, sweeps written out."""
        from acova.bench.specfile import spec_text

        return spec_text(self)


def paper_names() -> list[str]:
    """Return the names of the paper's experiments."""
    return sorted(path.stem for path in PAPER.glob("*.toml"))


def paper_spec(name: str) -> BenchSpec:
    """Return an experiment of the paper."""
    check_choice("acova paper", "experiment", name, paper_names())
    return BenchSpec.from_toml(PAPER / f"{name}.toml")


def _chosen(names: Sequence[str], known: Sequence[Any], kind: type) -> tuple[Any, ...]:
    """Return the items of names, or of families, and new ones for other names; all known ones without any name."""
    chosen: dict[str, Any] = {}
    for name in names:
        same = [one for one in known if str(name).lower() == one.name.lower()]
        same = same or [one for one in known if str(name).lower() == getattr(one, "family", one.name).lower()]
        chosen |= {one.name: one for one in same or [kind(name)]}
    return tuple(chosen.values()) or tuple(known)


def _with(method: MethodSpec, settings: Mapping[str, Any]) -> MethodSpec:
    return replace(method, settings={**method.settings, **settings})


def _known_to(method: MethodSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that a method of the library knows; asking one of ``module:Class`` would import it."""
    from acova.bench.methods import setting_names

    known = setting_names(method) if settings and ":" not in method.use else ()
    return {name: value for name, value in settings.items() if name in known}
