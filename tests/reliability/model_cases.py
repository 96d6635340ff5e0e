"""Bad and odd settings of every method, and new data for fitted models."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import acova
from acova.base import AcovaError
from acova.estimators import fit_many, list_methods, make_method
from reliability.cases import GOOD, LEFT, RIGHT, ROWS, Case, frames, quick


def _fit(**settings: Any) -> Callable[[Path], Any]:
    return lambda folder: quick(**settings).fit(GOOD)


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
