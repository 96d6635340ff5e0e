"""What a partition owes to each view, and the warning when one view or column decides alone."""

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA, AgreementGraph, Views
from acova.data import Scaling, Summary, make_views
from acova.training.influence import influence_of_views, spread_samples

GROUPS = np.repeat(np.arange(4), 60)
SMALL = {"n_init": 1, "hidden": (16,), "pretrain_epochs": 60, "warmup_epochs": 60, "epochs": 60, "device": "cpu"}


def grouped(labels, width, *, seed, distance=6.0):
    rng = np.random.default_rng(seed)
    return distance * rng.normal(size=(labels.max() + 1, width))[labels] + rng.normal(size=(len(labels), width))


def noise(count, width, *, seed):
    return np.random.default_rng(seed).normal(size=(count, width))


def influence(frames, labels, labels_of=None, kind="zscore"):
    views = Views.of(frames)
    scaling = Scaling.fit(views, (kind,) * views.n_views)
    n_clusters = int(labels.max()) + 1
    same = labels_of or (lambda samples, observed: labels[samples.index.to_numpy()])
    return influence_of_views(views, scaling, labels, Summary.of(views, labels, n_clusters), n_clusters, same)


def test_support_is_one_for_the_groups_of_a_view_and_nothing_for_noise():
    found = influence({"a": grouped(GROUPS, 5, seed=0), "b": noise(240, 5, seed=1)}, GROUPS)
    assert found.support[0] == 1.0
    assert found.support[1] < 0.15


def test_support_is_the_kappa_of_leave_one_out_neighbours():
    """A second computation: dense affinities, a loop over samples, and kappa by its definition."""
    rows = grouped(GROUPS, 3, seed=2, distance=0.9)
    found = influence({"a": rows}, GROUPS, kind="none").support[0]
    rows = rows.astype(np.float32).astype(np.float64)
    distance = np.sqrt(np.square(rows[:, None] - rows[None]).sum(-1))
    np.fill_diagonal(distance, np.inf)
    count = int(np.clip(len(rows) // 8, 5, 30))
    near = np.argsort(distance, axis=1)[:, :count]
    spread = np.sqrt(np.square(np.take_along_axis(distance, near, axis=1)).mean(axis=1))
    votes = np.zeros((len(rows), 4))
    for i, neighbours in enumerate(near):
        for j in neighbours:
            width = (spread[i] + spread[j]) / 2
            votes[i, GROUPS[j]] += np.exp(-(distance[i, j] ** 2) / (2 * width**2))
    guess = votes.argmax(axis=1)
    right = (guess == GROUPS).mean()
    chance = sum((guess == k).mean() * (k == GROUPS).mean() for k in range(4))
    # One sample more or less changes kappa by .005; votes are sums of continuous weights, which do not tie.
    assert found == pytest.approx((right - chance) / (1 - chance), abs=1e-9)
    assert 0.2 < found < 0.95


def test_influence_counts_samples_that_change_without_a_view():
    views = {"a": grouped(GROUPS, 4, seed=0), "b": grouped(GROUPS, 4, seed=1)}
    views["b"][:120] = np.nan  # these have view a alone, which cannot be hidden
    rng = np.random.default_rng(3)
    other = {0: rng.integers(4, size=240), 1: rng.integers(4, size=240)}

    def labels_of(samples, observed):
        (hidden,) = np.flatnonzero(~observed.any(axis=0))
        assert (samples.observed[:, 1 - hidden]).all()
        return other[hidden][samples.index.to_numpy()]

    found = influence(views, GROUPS, labels_of)
    for v in range(2):
        assert found.changed[v] == np.mean([other[v][i] != GROUPS[i] for i in range(120, 240)])


def frames(**views):
    index = [f"s{i}" for i in range(240)]
    return {name: pd.DataFrame(view, index=index) for name, view in views.items()}


def clinical(stage):
    rng = np.random.default_rng(9)
    return {
        "age": rng.normal(60, 8, 240),
        "stage": np.array(["I", "II", "III", "IV"])[stage],
        "smoker": rng.integers(2, size=240),
    }


STAGE = np.random.default_rng(5).permutation(GROUPS)
WIDE = noise(240, 20, seed=1)
CASES = {
    "a view that no other supports": (
        frames(rna=WIDE, batch=grouped(STAGE, 6, seed=2)),
        "view 'batch' alone",
    ),
    "a column of categories": (
        frames(rna=WIDE, clinic=clinical(STAGE)),
        "column 'stage' of view 'clinic'",
    ),
    "a view of one column": (frames(rna=WIDE, clinic={"stage": 3.0 * STAGE}), "view 'clinic' alone"),
    "a column of the only view": (frames(clinic=clinical(STAGE)), "column 'stage' of view 'clinic'"),
    "two views that agree": (frames(rna=grouped(STAGE, 20, seed=1), protein=grouped(STAGE, 6, seed=2)), None),
    "one complete view of many columns": (frames(rna=grouped(STAGE, 20, seed=1)), None),
    "noise, whose clusters nothing tells": (frames(rna=WIDE, protein=noise(240, 6, seed=2)), None),
    "a column that another view supports": (frames(rna=grouped(STAGE, 20, seed=1), clinic=clinical(STAGE)), None),
}


@pytest.mark.parametrize(("views", "culprit"), CASES.values(), ids=CASES)
def test_what_decides_alone_is_named(views, culprit):
    labels = STAGE
    found = influence(views, labels, lambda samples, observed: labels[: samples.n_samples])
    assert bool(found.warnings) == (culprit is not None)
    if culprit:
        assert culprit in found.warnings[0]


def test_a_model_tells_and_keeps_the_influence_of_its_views(tmp_path):
    made = make_views(
        120,
        3,
        views={
            "one": {"n_features": 20, "n_informative": 10, "separation": 4.0},
            "two": {"n_features": 10, "n_informative": 5, "separation": 4.0},
            "noise": {"n_features": 2, "n_informative": 0},
        },
        random_state=0,
    )
    model = ACOVA.from_settings(3, random_state=0, **SMALL).fit(made.views)
    mask = np.ones((120, 3), dtype=bool)
    for v in range(3):
        hidden = mask.copy()
        hidden[:, v] = False
        assert model.view_influence_[v] == np.mean(model.predict(made.views, observed=hidden) != model.labels_)
    assert model.view_support_[2] < model.view_support_[:2].min()
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.view_influence_, model.view_influence_)
    np.testing.assert_array_equal(loaded.view_support_, model.view_support_)


def test_a_column_that_decides_is_in_the_warnings_of_a_fit():
    views = frames(rna=noise(240, 8, seed=1), clinic=clinical(STAGE))
    model = AgreementGraph(4, view_weights={"rna": 0.0, "clinic": 1.0}, random_state=0).fit(views)
    assert any("'stage'" in warning for warning in model.warnings_)


def test_samples_on_disk_are_spread_over_the_file(tmp_path):
    from acova.data import StoredViews

    rows = np.arange(5_000.0)[:, None]
    np.save(tmp_path / "a.npy", rows)
    some, positions = spread_samples(StoredViews.of([tmp_path / "a.npy"]))
    np.testing.assert_array_equal(some.arrays[0][:, 0], positions)
    assert positions.max() > 3_000
    some, positions = spread_samples(Views.of([rows]))
    assert len(positions) == 1_000
    np.testing.assert_array_equal(some.arrays[0][:, 0], positions)
