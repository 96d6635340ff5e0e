"""``acova fit``: it never loses a finished run, and an interrupted fit can go on."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import AcovaError, FileError, OptionError
from acova.cli.arguments import (
    READING,
    Drop,
    DropSample,
    Holes,
    IdColumn,
    Layer,
    MatchIds,
    Method,
    Missing,
    Quiet,
    Stream,
    Transpose,
    cluster_count,
    data_names,
    load,
    reading_of,
    spelled,
)
from acova.cli.covariates import Covariates, with_covariates
from acova.cli.options import canonical, method_options
from acova.console import cluster_sizes, correlation_table, count, influence_table, say, score_table, show, size_table

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from acova.data.files.reading import Reading
    from acova.engine.distributed import Processes
    from acova.estimators._base import MultiViewClusterer
    from acova.training.run_folder import Command

_PROVENANCE = ("data", "missing", "pattern", "preset", "stream", "covariates", *READING)
"""What a run remembers of the command that made it."""
_BESIDE_RESUME = ("resume", "quiet")


def fit(
    ctx: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A catalogue name, a folder with one table per view, or a file that holds all views.",
            autocompletion=data_names,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the run to.")] = None,
    method: Method = "ACOVA",
    clusters: Annotated[
        str | None, typer.Option("--clusters", "--n-clusters", help="Number of clusters, or auto.")
    ] = None,
    preset: Annotated[str | None, typer.Option(help="Start from the paper's settings for this data set.")] = None,
    missing: Annotated[float, Missing] = 0.0,
    pattern: Annotated[str, typer.Option(help="How views are hidden.")] = "uniform_size",
    seed: Annotated[int, typer.Option("--seed", "--random-state", help="Seed of the mask and of training.")] = 0,
    drop: Drop = None,
    drop_sample: DropSample = None,
    id_column: IdColumn = None,
    transpose: Transpose = None,
    match_ids: MatchIds = "exactly",
    holes: Holes = "keep",
    layer: Layer = None,
    covariates: Covariates = None,
    stream: Stream = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the interrupted fit in this run folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
    quiet: Quiet = False,
) -> None:
    """Cluster data and write a run folder; an interrupted fit goes on with --resume RUN."""
    from acova.training.run_folder import Command

    if resume is not None:
        _check_alone(ctx)
        _run(resume, None, force=False, quiet=quiet)
        return
    if data is None or out is None:
        msg = (
            "fit: give the data and --out RUN, or --resume RUN to go on with an interrupted fit; "
            f"for example: acova fit {data or 'DATA'} --clusters {clusters or 3} --out run"
        )
        raise OptionError(msg)
    own = [flag for parameter in ctx.command.params for flag in parameter.opts if flag.startswith("--")]
    settings = method_options(method, ctx.args, own)
    preset, pattern = _spelled(method, preset, pattern)
    if clusters is not None:
        settings["n_clusters"] = cluster_count(clusters)
    elif preset is None:
        msg = "fit: how many clusters? Give --clusters K (or auto), or --preset NAME for a data set of the paper."
        raise OptionError(msg)
    if clusters == "1":
        say("With --clusters 1 all samples are in one cluster; choose 2 or more to find groups.", error=True)
    if Path(data).exists():
        data = str(Path(data).absolute())  # --resume may be called from another folder
    table = None if covariates is None else str(covariates.absolute())
    command = Command(
        data=data, preset=preset, missing=missing, pattern=pattern, seed=seed, stream=stream, drop=drop or [],
        drop_sample=drop_sample or [], id_column=id_column or [], transpose=transpose or [], layer=layer,
        covariates=table, method=method, settings=settings, **spelled({"match_ids": match_ids, "holes": holes}),
    )  # fmt: skip
    _run(out, command, force=force, quiet=quiet)


def _spelled(method: str, preset: str | None, pattern: str) -> tuple[str | None, str]:
    """Return words as the library spells them, whatever their capitals."""
    from acova.data.masks import PATTERNS
    from acova.estimators.registry import method_class

    named = None if preset is None else canonical(preset, tuple(method_class(method).presets))
    return named, canonical(pattern, tuple(PATTERNS))


def _check_alone(ctx: typer.Context) -> None:
    """Raise `OptionError` where --resume is not alone: data and settings are those of the interrupted fit."""
    sources = {str(each.name): ctx.get_parameter_source(str(each.name)) for each in ctx.command.params}
    given = [name for name, source in sources.items() if source is not None and source.name != "DEFAULT"]
    if ctx.args or not set(given) <= set(_BESIDE_RESUME):
        msg = "fit: --resume RUN takes data and settings from the run; leave out everything else but --quiet."
        raise OptionError(msg)


def _run(out: Path, command: "Command | None", *, force: bool, quiet: bool) -> None:
    """Fit as a command says and save the model; None goes on with the interrupted fit in the folder."""
    from acova.engine.distributed import job_processes
    from acova.training.reading import begun_run
    from acova.training.run_folder import begin_run, check_free, writing

    with job_processes() as processes, ExitStack() as locks:
        processes.first_does(lambda: locks.enter_context(writing(out)))
        if command is None:
            begin, command = None, begun_run(out)
        else:
            processes.first_does(partial(check_free, out, overwrite=force))
            begin = partial(begin_run, out, command)
        views, labels, model = _prepared(command, quiet=quiet)
        _fit_and_save(model, views, out, processes, command, begin)
        if processes.is_first:
            _say_result(model, views, labels)
            _say_next(out, model)


def _say_next(out: Path, model: Any) -> None:
    """Print where the run is, and the three lines that a user needs next."""
    name = type(model).__name__
    say(f"Run: {out} (a row for each sample: {out / 'labels.csv'}). Next:")
    say(f"  acova report {out}                               what to be careful about, clusters, map, samples")
    say(f"  acova predict {out} NEW_DATA --out labels.csv    clusters of new samples")
    say(f"  python -c 'from acova import {name}; print({name}.load(\"{out}\").assignments())'")


def _reading(command: "Command") -> "Reading":
    return reading_of("fit", **{name: getattr(command, name) for name in READING})


def _prepared(command: "Command", *, quiet: bool) -> "tuple[Any, NDArray[Any] | None, MultiViewClusterer]":
    """Return the views, the known classes and the estimator that a fit's arguments mean."""
    from acova.data import StoredViews, make_observed
    from acova.estimators.registry import method_class

    views, labels = load(command.data, _reading(command), stream=command.stream)
    if command.missing and isinstance(views, StoredViews):
        msg = (
            "fit: --missing hides views of data in memory, not on disk or sparse; with --stream put an observed.npy "
            "beside the views."
        )
        raise OptionError(msg)
    if command.missing:
        hidden = command.missing, command.pattern, command.seed
        views = views.hide(make_observed(views.n_samples, views.n_views, *hidden))
    views = with_covariates("fit", views, command.covariates)
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in command.settings.items()
    }
    settings |= {"random_state": command.seed, "verbose": not quiet}
    cls = method_class(command.method)
    model = cls.from_settings(**settings) if command.preset is None else cls.preset(command.preset, **settings)
    return views, labels, model


def _fit_and_save(
    model: "MultiViewClusterer",
    views: Any,
    out: Path,
    processes: "Processes",
    command: "Command",
    begin: Callable[[], None] | None,
) -> None:
    """Train with checkpoints in the run folder, and replace what was in it by the finished run.

    `begin` writes the command when settings and data are found good; None goes on with an interrupted fit.
    """
    from acova.engine.state import Terminated
    from acova.training.run_folder import COMMAND, abandon_run

    try:
        with _terminable(processes):
            _train(model, views, out, processes, begin)
            if processes.is_first:
                model.provenance_ |= {name: getattr(command, name) for name in _PROVENANCE}
                model.save(out, overwrite=True)
    except (KeyboardInterrupt, Terminated) as stop:
        kept = f"the state of training is kept. Go on with: acova fit --resume {out}"
        say(f"Stopped; {kept if (out / COMMAND).is_file() else 'nothing was written.'}", error=True)
        raise typer.Exit(143 if isinstance(stop, Terminated) else 130) from None
    except FileError as error:  # such as a full disk: the next attempt may have more luck
        if begin is None or not (out / COMMAND).is_file():
            raise
        msg = f"{error} The state of training is kept; go on with: acova fit --resume {out}"
        raise FileError(msg) from error
    except AcovaError:
        if processes.is_first and begin is not None:
            abandon_run(out)
        raise


def _train(
    model: "MultiViewClusterer", views: Any, out: Path, processes: "Processes", begin: Callable[[], None] | None
) -> None:
    from acova.estimators._deep import DeepClusterer
    from acova.training.checkpoint import Checkpoint
    from acova.training.run_folder import CHECKPOINT

    if isinstance(model, DeepClusterer):
        checkpoint = Checkpoint(out / CHECKPOINT, model._checkpoint_every, processes)
        model._fit(views, None, processes, checkpoint, begin)
    else:
        model.fit(views)  # which takes seconds


@contextmanager
def _terminable(processes: "Processes") -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does; several processes leave it to their launcher."""
    from acova.engine.state import Terminated

    def end(number: int, frame: Any) -> None:
        raise Terminated

    if processes.size > 1 or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _say_result(model: "MultiViewClusterer", views: Any, labels: "NDArray[Any] | None") -> None:
    """Print cluster sizes, the correlation, and scores where classes are known."""
    from acova.data.files.formats import has_class
    from acova.estimators._checks import missingness_words
    from acova.metrics import clustering_scores

    say(f"{views}\n")
    if model.cluster_numbers_ is not None:
        say(f"{model.cluster_numbers_.reason}\n")
    show(size_table(map(cluster_sizes, model.iter_assignments())))
    empty = sorted(set(range(model.n_clusters_)) - set(model.labels_.tolist()))
    if empty:
        verb, numbers = "is" if len(empty) == 1 else "are", ", ".join(map(str, empty))
        say(f"{len(empty)} of {count(model.n_clusters_, 'cluster')} {verb} empty: {numbers}.")
    if hasattr(model, "correlation_"):
        show(correlation_table(model))
    if len(model.view_names_) > 1 and getattr(model, "view_influence_", None) is not None:
        show(influence_table(model))
    missing = missingness_words(model)
    if missing is not None:
        say(f"{missing}\n")
    if labels is not None:
        known = has_class(labels)
        show(score_table({type(model).__name__: clustering_scores(labels[known], model.labels_[known])}))
