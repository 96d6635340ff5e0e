"""Bad and odd views, masks and labels."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import scipy.sparse
import torch

from acova import data, metrics
from reliability.cases import GOOD, LEFT, NAMES, RIGHT, ROWS, Case, changed, frames, same_as_good, views


def view_cases() -> Iterator[Case]:
    """Yield what users may take for views."""
    refused = {
        "no views": ([], "no view was given"),
        "an empty dict": ({}, "no view was given"),
        "None": (None, "None"),
        "a text": ("measurements", "read_views"),
        "a number": (3, "2-D|views"),
        "one row": ([LEFT[0], RIGHT[0]], "2-D"),
        "a cube": ([LEFT[:, :, None]], "2-D"),
        "ragged rows": ([[[1.0, 2.0], [3.0]], RIGHT[:2]], "2-D|same length|rectangular|inhomogeneous|numbers"),
        "words": ([LEFT.astype(str).astype(object) + "x", RIGHT], "numbers"),
        "complex numbers": ([LEFT + 1j, RIGHT], "complex|real|numbers"),
        "dates": ([np.full((ROWS, 2), np.datetime64("2024-01-01")), RIGHT], "numbers|date"),
        "infinity": (changed((3, 1), np.inf), "infinity"),
        "minus infinity": (changed((3, 1), -np.inf), "infinity"),
        "a sample without any view": (
            {n: np.where(np.arange(ROWS)[:, None] == 5, np.nan, a) for n, a in GOOD.items()},
            "no view",
        ),
        "unequal numbers of rows": ({"left": LEFT, "right": RIGHT[:-1]}, "rows"),
        "no columns": ({"left": LEFT[:, :0], "right": RIGHT}, "column"),
        "a sparse matrix of complex numbers": ({"left": scipy.sparse.csr_matrix(1j * LEFT), "right": RIGHT}, "numbers"),
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
    yield Case(
        "views: one empty cell",
        lambda folder: views(changed((3, 1), np.nan)),
        lambda v: np.argwhere(v.empty[0]).tolist() == [[3, 1]] and v.observed.all(),
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
