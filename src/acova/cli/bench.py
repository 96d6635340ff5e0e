"""``acova bench`` and ``acova paper``."""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from acova.base import OptionError
from acova.base.errors import check_number
from acova.base.files import file_errors
from acova.bench.checks import check_label, one_line
from acova.cli.arguments import share
from acova.cli.options import read_value
from acova.console import count, say

if TYPE_CHECKING:
    from acova.bench import BenchSpec, Outcome

_LISTS = ("--methods", "--datasets", "--missing", "--set")


def percentage(text: str | float) -> float:
    """Read a share as percent: ``0.5``, ``50%`` and ``50`` are 50."""
    value = share(text)
    return round(100 * value, 6) if str(text).endswith("%") or 0 < value < 1 else value


_UNITS = {"s": 1, "m": 60, "h": 3600}


class ListCommand(TyperCommand):
    """A command whose list options take several words: ``--methods DVIMC CoDE``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each of its words."""
        return super().parse_args(ctx, spread(args))


def spread(arguments: list[str]) -> list[str]:
    """Turn ``--methods A B`` into ``--methods A --methods B``, which the parser knows."""
    made: list[str] = []
    option, empty = "", False
    for word in arguments:
        if word.startswith("--"):
            made += [option] if empty else []
            option = word if word in _LISTS else ""
            empty = bool(option)
            made += [] if option else [word]
        else:
            made += [option, word] if option else [word]
            empty = False
    return [*made, option] if empty else made  # the parser says that an option has no value


@dataclass(frozen=True, kw_only=True)
class BenchOptions:
    """The options that both commands have."""

    methods: Annotated[list[str] | None, typer.Option(help="Only these methods (or module:Class).")] = None
    datasets: Annotated[list[str] | None, typer.Option(help="Only these data sets.")] = None
    missing: Annotated[
        list[float] | None, typer.Option(parser=percentage, metavar="SHARE", help="Only these rates: 0.5, 50% or 50.")
    ] = None
    runs: Annotated[int | None, typer.Option(help="Runs per cell; run r has mask seed = training seed = r.")] = None
    settings: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE for all methods.")] = None
    out: Annotated[Path, typer.Option(help="Folder for the store, tables and figures.")] = Path("results")
    store: Annotated[Path | None, typer.Option(help="File of results; OUT/NAME.jsonl by default.")] = None
    device: Annotated[str, typer.Option(help="Where networks train; on a GPU compatible fits train together.")] = "auto"
    jobs: Annotated[int, typer.Option(help="Processes for fits that need no GPU; -1 takes all cores.")] = -1
    backend: Annotated[str, typer.Option(help="local, dask or ray.")] = "local"
    scheduler: Annotated[str | None, typer.Option(help="Address of the Dask or Ray cluster.")] = None
    budget: Annotated[str | None, typer.Option(help="Start nothing new after this time: 90s, 20m, 2h.")] = None
    group_size: Annotated[int | None, typer.Option(help="Most fits in one computation.")] = None
    limit: Annotated[str | None, typer.Option(help="End a single fit after this time, and say so in its cell.")] = None
    quick: Annotated[bool, typer.Option("--quick", help="A part that takes minutes on two cores.")] = False
    retry: Annotated[bool, typer.Option("--retry", help="Repeat fits that failed.")] = False
    show: Annotated[bool, typer.Option("--show", help="Run nothing; tables and figures of what is there.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command that takes the fields of `BenchOptions` in the place of ``options``, as the parser reads it."""
    shared = [
        Parameter(one.name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
        for one in fields(BenchOptions)
    ]
    own = [one for one in signature(command).parameters.values() if one.name != "options"]

    @wraps(command)
    def flat(**given: Any) -> None:
        options = BenchOptions(**{one.name: given.pop(one.name) for one in shared})
        command(**given, options=options)

    parameters = [*own, *shared]
    flat.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": None}
    return flat


@_with_options
def bench(
    spec: Annotated[Path, typer.Argument(help="A benchmark: data × missing rate × method × settings × runs, in TOML.")],
    *,
    options: BenchOptions,
) -> None:
    """Compare methods on data as a TOML file says; what is finished is never run twice.

    A benchmark runs the code of the modules that it names as module:Class: run only those that you trust. --show runs
    no code.
    """
    from acova.bench import BenchSpec

    _run(BenchSpec.from_toml(spec), options)


@_with_options
def paper(
    experiment: Annotated[str | None, typer.Argument(help="Its name; without one they are listed.")] = None,
    *,
    spec: Annotated[bool, typer.Option("--spec", help="Print the benchmark as TOML, to start your own from.")] = False,
    options: BenchOptions,
) -> None:
    """Run an experiment of the paper, our numbers beside the published ones."""
    from acova.bench import paper_names, paper_spec

    if experiment is None:
        for name in paper_names():
            typer.echo(f"{name:14} {paper_spec(name).title}")
    elif spec:
        typer.echo(paper_spec(experiment).to_toml())
    else:
        chosen = paper_spec(experiment)
        _run(_on_digits(chosen) if options.quick and not _has_data(chosen) else chosen, options)


def _has_data(spec: "BenchSpec") -> bool:
    """Return whether some data of the quick part of a paper's experiment are on this machine, or need no file."""
    from acova.data.datasets.catalogue import CATALOGUE, find_file

    names = [one.source or one.name for one in spec.quickly().data]
    return any(name not in CATALOGUE or not CATALOGUE[name].files or find_file(name) for name in names)


def _on_digits(spec: "BenchSpec") -> "BenchSpec":
    """Return a quick experiment on the embedded digits, and say that it is none of the paper."""
    from acova.bench.entries import DataSpec

    say(
        f"The data of {spec.name} are not on this machine, so this run uses the embedded digits. Its numbers cannot be "
        f"compared with published ones. Without --quick the data are downloaded; 'acova datasets' lists them.",
        error=True,
    )
    digits = (DataSpec("digits"),)
    quick = replace(spec.quick, data=("digits",))
    return replace(
        spec, name=f"{spec.name}-digits", data=digits, quick=quick, published="", title=f"{spec.title} (digits)"
    )


def _run(spec: "BenchSpec", options: BenchOptions) -> None:
    from acova.bench import Store, run_bench
    from acova.bench.cells import Results, published_values
    from acova.bench.figures import write_figures
    from acova.bench.score_tables import show_tables, write_tables

    limits = _limits(options)
    whole = spec.quickly() if options.quick else spec
    part = whole.limited_to(
        data=options.datasets or (),
        methods=options.methods or (),
        missing=options.missing or (),
        runs=options.runs,
        settings=settings_of(options.settings or []),
    )
    published_values(part)
    with file_errors(f"making the folder {options.out}"):
        options.out.mkdir(parents=True, exist_ok=True)
    rows = Store(options.store or options.out / f"{whole.name}.jsonl")
    rows.borrow(fit.key for fit in whole.fits())
    problems: dict[str, str] = {}
    if not options.show:
        outcome = run_bench(
            part,
            rows,
            device=options.device,
            scheduler=options.scheduler,
            retry=options.retry,
            verbose=not options.quiet,
            **limits,
        )
        _say_outcome(outcome)
        problems = outcome.problems
    show_tables(Results.of(part, rows, problems), part.metrics[:1])
    results = Results.of(_shown(part, whole, changed=bool(options.settings)), rows, problems)
    written = [*write_tables(results, options.out), *write_figures(results, options.out)]
    typer.echo("Written: " + ", ".join(str(path) for path in written))


def _limits(options: BenchOptions) -> dict[str, Any]:
    """Return the keywords of `run_bench` that are numbers; raise `OptionError` with the option as it was typed."""
    from acova.bench.runner import check_running
    from acova.bench.spec import MOST_RUNS

    who = "acova bench"
    if options.runs is not None:
        check_number(who, "--runs", options.runs, minimum=1, maximum=MOST_RUNS, integer=True)
    for rate in options.missing or ():
        check_number(who, "--missing", rate, minimum=0, maximum=100)
    for option, names in (("--methods", options.methods), ("--datasets", options.datasets)):
        for name in names or ():
            check_label(who, option, name)
    limits: dict[str, Any] = {
        "n_jobs": options.jobs,
        "backend": options.backend,
        "budget": seconds_of("--budget", options.budget),
        "group_size": options.group_size,
        "limit": seconds_of("--limit", options.limit),
    }
    check_running(who, "--", jobs_option="jobs", **limits)
    return limits


def _shown(part: "BenchSpec", whole: "BenchSpec", *, changed: bool) -> "BenchSpec":
    """Return what files are about: the whole benchmark and what was added to it, or one with other settings."""
    if changed:
        return replace(part, name=f"{whole.name}-changed")
    methods = (*whole.methods, *(one for one in part.methods if one not in whole.methods))
    data = (*whole.data, *(one for one in part.data if one not in whole.data))
    missing = tuple(sorted({*whole.missing, *part.missing}))
    return replace(whole, data=data, methods=methods, missing=missing, runs=max(whole.runs, part.runs))


def _say_outcome(outcome: "Outcome") -> None:
    parts = [f"{count(outcome.done, 'fit')} done"]
    parts += [f"{outcome.failed} failed"] if outcome.failed else []
    parts += [f"{outcome.found} found in the store"] if outcome.found else []
    parts += [f"{outcome.elsewhere} in the hands of another runner"] if outcome.elsewhere else []
    parts += [f"{outcome.left} left for the next call (time is up)"] if outcome.left else []
    typer.echo(", ".join(parts) + ".", err=True)
    for name, why in outcome.problems.items():
        typer.echo(one_line(f"{name} takes no part: {why}"), err=True)


def seconds_of(option: str, text: str | None) -> float | None:
    """Read ``90s``, ``20m``, ``2h``, or seconds."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found:
        msg = f"{option} must be a time such as 90s, 20m or 2h; got {text!r}."
        raise OptionError(msg)
    return float(found[1]) * _UNITS[found[2] or "s"]


def settings_of(items: list[str]) -> dict[str, Any]:
    """Turn ``NAME=VALUE`` items into settings; values are Python literals, or words."""
    settings: dict[str, Any] = {}
    for item in items:
        name, given, text = item.partition("=")
        if not given or not name.isidentifier():
            msg = f"--set takes NAME=VALUE, such as epochs=50; got {item!r}."
            raise OptionError(msg)
        settings[name] = read_value(text)
    return settings
