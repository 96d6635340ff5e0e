"""What makes a result doubtful, on results made for it; whole fits are in test_adversarial.py."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from acova import ACOVA, Concat
from acova.training.convergence import doubts_about
from conftest import SMALL, make_toy

EVEN = np.arange(100) % 4


def history(totals):
    return pd.DataFrame({"phase": "train", "epoch": np.arange(len(totals)) + 1, "total": totals})


SETTLED = history(10 * np.exp(-np.arange(40) / 5) + 1)


def sure(labels, n_clusters=4, confidence=0.9):
    rest = (1 - confidence) / (n_clusters - 1)
    return np.where(np.eye(n_clusters, dtype=bool)[labels], confidence, rest).astype(np.float32)


def test_a_sound_result_raises_no_doubt():
    assert doubts_about(EVEN, 4, SETTLED, sure(EVEN), np.full(100, 0.9, np.float32)) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (doubts_about(EVEN % 2, 4, SETTLED), "2 of 4 clusters are empty"),
        (doubts_about(EVEN % 3, 4, SETTLED), "1 of 4 clusters is empty"),
        (doubts_about(np.repeat([0, 1], [97, 3]), 2, SETTLED), r"cluster 0 holds 97.0% of the samples"),
        (
            doubts_about(EVEN, 4, SETTLED, sure(EVEN, confidence=0.3)),
            "confidence of at most 0.30, hardly more than the 1/4",
        ),
        (
            doubts_about(EVEN, 4, SETTLED, None, np.full(100, 0.4, np.float32)),
            "get their label from at most 40% of the",
        ),
        (
            doubts_about(EVEN, 4, history(np.linspace(10, 1, 40))),
            "falling steeply over the last 10 of 40 epochs of .*'train'",
        ),
        (
            doubts_about(EVEN, 4, history(np.linspace(1, 10, 40))),
            "loss rose over the last 10 of 40 epochs of phase 'train'",
        ),
    ],
)
def test_a_doubtful_result_says_why(found, text):
    assert len(found) == 1
    assert pd.Series(found).str.contains(text).all(), found


@pytest.mark.parametrize(
    "totals",
    [
        np.linspace(10, 1, 7),  # too short to judge
        np.linspace(100, 99, 40),  # falls, but hardly matters
        10 * np.exp(-np.arange(40) / 5) - 3,  # ends below zero
        np.zeros(40),
        1 + 0.01 * np.random.default_rng(0).normal(size=40),
    ],
)
def test_ordinary_courses_raise_no_doubt(totals):
    assert doubts_about(EVEN, 4, history(totals)) == []


def test_default_training_of_far_clusters_raises_no_doubt():
    views, _ = make_toy(n_samples=90)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ACOVA(3, hidden=(32,), random_state=0).fit(views).warnings_ == []


def test_doubts_are_warned_of_and_saved(tmp_path):
    views, _ = make_toy(n_samples=60, missing=0.0)
    copies = views.take(np.zeros(30, dtype=int))
    with pytest.warns(ConvergenceWarning) as caught:
        model = Concat(3, random_state=0).fit(copies)
    assert [str(each.message) for each in caught] == [f"Concat: {text}" for text in model.warnings_]
    assert model.warnings_[0].startswith("k-means: only 1 rows differ, fewer than n_clusters=3")
    assert caught[0].filename == __file__
    model.save(tmp_path / "run")
    assert Concat.load(tmp_path / "run").warnings_ == model.warnings_


def test_the_warning_of_a_network_points_at_the_call_of_fit():
    views, _ = make_toy(n_samples=60, missing=0.0)
    with pytest.warns(ConvergenceWarning, match="ACOVA: ") as caught:
        ACOVA.from_settings(3, **{**SMALL, "epochs": 1, "pretrain_epochs": 1, "warmup_epochs": 0}).fit(
            views.take(np.zeros(9, dtype=int))
        )
    assert {each.filename for each in caught} == {__file__}


def test_a_loss_that_ends_far_above_its_start_is_named():
    history = pd.DataFrame({"phase": ["warmup"] * 2 + ["train"] * 8, "total": [10.0, 5000.0, *[1.0] * 8]})
    (doubt,) = doubts_about(np.arange(40) % 2, 2, history)
    assert "diverged: the loss rose in phase 'warmup' from 10 to 5000. Lower learning_rate" in doubt
    history.loc[1, "total"] = 90.0
    assert doubts_about(np.arange(40) % 2, 2, history) == []
