"""The commands ``acova bench`` and ``acova paper``."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from acova.base import OptionError, check_number, file_errors
from acova.bench.checks import check_label, one_line

if TYPE_CHECKING:
    from acova.bench.runner import Outcome
    from acova.bench.spec import BenchSpec

_LISTS = ("--methods", "--datasets", "--missing", "--set")
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


Methods = Annotated[list[str] | None, typer.Option(help="Only these methods (or module:Class).")]
Datasets = Annotated[list[str] | None, typer.Option(help="Only these data sets.")]
Missing = Annotated[list[float] | None, typer.Option(help="Only these rates, in percent.")]
Runs = Annotated[int | None, typer.Option(help="Runs per cell; run r has mask seed = training seed = r.")]
Settings = Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE for all methods.")]
Out = Annotated[Path, typer.Option(help="Folder for the store, tables and figures.")]
StorePath = Annotated[Path | None, typer.Option("--store", help="File of results; OUT/NAME.jsonl by default.")]
Device = Annotated[str, typer.Option(help="Where networks train; on a GPU compatible jobs train together.")]
Jobs = Annotated[int, typer.Option(help="Processes for jobs that need no GPU; -1 takes all cores.")]
Backend = Annotated[str, typer.Option(help="local, dask or ray.")]
Scheduler = Annotated[str | None, typer.Option(help="Address of the Dask or Ray cluster.")]
Budget = Annotated[str | None, typer.Option(help="Start nothing new after this time: 90s, 20m, 2h.")]
GroupSize = Annotated[int | None, typer.Option(help="Most jobs in one computation.")]
Limit = Annotated[str | None, typer.Option(help="End a single fit after this time, and say so in its cell.")]
Quick = Annotated[bool, typer.Option("--quick", help="A part that takes minutes on two cores.")]
Retry = Annotated[bool, typer.Option("--retry", help="Try jobs again that failed.")]
Show = Annotated[bool, typer.Option("--show", help="Run nothing; tables and figures of what is there.")]
Spec = Annotated[bool, typer.Option("--spec", help="Print the benchmark as TOML, to start your own from.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def bench(
    spec: Annotated[Path, typer.Argument(help="A benchmark: data × missing rate × method × settings × runs, in TOML.")],
    methods: Methods = None,
    datasets: Datasets = None,
    missing: Missing = None,
    runs: Runs = None,
    settings: Settings = None,
    out: Out = Path("results"),
    store: StorePath = None,
    device: Device = "auto",
    jobs: Jobs = -1,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    budget: Budget = None,
    group_size: GroupSize = None,
    limit: Limit = None,
    quick: Quick = False,
    retry: Retry = False,
    show: Show = False,
    quiet: Quiet = False,
) -> None:
    """Compare methods on data as a TOML file says; what is finished is never run twice.

    A benchmark runs the code of the modules that it names as module:Class: run only those that you trust. --show runs
    no code.
    """
    given = dict(locals())
    from acova.bench.spec import BenchSpec

    _run(BenchSpec.from_toml(given.pop("spec")), **given)


def paper(
    experiment: Annotated[str | None, typer.Argument(help="Its name; without one they are listed.")] = None,
    methods: Methods = None,
    datasets: Datasets = None,
    missing: Missing = None,
    runs: Runs = None,
    settings: Settings = None,
    out: Out = Path("results"),
    store: StorePath = None,
    device: Device = "auto",
    jobs: Jobs = -1,
    backend: Backend = "local",
    scheduler: Scheduler = None,
    budget: Budget = None,
    group_size: GroupSize = None,
    limit: Limit = None,
    quick: Quick = False,
    retry: Retry = False,
    show: Show = False,
    spec: Spec = False,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper, our numbers beside the published ones."""
    given = dict(locals())
    from acova.bench.spec import paper_names, paper_spec

    if experiment is None:
        for name in paper_names():
            typer.echo(f"{name:14} {paper_spec(name).title}")
        return
    chosen = paper_spec(experiment)
    if spec:
        typer.echo(chosen.to_toml())
        return
    _run(chosen, **{name: value for name, value in given.items() if name not in ("experiment", "spec")})


def _run(
    spec: "BenchSpec", *, out: Path, store: Path | None, show: bool, quick: bool, quiet: bool, **given: Any
) -> None:
    from acova.bench.cells import Results, published_values
    from acova.bench.figures import write_figures
    from acova.bench.runner import run_bench
    from acova.bench.store import Store
    from acova.bench.tables import show as show_tables
    from acova.bench.tables import write_tables

    running = _checked(given)
    whole = spec.quickly() if quick else spec
    part = whole.limited_to(
        data=given["datasets"] or (),
        methods=given["methods"] or (),
        missing=given["missing"] or (),
        runs=given["runs"],
        settings=settings_of(given["settings"] or []),
    )
    published_values(part)
    with file_errors(f"making the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    rows = Store(store or out / f"{whole.name}.jsonl")
    rows.borrow(job.key for job in whole.jobs())
    problems: dict[str, str] = {}
    if not show:
        outcome = run_bench(
            part,
            rows,
            device=given["device"],
            scheduler=given["scheduler"],
            retry=given["retry"],
            verbose=not quiet,
            **running,
        )
        _tell(outcome)
        problems = outcome.problems
    show_tables(Results.of(part, rows, problems), part.metrics[:1])
    results = Results.of(_shown(part, whole, changed=bool(given["settings"])), rows, problems)
    written = [*write_tables(results, out), *write_figures(results, out)]
    typer.echo("Written: " + ", ".join(str(path) for path in written))


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of `run_bench` that are numbers; raise `OptionError` with the option as it was typed."""
    from acova.bench.runner import check_running
    from acova.bench.spec import MOST_RUNS

    who = "acova bench"
    if given["runs"] is not None:
        check_number(who, "--runs", given["runs"], minimum=1, maximum=MOST_RUNS, integer=True)
    for rate in given["missing"] or ():
        check_number(who, "--missing", rate, minimum=0, maximum=100)
    for option in ("methods", "datasets"):
        for name in given[option] or ():
            check_label(who, f"--{option}", name)
    running = {
        "n_jobs": given["jobs"],
        "backend": given["backend"],
        "budget": seconds_of("--budget", given["budget"]),
        "group_size": given["group_size"],
        "limit": seconds_of("--limit", given["limit"]),
    }
    check_running(who, "--", jobs_option="jobs", **running)
    return running


def _shown(part: "BenchSpec", whole: "BenchSpec", *, changed: bool) -> "BenchSpec":
    """Return what files tell of: the whole benchmark and what was added to it, or one with other settings."""
    if changed:
        return replace(part, name=f"{whole.name}-changed")
    methods = (*whole.methods, *(one for one in part.methods if one not in whole.methods))
    data = (*whole.data, *(one for one in part.data if one not in whole.data))
    missing = tuple(sorted({*whole.missing, *part.missing}))
    return replace(whole, data=data, methods=methods, missing=missing, runs=max(whole.runs, part.runs))


def _tell(outcome: "Outcome") -> None:
    parts = [f"{outcome.done} fits done"]
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
    """Turn ``NAME=VALUE`` items into keywords; values are Python literals, or words."""
    from acova.estimators.options import read_value

    settings: dict[str, Any] = {}
    for item in items:
        name, given, text = item.partition("=")
        if not given or not name.isidentifier():
            msg = f"--set takes NAME=VALUE, such as epochs=50; got {item!r}."
            raise OptionError(msg)
        settings[name] = read_value(text)
    return settings
