"""Bad and odd inputs to every public entry point: each is right, and checked, or refused in the library's own words.

A case is a name, a call that gets an empty folder, and what is expected: words of the error (a regular expression), or
a function that says whether the result is right.
"""

import os
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from click import ClickException

import acova
from acova import data, metrics, plots
from acova.base import AcovaError
from acova.estimators import fit_many, list_methods, load_method, make_method
from conftest import SMALL

REFUSALS = (AcovaError, ClickException)
"""What a refused call may raise: the library's own error, or the parser's where words do not make a command."""

ROWS = 40
_RNG = np.random.default_rng(0)
_GROUP = np.arange(ROWS) % 3
LEFT = 5.0 * np.eye(3)[_GROUP] @ _RNG.normal(size=(3, 4)) + 0.1 * _RNG.normal(size=(ROWS, 4))
RIGHT = 5.0 * np.eye(3)[_GROUP] @ _RNG.normal(size=(3, 6)) + 0.1 * _RNG.normal(size=(ROWS, 6))
GOOD = {"left": LEFT, "right": RIGHT}
NAMES = [f"s{n}" for n in range(ROWS)]


@dataclass(frozen=True)
class Case:
    """An input and what is to come of it."""

    name: str
    call: Callable[[Path], Any]
    expects: str | Callable[[Any], bool]
    warns: str | None = None


def frames() -> dict[str, pd.DataFrame]:
    """Return the good data as frames with named samples and columns."""
    return {name: pd.DataFrame(array, NAMES).add_prefix("f") for name, array in GOOD.items()}


def quick(name: str = "ACOVA", **settings: Any) -> Any:
    """Return an estimator that trains in a moment."""
    keywords = make_method(name).get_params()
    short = {key: value for key, value in (SMALL | {"hidden": (8,)}).items() if key in keywords}
    short |= {key: 1 for key in keywords if key.endswith("epochs") or key == "iterations"}
    return make_method(name, **{"n_clusters": 3, **short, **settings})


def changed(place: tuple[int, int], value: float) -> dict[str, np.ndarray]:
    """Return the good data with one cell changed."""
    left = LEFT.copy()
    left[place] = value
    return {**GOOD, "left": left}


def views(X: Any, **keywords: Any) -> data.Views:
    """Return views of X."""
    return data.Views.of(X, **keywords)


def same_as_good(found: data.Views) -> bool:
    """Tell whether views hold the good data."""
    return all(np.allclose(array, good) for array, good in zip(found.arrays, GOOD.values(), strict=True))


def command(*words: object) -> None:
    """Run a command line in this process and let its errors through."""
    from acova.cli import app

    app([str(word) for word in words], standalone_mode=False, prog_name="acova")


def _folder_of_tables(folder: Path, **tables: str) -> Path:
    for name, text in tables.items():
        (folder / f"{name}.csv").write_text(text)
    return folder


def _csv(prefix: str = "s", rows: int = 12, seed: int = 0) -> str:
    cells = np.random.default_rng(seed).normal(size=(rows, 2)) + 4 * (np.arange(rows) % 2)[:, None]
    return "id,a,b\n" + "".join(f"{prefix}{n},{x:.4f},{y:.4f}\n" for n, (x, y) in enumerate(cells))


def _saved(folder: Path, name: str = "KNNImpute") -> Path:
    quick(name).fit(GOOD).save(folder / "run")
    return folder / "run"


def _options(folder: Path) -> Path:
    return _folder_of_tables(folder, first=_csv(seed=1), second=_csv(seed=2))


def _fit(**settings: Any) -> Callable[[Path], Any]:
    return lambda folder: quick(**settings).fit(GOOD)


def view_cases() -> Iterator[Case]:
    """Yield what users may take for views."""
    refused = {
        "no views": ([], "no view was given"),
        "an empty dict": ({}, "no view was given"),
        "None": (None, "None"),
        "a text": ("measurements", "measurements"),
        "a number": (3, "2-D|views"),
        "one row": ([LEFT[0], RIGHT[0]], "2-D"),
        "a cube": ([LEFT[:, :, None]], "2-D"),
        "ragged rows": ([[[1.0, 2.0], [3.0]], RIGHT[:2]], "2-D|same length|rectangular|inhomogeneous|numbers"),
        "words": ([LEFT.astype(str).astype(object) + "x", RIGHT], "numbers"),
        "complex numbers": ([LEFT + 1j, RIGHT], "complex|real|numbers"),
        "dates": ([np.full((ROWS, 2), np.datetime64("2024-01-01")), RIGHT], "numbers|date"),
        "infinity": (changed((3, 1), np.inf), "infinity"),
        "minus infinity": (changed((3, 1), -np.inf), "infinity"),
        "one empty cell": (changed((3, 1), np.nan), "NaN"),
        "a sample without any view": (
            {n: np.where(np.arange(ROWS)[:, None] == 5, np.nan, a) for n, a in GOOD.items()},
            "no view",
        ),
        "unequal numbers of rows": ({"left": LEFT, "right": RIGHT[:-1]}, "rows"),
        "no columns": ({"left": LEFT[:, :0], "right": RIGHT}, "column"),
        "a sparse matrix": ({"left": scipy.sparse.csr_matrix(LEFT), "right": RIGHT}, "sparse"),
        "two names that read the same": ({1: LEFT, "1": RIGHT}, "name"),
        "a repeated sample": (
            {"left": pd.DataFrame(LEFT, ["a"] * ROWS), "right": pd.DataFrame(RIGHT, ["a"] * ROWS)},
            "more than once|twice|duplicate",
        ),
        "a repeated column": ({"left": pd.DataFrame(LEFT, NAMES, list("aabc")), "right": frames()["right"]}, "column"),
        "a frame of dates": (
            {"left": frames()["left"].assign(f0=pd.Timestamp("2024")), "right": frames()["right"]},
            "f0",
        ),
        "a frame of lists": ({"left": frames()["left"].assign(f0=[[1]] * ROWS), "right": frames()["right"]}, "f0"),
        "numbers written as text": (
            {"left": frames()["left"].assign(f0=[str(1.5 * n) for n in range(ROWS)]), "right": frames()["right"]},
            "f0",
        ),
        "a name in every row": ({"left": frames()["left"].assign(f0=NAMES), "right": frames()["right"]}, "f0"),
        "whole numbers beside words as sample names": (
            {"left": pd.DataFrame(LEFT), "right": frames()["right"]},
            "names|index|join",
        ),
    }
    for name, (X, words) in refused.items():
        yield Case(f"views: {name}", lambda folder, X=X: views(X), words)
    right = {
        "lists of lists": [LEFT.tolist(), RIGHT.tolist()],
        "float16": [LEFT.astype(np.float32), RIGHT.astype(np.float32)],
        "big-endian numbers": [LEFT.astype(">f8"), RIGHT.astype(">f4")],
        "columns first in memory": [np.asfortranarray(LEFT), np.asfortranarray(RIGHT)],
        "read-only arrays": [np.frombuffer(a.tobytes()).reshape(a.shape) for a in GOOD.values()],
        "every second row of larger arrays": [np.repeat(a, 2, axis=0)[::2] for a in GOOD.values()],
        "extended precision": [a.astype(np.longdouble) for a in GOOD.values()],
        "tensors": [torch.from_numpy(LEFT), torch.from_numpy(RIGHT).requires_grad_()],
        "frames": frames(),
        "views": data.Views.of(GOOD),
        "a tuple": tuple(GOOD.values()),
        "frames of nullable numbers": {name: frame.convert_dtypes() for name, frame in frames().items()},
    }
    for name, X in right.items():
        yield Case(f"views: {name}", lambda folder, X=X: views(X), same_as_good)
    yield Case("views: truth values", lambda folder: views([LEFT > 0]), lambda v: set(np.unique(v.arrays[0])) == {0, 1})
    yield Case(
        "views: whole numbers", lambda folder: views([LEFT.astype(int)]), lambda v: v.arrays[0].dtype.kind == "f"
    )
    yield Case(
        "views: subnormal numbers", lambda folder: views([LEFT * 1e-310]), lambda v: np.isfinite(v.arrays[0]).all()
    )
    yield Case("views: one sample", lambda folder: views([LEFT[:1]]), lambda v: len(v) == 1)
    yield Case(
        "views: a row of NaN is a missing view",
        lambda folder: views(
            {"left": np.vstack([LEFT, np.full((1, 4), np.nan)]), "right": np.vstack([RIGHT, RIGHT[:1]])}
        ),
        lambda v: not v.observed[-1, 0],
    )
    yield Case(
        "views: rows in another order",
        lambda folder: views({"left": frames()["left"], "right": frames()["right"][::-1]}),
        same_as_good,
    )
    yield Case(
        "views: levels of names",
        lambda folder: views(
            {n: f.set_index(pd.MultiIndex.from_product([["a", "b"], range(ROWS // 2)])) for n, f in frames().items()}
        ),
        same_as_good,
    )
    table = np.hstack(list(GOOD.values()))
    yield Case("one table cut into views", lambda folder: views(table, view_sizes=(4, 6)), same_as_good)
    for sizes in ((4, 5), (4, 6, 1), (0, 10), (-4, 14), (4.5, 5.5), "46", 10.5):
        yield Case(
            f"one table cut by {sizes!r}", lambda folder, sizes=sizes: views(table, view_sizes=sizes), "view_sizes"
        )
    mask = np.ones((ROWS, 2), dtype=bool)
    masks = {
        "too few rows": mask[:-1],
        "too many views": np.ones((ROWS, 3), dtype=bool),
        "one column": mask[:, 0],
        "words": mask.astype(str),
        "shares": mask * 0.5,
        "no view anywhere": ~mask,
    }
    for name, observed in masks.items():
        yield Case(f"observed: {name}", lambda folder, m=observed: views(GOOD, observed=m), "observed|no view")
    yield Case("observed: zeros and ones", lambda folder: views(GOOD, observed=mask.astype(int)), same_as_good)


def mask_cases() -> Iterator[Case]:
    """Yield requests for missing patterns."""
    bad = {
        "no samples": ((0, 2, 0.5), {}, "n_samples"),
        "no views": ((10, 0, 0.5), {}, "n_views"),
        "half a view": ((10, 2.5, 0.5), {}, "n_views"),
        "a negative rate": ((10, 2, -0.1), {}, "missing_rate"),
        "a rate in per cent": ((10, 2, 50), {}, "missing_rate"),
        "no number for a rate": ((10, 2, float("nan")), {}, "missing_rate"),
        "a word for a rate": ((10, 2, "half"), {}, "missing_rate"),
        "an unknown pattern": ((10, 2, 0.5, "random"), {}, "pattern"),
        "a negative seed": ((10, 2, 0.5), {"random_state": -1}, "random_state"),
        "a word for a seed": ((10, 2, 0.5), {"random_state": "x"}, "random_state"),
        "a rate per view of another pattern": ((10, 2, [0.5, 0.5]), {}, "missing_rate"),
        "too few rates": ((10, 2, [0.5], "per_view"), {}, "missing_rate"),
        "nothing left to hide": ((10, 1, 0.5), {}, "one view"),
    }
    for name, (positional, keywords, words) in bad.items():
        yield Case(f"mask: {name}", lambda folder, p=positional, k=keywords: data.make_observed(*p, **k), words)
    yield Case(
        "mask: all incomplete",
        lambda folder: data.make_observed(50, 3, 1.0, random_state=0),
        lambda m: m.any(1).all() and not m.all(1).any(),
    )


def score_cases() -> Iterator[Case]:
    """Yield labels to compare."""
    bad = {"unequal lengths": ([0, 1], [0]), "nothing": ([], []), "tables": (np.eye(2), np.eye(2))}
    for name, pair in bad.items():
        yield Case(
            f"scores: {name}",
            lambda folder, pair=pair: metrics.clustering_scores(*pair),
            "y_true|y_pred|labels|samples",
        )
    yield Case(
        "scores: words", lambda folder: metrics.clustering_scores(list("aabb"), list("xxyy")), lambda s: s["acc"] == 1.0
    )
    yield Case("scores: one class", lambda folder: metrics.clustering_scores([0, 0], [1, 1]), lambda s: s["acc"] == 1.0)


def setting_cases() -> Iterator[Case]:
    """Yield settings that cannot be, for every method and for ACOVA's own keywords."""
    for method in list_methods():
        for value in (0, -1, 2.5, "3", None, float("nan"), True, ROWS + 1):
            yield Case(
                f"{method}: n_clusters={value!r}",
                lambda folder, m=method, v=value: quick(m, n_clusters=v).fit(GOOD),
                "n_clusters",
            )
        yield Case(
            f"{method}: a negative seed", lambda folder, m=method: quick(m, random_state=-1).fit(GOOD), "random_state"
        )
        yield Case(
            f"{method}: an unknown scaling", lambda folder, m=method: quick(m, standardize="z").fit(GOOD), "standardize"
        )
        yield Case(f"{method}: no samples", lambda folder, m=method: quick(m).fit([LEFT[:0], RIGHT[:0]]), "sample")
        yield Case(
            f"{method}: a view nobody has",
            lambda folder, m=method: quick(m).fit({**GOOD, "third": np.full((ROWS, 2), np.nan)}),
            "third",
        )
        yield Case(
            f"{method}: predict before fit",
            lambda folder, m=method: _refused_unfitted(quick(m)),
            lambda refused: refused,
        )
    settings: dict[str, tuple[Any, ...]] = {
        "recipe": ("best", None),
        "latent_dim": (0, 2.5, "10"),
        "alpha": (-1, float("inf"), "high"),
        "hidden": ("wide", (0,), (2.5,), 64, (-8, 8)),
        "likelihood": ("poisson", ("gaussian",), {"left": "gaussian"}, "bernoulli"),
        "correlation": ("high", 1.5, np.eye(3), np.full((2, 2), 2.0), [[1.0, 0.5], [0.4, 1.0]]),
        "correlation_start": ("zero", -2.0),
        "n_correlations": (0, 99),
        "missing": ("drop",),
        "n_init": (0, -3, 1.5),
        "consensus": ("maybe", 2, "false"),
        "epochs": (-1, 2.5, "many"),
        "pretrain_epochs": (-1,),
        "warmup_epochs": (1.5,),
        "batch_size": (0, -256, 12.5),
        "learning_rate": (0, -0.1, float("nan")),
        "cluster_start": ("random",),
        "balance": (2, -0.5, "yes"),
        "reconstruction_scale": (0, -5),
        "neighbor_weight": (2, -0.1, "some"),
        "n_neighbors": (0,),
        "assignment": ("hard",),
        "clip_norm": (0, -1),
        "min_std": (0,),
        "patience": (0, 1.5),
        "tol": (-1,),
        "device": ("tpu", "cuda:99", 3.5),
        "precision": ("fp8",),
        "checkpoint_every": (0,),
        "random_state": ("seed", 1.5),
    }
    for option, values in settings.items():
        for value in values:
            yield Case(f"ACOVA: {option}={value!r}", _fit(**{option: value}), option)
    yield Case(
        "ACOVA: sizes as numpy numbers",
        _fit(latent_dim=np.int64(3), hidden=(np.int32(8),), n_clusters=np.int8(3)),
        lambda m: m.latent_.shape == (ROWS, 3),
    )
    yield Case("ACOVA: one cluster", _fit(n_clusters=1), lambda m: set(m.labels_) == {0})
    yield Case("preset of an unknown data set", lambda folder: acova.ACOVA.preset("minst"), "mnist|handwritten")
    yield Case("an unknown method", lambda folder: make_method("ACVOA"), "ACOVA")
    yield Case("fit_many of nothing", lambda folder: fit_many([], GOOD), lambda models: models == [])
    yield Case("fit_many of one object twice", lambda folder: fit_many([quick()] * 2, GOOD), "own estimator")
    yield Case("fit_many of k-means", lambda folder: fit_many([quick("Concat")], GOOD), "Concat")
    yield Case("fit_many with too few masks", lambda folder: fit_many([quick(), quick()], GOOD, [None]), "mask")


def _refused_unfitted(model: Any) -> bool:
    from sklearn.exceptions import NotFittedError

    try:
        model.predict(GOOD)
    except NotFittedError as error:
        return "fit" in str(error)
    return False


def prediction_cases() -> Iterator[Case]:
    """Yield new data for a fitted model, with and without a network."""
    for method in ("ACOVA", "KNNImpute"):
        model = quick(method).fit(frames())
        new = frames()
        bad: dict[str, tuple[Any, str]] = {
            "an unknown view": ({"middle": LEFT}, "middle"),
            "a misspelt view": ({"lefd": LEFT}, "left"),
            "too few columns": ({"left": new["left"].iloc[:, :3]}, "f3"),
            "an unknown column": ({"left": new["left"].rename(columns={"f0": "g0"})}, "g0"),
            "too few columns of an array": ({"left": LEFT[:, :3]}, "columns"),
            "no rows": ({"left": new["left"].iloc[:0]}, "sample"),
            "an infinite cell": ({"left": new["left"].replace(new["left"].iloc[0, 0], np.inf)}, "infinity"),
            "no views": ({}, "no view"),
            "words": ({"left": new["left"].astype(str) + "x"}, "f0"),
        }
        for name, (X, words) in bad.items():
            yield Case(f"{method}.predict: {name}", lambda folder, model=model, X=X: model.predict(X), words)
        same = model.predict(new)
        yield Case(
            f"{method}.predict: columns in another order",
            lambda folder, model=model: model.predict({n: f.iloc[:, ::-1] for n, f in new.items()}),
            lambda labels, same=same: (labels == same).all(),
        )
        yield Case(
            f"{method}.predict: views in another order",
            lambda folder, model=model: model.predict(dict(reversed(new.items()))),
            lambda labels, same=same: (labels == same).all(),
        )
        yield Case(
            f"{method}.predict: one view of one sample",
            lambda folder, model=model: model.predict({"left": new["left"].iloc[:1]}),
            lambda labels: labels.shape == (1,),
        )
        for size in (1e15, 1e20, 1e30, 1e38, 1e200):
            yield Case(
                f"{method}.assignments: a cell of {size:g}",
                lambda folder, model=model, size=size: _sane_or_refused(model, size),
                lambda sane: sane,
            )
        hidden = np.ones((ROWS, 2), dtype=bool)
        hidden[::2, 0] = False
        spoilt = {"left": new["left"].mask(np.repeat(~hidden[:, [0]], 4, axis=1), 1e6), "right": new["right"]}
        yield Case(
            f"{method}: hidden cells are not read",
            lambda folder, model=model, hidden=hidden, spoilt=spoilt: (
                model.predict(new, observed=hidden),
                model.predict(spoilt, observed=hidden),
            ),
            lambda pair: (pair[0] == pair[1]).all(),
        )


def _sane_or_refused(model: Any, size: float) -> bool:
    X = {name: frame.iloc[:3].copy() for name, frame in frames().items()}
    X["left"].iloc[1, 2] = size
    try:
        table = model.assignments(X)
    except AcovaError as error:
        return "f2" in str(error) or "s1" in str(error)
    shares = table.filter(like="p_").to_numpy()
    return bool(np.isfinite(shares).all() and (not shares.size or np.allclose(shares.sum(1), 1, atol=1e-5)))


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
        lambda folder: data.read_views(_folder_of_tables(folder, first=_csv("00"), second=_csv("00", seed=1))),
        lambda d: d.views.index[3] == "003",
    )
    yield Case("load: nothing there", lambda folder: load_method(folder / "run"), "run")
    yield Case("load: an empty folder", lambda folder: load_method(folder), "config.json|run")
    yield Case("load: another class", lambda folder: acova.Concat.load(_saved(folder)), "KNNImpute")
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
            (_saved(folder) / name).write_bytes(content)
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
            return command("fit", _options(tables), "--out", folder / at, "--quiet", *words)

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
        lambda folder: command("predict", folder / "none", _options(folder), "--out", folder / "x.csv"),
        "none",
    )
    yield Case(
        "acova predict: an unknown ending",
        lambda folder: command("predict", _saved(folder), "digits", "--out", folder / "x.docx"),
        "docx|csv",
    )
    yield Case(
        "acova predict: out is a folder",
        lambda folder: command("predict", _saved(folder), "digits", "--out", folder, "--force"),
        "folder|directory|regular",
    )
    yield Case("acova report: no run", lambda folder: command("report", folder / "none"), "none")
    yield Case(
        "acova report: an unknown map", lambda folder: command("report", _saved(folder), "--map", "SNE"), "t-SNE"
    )
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


def all_cases() -> list[Case]:
    """Return every case."""
    sources = (view_cases, mask_cases, score_cases, setting_cases, prediction_cases, file_cases, command_cases)
    return [case for source in sources for case in source()]
