"""Bad and odd files, folders and command lines."""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import acova
from acova import data, plots
from acova.estimators import load_method
from reliability.cases import GOOD, Case, command, csv_text, folder_of_tables, quick, saved, two_tables


def file_cases() -> Iterator[Case]:
    """Yield files and folders to read, and places to write to."""

    def written(name: str, content: bytes) -> Callable[[Path], Any]:
        def call(folder: Path) -> Any:
            (folder / name).write_bytes(content)
            return data.read_views(folder / name)

        return call

    yield Case("read: nothing there", lambda folder: data.read_views(folder / "none"), "none")
    yield Case("read: an empty folder", lambda folder: data.read_views(folder), "folder|tables|empty")
    for name in (
        "views.npz",
        "views.mat",
        "views.csv",
        "views.xlsx",
        "views.h5",
        "views.h5ad",
        "views.h5mu",
        "views.parquet",
    ):
        yield Case(f"read: empty {name}", written(name, b""), "views|single|table")
        yield Case(f"read: nonsense in {name}", written(name, bytes(range(256)) * 8), "views|single|table")
    yield Case("read: an unknown ending", written("views.docx", b"x"), "docx")

    def pickled(folder: Path) -> Any:
        np.savez(folder / "views.npz", left=np.array([{"a": 1}], dtype=object))
        return data.read_views(folder / "views.npz")

    yield Case("read: pickled objects", pickled, "object|pickle")

    def fifo(folder: Path) -> Any:
        os.mkfifo(folder / "views.csv")
        return data.read_views(folder / "views.csv")

    yield Case("read: a pipe", fifo, "regular|pipe|FIFO|file")

    def unix_socket(folder: Path) -> Any:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.relpath(folder / "views.npz"))
            return data.read_views(folder / "views.npz")

    yield Case("read: a socket", unix_socket, "regular|socket|file")
    yield Case(
        "read: names of samples as they are written",
        lambda folder: data.read_views(folder_of_tables(folder, first=csv_text("00"), second=csv_text("00", seed=1))),
        lambda d: d.views.index[3] == "003",
    )
    yield Case("load: nothing there", lambda folder: load_method(folder / "run"), "run")
    yield Case("load: an empty folder", lambda folder: load_method(folder), "config.json|run")
    yield Case("load: another class", lambda folder: acova.Concat.load(saved(folder)), "KNNImpute")
    yield Case(
        "save: over something else", lambda folder: quick("Concat").fit(GOOD).save(folder), "exist|empty|overwrite"
    )
    yield Case(
        "save: before fit",
        lambda folder: _unfitted(lambda: quick("Concat").save(folder / "run")),
        lambda refused: refused,
    )
    yield Case(
        "save: below a file",
        lambda folder: ((folder / "file").write_text(""), quick("Concat").fit(GOOD).save(folder / "file" / "run")),
        "file",
    )
    yield Case(
        "save: a name too long", lambda folder: quick("Concat").fit(GOOD).save(folder / ("x" * 300)), "long|name"
    )

    def damaged(name: str, content: bytes) -> Callable[[Path], Any]:
        def call(folder: Path) -> Any:
            (saved(folder) / name).write_bytes(content)
            return load_method(folder / "run")

        return call

    for content in (b"", b"{}", b"[]", b"null", b'{"estimator": 3}', b"\xff\xfe", b"[" * 100_000):
        yield Case(f"load: config.json is {content[:20]!r}", damaged("config.json", content), "config.json|run")
    for content in (b"", b"\x00" * 64, b"nonsense"):
        yield Case(
            f"load: model.safetensors is {content[:8]!r}",
            damaged("model.safetensors", content),
            "model.safetensors|run",
        )
    yield Case(
        "report: before fit",
        lambda folder: _unfitted(lambda: quick("Concat").report(folder / "r.html")),
        lambda refused: refused,
    )
    yield Case(
        "report: an unknown map",
        lambda folder: quick("Concat").fit(GOOD).report(folder / "r.html", method="SNE"),
        "t-SNE",
    )
    yield Case(
        "figures: before fit",
        lambda folder: _unfitted(lambda: plots.LatentDisplay.from_estimator(quick())),
        lambda refused: refused,
    )
    yield Case("data set: unknown", lambda folder: data.load_dataset("digist"), "digits")
    yield Case("data set: a path", lambda folder: data.load_dataset("../digits"), "digits")
    yield Case("inspect: nothing there", lambda folder: data.inspect_data(folder / "none"), "none")


def _unfitted(call: Callable[[], Any]) -> bool:
    from sklearn.exceptions import NotFittedError

    try:
        call()
    except NotFittedError:
        return True
    return False


def command_cases() -> Iterator[Case]:
    """Yield command lines."""

    def fit(*words: object, at: str = "run") -> Callable[[Path], Any]:
        def call(folder: Path) -> Any:
            tables = folder / "tables"
            tables.mkdir()
            return command("fit", two_tables(tables), "--out", folder / at, "--quiet", *words)

        return call

    bad: dict[str, tuple[tuple[object, ...], str]] = {
        "no clusters": ((), "--clusters"),
        "no cluster": (("--clusters", 0), "clusters"),
        "more clusters than samples": (("--clusters", 999), "clusters"),
        "clusters as a word": (("--clusters", "four"), "clusters|four"),
        "a negative weight": (("--clusters", 2, "--alpha", -1), "alpha"),
        "an unknown option": (("--clusters", 2, "--alhpa", 1), "--alpha"),
        "an option without value": (("--clusters", 2, "--alpha"), "--alpha"),
        "an unknown method": (("--clusters", 2, "--method", "ACVOA"), "ACOVA"),
        "an unknown preset": (("--preset", "minst"), "mnist|handwritten"),
        "a share above one": (("--clusters", 2, "--missing", 50), "missing"),
        "an unknown pattern": (("--clusters", 2, "--missing", 0.5, "--pattern", "rows"), "pattern"),
        "a negative seed": (("--clusters", 2, "--seed", -1), "seed|random_state"),
        "an unknown way with holes": (("--clusters", 2, "--holes", "fill"), "holes"),
        "an unknown column to drop": (("--clusters", 2, "--drop", "zzz"), "zzz"),
        "an unknown sample to drop": (("--clusters", 2, "--drop-sample", "zzz"), "zzz"),
        "an unknown column of names": (("--clusters", 2, "--id-column", "zzz"), "zzz"),
        "an unknown view to transpose": (("--clusters", 2, "--transpose", "zzz"), "zzz"),
        "an unknown way to match names": (("--clusters", 2, "--match-ids", "zzz"), "match_ids"),
        "a layer of tables": (("--clusters", 2, "--layer", "zzz"), "layer"),
        "no such device": (("--clusters", 2, "--device", "tpu"), "device"),
        "consensus maybe": (("--clusters", 2, "--consensus", "maybe"), "consensus"),
    }
    for name, (words, expected) in bad.items():
        yield Case(f"acova fit: {name}", fit(*words), expected)
    yield Case("acova fit: out below a file", fit("--clusters", 2, at="tables/first.csv/run"), "first.csv")
    yield Case("acova fit: out is a file", fit("--clusters", 2, at="tables/first.csv"), "first.csv")
    yield Case("acova fit: no data", lambda folder: command("fit", "--clusters", 2, "--out", folder / "run"), "data")
    yield Case(
        "acova fit: data not there",
        lambda folder: command("fit", folder / "none", "--clusters", 2, "--out", folder / "run"),
        "none",
    )
    yield Case("acova fit: nothing to resume", lambda folder: command("fit", "--resume", folder / "none"), "none")
    yield Case(
        "acova predict: no run",
        lambda folder: command("predict", folder / "none", two_tables(folder), "--out", folder / "x.csv"),
        "none",
    )
    yield Case(
        "acova predict: an unknown ending",
        lambda folder: command("predict", saved(folder), "digits", "--out", folder / "x.docx"),
        "docx|csv",
    )
    yield Case(
        "acova predict: out is a folder",
        lambda folder: command("predict", saved(folder), "digits", "--out", folder, "--force"),
        "folder|directory|regular",
    )
    yield Case("acova report: no run", lambda folder: command("report", folder / "none"), "none")
    yield Case("acova report: an unknown map", lambda folder: command("report", saved(folder), "--map", "SNE"), "t-SNE")
    yield Case("acova inspect: nothing there", lambda folder: command("inspect", folder / "none"), "none")
    yield Case("acova options: an unknown method", lambda folder: command("options", "--method", "ACVOA"), "ACOVA")
    yield Case(
        "acova demo: a share above one",
        lambda folder: command("demo", "--out", folder / "d", "--missing", 2),
        "missing",
    )
    yield Case(
        "acova demo: a negative seed",
        lambda folder: command("demo", "--out", folder / "d", "--seed", -1),
        "seed|random_state",
    )
    yield Case("acova paper: an unknown table", lambda folder: command("paper", "tabel1"), "table1")
    yield Case("acova bench: no spec", lambda folder: command("bench", folder / "none.toml"), "none.toml")
    specs = {
        "empty": "",
        "nonsense": "= [",
        "another table": "[other]\nx = 1",
        "words for runs": 'name = "x"\nruns = "many"',
    }
    for name, text in specs.items():
        yield Case(
            f"acova bench: {name}",
            lambda folder, text=text: (
                (folder / "s.toml").write_text(text),
                command("bench", folder / "s.toml", "--out", folder / "o"),
            ),
            "s.toml",
        )
    for option in ("--runs", "--jobs"):
        yield Case(
            f"acova bench: {option} 0",
            lambda folder, option=option: command("paper", "table1", option, 0, "--out", folder / "o"),
            option.strip("-"),
        )
