from itertools import permutations
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from acova.base import DataError
from acova.metrics import clustering_accuracy, clustering_scores, matched, purity

PERFECT = {"acc": 1.0, "nmi": 1.0, "ari": 1.0, "purity": 1.0}


def best_match(true, pred):
    """Share right under the best one-to-one naming of clusters, by trying them all."""
    classes, clusters = sorted(set(true)), sorted(set(pred))
    places = classes + [None] * (len(clusters) - len(classes))
    return max(
        sum(dict(zip(clusters, names, strict=True))[p] == t for t, p in zip(true, pred, strict=True))
        for names in permutations(places, len(clusters))
    ) / len(true)


def largest_class_share(true, pred):
    groups = [[t for t, p in zip(true, pred, strict=True) if p == cluster] for cluster in set(pred)]
    return sum(max(group.count(t) for t in group) for group in groups) / len(true)


def entropy_nmi(true, pred):
    """Mutual information over the mean entropy, from counts."""

    def entropy(names):
        return -sum(names.count(n) / len(names) * log(names.count(n) / len(names)) for n in set(names))

    both = entropy(list(zip(true, pred, strict=True)))
    mean = (entropy(true) + entropy(pred)) / 2
    return 1.0 if mean == 0 else (2 * mean - both) / mean


labelings = st.integers(1, 30).flatmap(
    lambda n: st.tuples(*(st.lists(st.integers(0, top), min_size=n, max_size=n) for top in (4, 3)))
)


@settings(deadline=None)
@given(labelings, st.booleans())
def test_scores_equal_their_definitions(labels, swapped):
    true, pred = reversed(labels) if swapped else labels
    scores = clustering_scores(true, pred)
    assert scores["acc"] == pytest.approx(best_match(true, pred))
    assert scores["purity"] == pytest.approx(largest_class_share(true, pred))
    assert scores["nmi"] == pytest.approx(entropy_nmi(true, pred), abs=1e-9)
    assert scores["nmi"] == pytest.approx(normalized_mutual_info_score(true, pred), abs=1e-12)
    assert scores["ari"] == pytest.approx(adjusted_rand_score(true, pred), abs=1e-12)
    assert clustering_accuracy(true, pred) == scores["acc"]
    assert purity(true, pred) == scores["purity"]
    assert all(type(value) is float for value in scores.values())


@pytest.mark.parametrize(
    ("true", "pred", "acc", "pure"),
    [
        ([0, 0, 0, 1, 1, 1], [0, 0, 1, 1, 1, 1], 5 / 6, 5 / 6),
        ([0, 0, 0, 1, 1, 1], [0, 1, 2, 3, 4, 5], 2 / 6, 1.0),  # more clusters than classes
        ([0, 0, 1, 1, 2, 2], [0, 0, 0, 0, 0, 0], 2 / 6, 2 / 6),  # fewer
        ([0, 0, 0, 0, 1, 1], [0, 0, 1, 1, 0, 1], 3 / 6, 4 / 6),  # both clusters prefer class 0
    ],
)
def test_accuracy_and_purity_by_hand(true, pred, acc, pure):
    scores = clustering_scores(true, pred)
    assert (scores["acc"], scores["purity"]) == (pytest.approx(acc), pytest.approx(pure))


CODES = np.array([0, 0, 1, 2, 2, 2, 1, 0])
FOUND = np.array([1, 1, 0, 2, 2, 1, 0, 0])
NAMINGS = {
    "from one": np.array([1, 2, 3]),
    "negative": np.array([-7, 0, 5]),
    "words": np.array(["cat", "ant", "bee"]),
    "objects": np.array(["b", "a", "c"], dtype=object),
    "fractions": np.array([0.5, -1.25, 3.0]),
    "unsigned": np.array([200, 0, 255], dtype=np.uint8),
    "large": np.array([10**12, 3, -(10**12)]),
}


@pytest.mark.parametrize("naming", NAMINGS)
@pytest.mark.parametrize("side", ["true", "pred", "both"])
def test_label_values_are_names_only(naming, side):
    names = NAMINGS[naming]
    true = CODES if side == "pred" else names[CODES]
    pred = FOUND if side == "true" else names[FOUND]
    expected = clustering_scores(CODES, FOUND)
    assert clustering_scores(true, pred) == pytest.approx(expected)
    assert clustering_scores(true.tolist(), pred.tolist()) == pytest.approx(expected)
    assert clustering_scores(CODES, NAMINGS[naming][CODES]) == pytest.approx(PERFECT)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_renamed_perfect_clustering_scores_one(order):
    assert clustering_scores(CODES, np.array(order)[CODES]) == pytest.approx(PERFECT)


@pytest.mark.parametrize("score", [clustering_scores, clustering_accuracy, purity])
@pytest.mark.parametrize("writable", [True, False])
def test_inputs_are_left_as_they_are(score, writable):
    true, pred = CODES + 3, FOUND - 5
    true.flags.writeable = pred.flags.writeable = writable
    score(true, pred)
    np.testing.assert_array_equal(true, CODES + 3)
    np.testing.assert_array_equal(pred, FOUND - 5)


@pytest.mark.parametrize("score", [clustering_scores, clustering_accuracy, purity])
@pytest.mark.parametrize(
    ("true", "pred", "shapes"),
    [
        ([0, 1], [0, 1, 1], r"\(2,\) and \(3,\)"),
        ([], [], r"\(0,\) and \(0,\)"),
        ([[0, 1]], [[0, 1]], r"\(1, 2\) and \(1, 2\)"),
        ([0, 1], [[0], [1]], r"\(2,\) and \(2, 1\)"),
        (1, 1, r"\(\) and \(\)"),
    ],
)
def test_labels_that_cannot_be_compared_are_refused(score, true, pred, shapes):
    with pytest.raises(
        DataError, match=f"y_true and y_pred must be two vectors of the same length.*got arrays of shape {shapes}"
    ):
        score(true, pred)


@given(st.integers(1, 4), st.integers(1, 4), st.lists(st.integers(0, 11), min_size=1, max_size=25))
def test_matched_samples_are_those_the_best_naming_gets_right(n_classes, n_clusters, values):
    true = [f"class {value % n_classes}" for value in values]
    pred = [value // 3 % n_clusters for value in values]
    agrees = matched(true, pred)
    assert agrees.mean() == pytest.approx(best_match(true, pred))
    names = {(t, p) for t, p, agree in zip(true, pred, agrees, strict=True) if agree}
    assert len({t for t, _ in names}) == len({p for _, p in names}) == len(names)  # one to one
