"""The ``acova`` command: it parses, calls the library and exits."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from inspect import getdoc, signature
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from acova.base import (
    AcovaError,
    DataError,
    FileError,
    OptionError,
    ProcessError,
    check_number,
    check_output,
    near_miss,
    new_file,
)
from acova.base.version import __version__
from acova.bench.commands import ListCommand, bench, paper
from acova.console import (
    cluster_sizes,
    correlation_table,
    plain_table,
    plain_warnings,
    say,
    score_table,
    show,
    size_table,
)

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from acova.engine import Processes
    from acova.estimators._base import MultiViewClusterer
    from acova.training.run_folder import Command

app = typer.Typer(
    name="acova",
    help="Incomplete multi-view clustering: group samples that may lack any of their views.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command(cls=ListCommand)(bench)
app.command(cls=ListCommand)(paper)


def main() -> None:
    """Run the command; an error of ours is one line on standard error and exit code 2, a warning is one line there."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # file names need not be text
    try:
        with plain_warnings():
            app(prog_name="acova")  # also under python -m, for help and shell completion
    except AcovaError as error:
        say(f"error: {error}", error=True)
        if isinstance(error, ProcessError):  # torch's threads that still listen may abort a usual exit
            sys.stderr.flush()
            os._exit(2)
        sys.exit(2)


def _data_names(incomplete: str) -> list[str]:
    """Complete a data set of the catalogue; the shell adds files and folders."""
    from acova.data import dataset_names

    return [name for name in dataset_names() if name.startswith(incomplete)]


def _method_names(incomplete: str) -> list[str]:
    """Complete a method without loading torch."""
    from acova import _HOMES

    methods = [name for name, home in _HOMES.items() if home == "acova.estimators"]
    return [name for name in methods if name.startswith(incomplete)]


def _print_version(value: bool) -> None:
    if value:
        say(f"acova {__version__}")
        raise typer.Exit


_PROVENANCE = ("data", "missing", "pattern", "preset", "stream", "drop", "holes")
"""What a run remembers of the command that made it."""

_Drop = Annotated[list[str] | None, typer.Option(help="Leave out a column, or VIEW:COLUMN; may be repeated.")]
_Holes = Annotated[str, typer.Option(help="Rows with single empty cells: refuse, or hide the view there.")]


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run and its figures.")] = Path("acova-demo"),
    missing: Annotated[float, typer.Option(help="Share of samples that lack views.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Seed of the mask and of training.")] = 0,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Cluster the embedded digits with views hidden, next to mean-filled k-means."""
    from acova.demo import run_demo
    from acova.training.run_folder import check_free

    check_number("demo", "--seed", seed, minimum=0, integer=True)
    check_number("demo", "--missing", missing, minimum=0, maximum=1)
    check_free(out, overwrite=force)
    check_output(out / "report.html")
    result = run_demo(out, missing=missing, seed=seed, verbose=not quiet, overwrite=force)
    say(f"{result.views}\n")
    show(score_table(result.scores))
    show(correlation_table(result.model))
    say(f"ACOVA trained in {result.seconds:.0f} s. Run: {out}")
    say(f"Report, to open in a browser: {result.report}")
    say("Figures: " + ", ".join(str(path) for path in result.figures))


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    epilog="Every keyword of the method is an option too, such as --latent-dim 12 or --hidden 128,128 "
    "('acova options' lists them).",
)
def fit(
    ctx: typer.Context,
    data: Annotated[
        str | None,
        typer.Argument(
            help="A catalogue name, a folder with one table per view, or a file that holds all views.",
            autocompletion=_data_names,
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to write the run to.")] = None,
    method: Annotated[
        str, typer.Option(help="ACOVA, or one of the methods it is compared with.", autocompletion=_method_names)
    ] = "ACOVA",
    clusters: Annotated[int | None, typer.Option("--clusters", "--n-clusters", help="Number of clusters.")] = None,
    preset: Annotated[str | None, typer.Option(help="Start from the paper's settings for this data set.")] = None,
    missing: Annotated[float, typer.Option(help="Hide views of this share of the samples.")] = 0.0,
    pattern: Annotated[str, typer.Option(help="How views are hidden.")] = "uniform_size",
    seed: Annotated[int, typer.Option("--seed", "--random-state", help="Seed of the mask and of training.")] = 0,
    drop: _Drop = None,
    holes: _Holes = "refuse",
    stream: Annotated[bool, typer.Option("--stream", help="Leave the rows on disk; files match row by row.")] = False,
    resume: Annotated[Path | None, typer.Option(help="Go on with the interrupted fit in this run folder.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an earlier run.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Cluster data and write a run folder; an interrupted fit goes on with --resume RUN."""
    from acova.engine import job_processes
    from acova.estimators.options import method_options
    from acova.training.reading import begun_run
    from acova.training.run_folder import Command, check_free, writing

    command = None
    if resume is not None:
        others = (data, out, method, clusters, preset, missing, stream, force, seed, pattern, drop, holes)
        untouched = (None, None, "ACOVA", None, None, 0.0, False, False, 0, "uniform_size", None, "refuse")
        if ctx.args or others != untouched:
            msg = "fit: --resume RUN takes data and settings from the run; leave out everything else but --quiet."
            raise OptionError(msg)
        out = resume
    else:
        if data is None or out is None:
            msg = (
                "fit: give the data and --out RUN, or --resume RUN to go on with an interrupted fit; "
                f"for example: acova fit {data or 'DATA'} --clusters {clusters or 3} --out run"
            )
            raise OptionError(msg)
        own = [flag for parameter in ctx.command.params for flag in parameter.opts if flag.startswith("--")]
        settings = method_options(method, ctx.args, own)
        if clusters is not None:
            settings["n_clusters"] = clusters
        elif preset is None:
            msg = "fit: how many clusters? Give --clusters K, or --preset NAME for a data set of the paper."
            raise OptionError(msg)
        if Path(data).exists():
            data = str(Path(data).absolute())  # --resume may be called from another folder
        command = Command(
            data=data, preset=preset, missing=missing, pattern=pattern, seed=seed, stream=stream, drop=drop or [],
            holes=holes, method=method, settings=settings,
        )  # fmt: skip
    with job_processes() as processes, ExitStack() as locks:
        processes.first_does(lambda: locks.enter_context(writing(out)))
        if command is None:
            begin, command = None, begun_run(out)
        else:
            processes.first_does(partial(check_free, out, overwrite=force))
            begin = partial(_begin, out, command)
        views, labels, model = _prepared(command, quiet=quiet)
        _fit_and_save(model, views, out, processes, command, begin)
        if processes.is_first:
            _tell(model, views, labels)
            say(f"Run: {out} (a row for each sample: {out / 'labels.csv'}). Look at it with: acova report {out}")


def _begin(out: Path, command: "Command") -> None:
    from acova.training.run_folder import begin_run

    begin_run(out, command)


def _prepared(command: "Command", *, quiet: bool) -> "tuple[Any, NDArray[Any] | None, MultiViewClusterer]":
    """Return the views, the known classes and the estimator that a fit's arguments mean."""
    from acova.data import make_observed
    from acova.estimators.registry import method_class

    views, labels = _load(command.data, stream=command.stream, drop=command.drop, holes=command.holes)
    if command.missing and command.stream:
        msg = "fit: --missing hides views of data in memory; with --stream put an observed.npy beside the views."
        raise OptionError(msg)
    if command.missing:
        hidden = command.missing, command.pattern, command.seed
        views = views.hide(make_observed(views.n_samples, views.n_views, *hidden))
    settings: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in command.settings.items()
    }
    settings |= {"random_state": command.seed, "verbose": not quiet}
    method = method_class(command.method)
    return views, labels, method(**settings) if command.preset is None else method.preset(command.preset, **settings)


def _fit_and_save(
    model: "MultiViewClusterer",
    views: Any,
    out: Path,
    processes: "Processes",
    command: "Command",
    begin: "Callable[[], None] | None",
) -> None:
    """Train with checkpoints in the run folder, and replace what was in it by the finished run.

    `begin` writes the command when settings and data are found good; None goes on with an interrupted fit.
    """
    from acova.engine import Terminated
    from acova.training.run_folder import COMMAND, abandon_run

    try:
        with _terminable(processes):
            _train(model, views, out, processes, begin)
            if processes.is_first:
                given = {name: getattr(command, name) for name in ("data", "missing", "pattern", "preset", "stream")}
                model.provenance_ |= {**given, "drop": list(command.drop), "holes": command.holes}
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
    model: "MultiViewClusterer", views: Any, out: Path, processes: "Processes", begin: "Callable[[], None] | None"
) -> None:
    from acova.estimators.variational import VariationalClusterer
    from acova.training.checkpoint import Checkpoint
    from acova.training.run_folder import CHECKPOINT

    if isinstance(model, VariationalClusterer):
        checkpoint = Checkpoint(out / CHECKPOINT, model.checkpoint_every, processes)
        model._fit(views, None, processes, checkpoint, begin)
    else:
        model.fit(views)  # which takes seconds


@contextmanager
def _terminable(processes: "Processes") -> "Iterator[None]":
    """Let SIGTERM end the block as Ctrl-C does; several processes leave it to their launcher."""
    from acova.engine import Terminated

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


def _tell(model: "MultiViewClusterer", views: Any, labels: "NDArray[Any] | None") -> None:
    from acova.data import has_class
    from acova.metrics import clustering_scores

    say(f"{views}\n")
    show(size_table(map(cluster_sizes, model.iter_assignments())))
    if hasattr(model, "correlation_"):
        show(correlation_table(model))
    if labels is not None:
        known = has_class(labels)
        show(score_table({type(model).__name__: clustering_scores(labels[known], model.labels_[known])}))


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="Run folder of a fitted model.")],
    data: Annotated[
        str, typer.Argument(help="As for fit; views may be missing altogether.", autocompletion=_data_names)
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .csv, .tsv, .parquet, .feather, .xlsx, or DATA with the results in it (.h5mu, .h5ad)."
        ),
    ],
    drop: _Drop = None,
    holes: _Holes = "refuse",
    stream: Annotated[bool, typer.Option("--stream", help="Leave the rows on disk; files match row by row.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    device: Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, …")] = "auto",
) -> None:
    """Assign new samples to the clusters of a fitted model."""
    from acova.data import check_table_path, write_table
    from acova.engine import resolve_device
    from acova.estimators import load_method

    check_output(out)
    if out.exists() and not force:
        msg = f"{out} already exists; choose another file, or replace it with --force."
        raise DataError(msg)
    annotated = out.suffix in (".h5mu", ".h5ad")
    if annotated and (drop or holes != "refuse"):
        msg = f"predict: --drop and --holes are for tables; clean {data} itself, or write a .csv."
        raise OptionError(msg)
    if not annotated:
        check_table_path("predict", out)
    resolve_device(device)
    model = load_method(run, device=device)
    if annotated:
        _annotate(model, Path(data), out)
        return
    views, _ = _load(data, stream=stream, drop=drop or (), holes=holes, categories=model.categories_)
    sizes: list[pd.DataFrame] = []
    with new_file(out) as part:
        write_table(part, _counted(model.iter_assignments(views), sizes))
    show(size_table(sizes))
    say(f"Labels of {len(views)} samples: {out}")


def _counted(tables: "Iterator[pd.DataFrame]", sizes: "list[pd.DataFrame]") -> "Iterator[pd.DataFrame]":
    """Pass tables on, and add the cluster sizes of each to a list."""
    for table in tables:
        sizes.append(cluster_sizes(table))
        yield table


def _annotate(model: "MultiViewClusterer", data: Path, out: Path) -> None:
    from acova.data import read_omics, write_omics

    if data.suffix != out.suffix:
        msg = f"predict: {out} is {data} with results in it, so both need the same ending; or write a .csv."
        raise OptionError(msg)
    container = read_omics(data)
    model.annotate(container)
    write_omics(container, out)
    say(f"{data} with .obs['acova_label'] and more: {out}")


@app.command()
def inspect(
    data: Annotated[str, typer.Argument(help="As for fit.", autocompletion=_data_names)],
    drop: _Drop = None,
    holes: _Holes = "refuse",
) -> None:
    """Show what is understood of data, and what in them looks wrong, before any training."""
    from acova.data import dataset_names, inspect_data, load_dataset

    known = data in dataset_names() and not Path(data).exists()
    given = load_dataset(data).views if known else _existing(data)
    found = inspect_data(given, drop=drop or (), holes=holes)
    show(found)
    if found.refusal is not None:
        raise typer.Exit(1)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="Run folder of a fitted model.")],
    out: Annotated[Path | None, typer.Option(help="File to write; report.html of the run when left out.")] = None,
    map_method: Annotated[str, typer.Option("--map", help="Map of the samples: t-SNE, PCA or UMAP.")] = "t-SNE",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is no report.")] = False,
) -> None:
    """Write one HTML file about a run: what went in, what came out, how training went."""
    from acova.estimators import load_method

    model = load_method(run, device="cpu")
    path = model.report(run / "report.html" if out is None else out, method=map_method, overwrite=force)
    say(f"Report: {path}")


@app.command()
def options(
    method: Annotated[
        str, typer.Option(help="ACOVA, or one of the methods it is compared with.", autocompletion=_method_names)
    ] = "ACOVA",
) -> None:
    """List the options of fit that set a method's keywords, with their defaults."""
    from acova.estimators.options import OWN_OPTIONS, option_flag, parameter_texts
    from acova.estimators.registry import method_class

    chosen = method_class(method)
    texts = parameter_texts(getdoc(chosen) or "")
    rows = []
    for name, parameter in signature(chosen).parameters.items():
        if name not in OWN_OPTIONS:
            default = parameter.default
            shown = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            rows.append((option_flag(name), shown, texts.get(name, "")))
    show(plain_table(("option", "default", "meaning"), rows, title=f"Options of acova fit --method {chosen.__name__}"))


@app.command()
def datasets() -> None:
    """List the data sets: size, licence, and whether they are on this machine."""
    from acova.data.datasets.catalogue import CATALOGUE, find_file

    rows = []
    for name, entry in CATALOGUE.items():
        views = ", ".join(f"{view} {size}" for view, size in entry.view_sizes.items())
        found = "embedded" if not entry.files else "yes" if find_file(name) else "no"
        rows.append((name, entry.n_samples, views, entry.n_classes, entry.licence, found, entry.about))
    columns = ("name", "samples", "views", "classes", "licence", "on disk", "about")
    show(plain_table(columns, rows, title="Data sets"))


def _existing(data: str) -> Path:
    """Refuse what is neither a data set nor a path, with the name that may have been meant."""
    from acova.data import dataset_names

    if not Path(data).exists() and not Path(data).suffix:
        msg = f"{data!r} is neither a data set of the catalogue ({', '.join(dataset_names())}) nor a file or folder."
        beside = [path.name for path in Path(data).parent.glob("*")]
        raise DataError(msg + (near_miss(data, dataset_names()) or near_miss(Path(data).name, beside)))
    return Path(data)


def _load(data: str, *, stream: bool, **reading: Any) -> "tuple[Any, NDArray[Any] | None]":
    """Return the views and, where they are known, the classes of the samples."""
    from acova.data import StoredViews, dataset_names, load_dataset, read_views

    if stream:
        if reading.get("drop") or reading.get("holes", "refuse") != "refuse":
            msg = "--drop and --holes are for data in memory; leave out --stream, or clean the files."
            raise OptionError(msg)
        return StoredViews.of(Path(data)), None
    dataset = load_dataset(data) if data in dataset_names() else read_views(_existing(data), **reading)
    return dataset.views, dataset.labels
