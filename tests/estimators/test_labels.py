"""Clusters that follow labels of some samples."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from quick import make, make_tiny, training_of

from acova import ACOVA, AgreementGraph
from acova.base import DataError, OptionError, TrainingError
from acova.clustering.seeded import known_among, seeded_k_means
from acova.estimators import list_methods
from acova.functional import Batch
from acova.networks import MultiViewVAE

FOLLOWING = ["ACOVA", "MoE", "WeightedFusion", "CoDE", "DVIMC", "AgreementGraph"]


def short(name):
    """Return settings for few epochs."""
    return {} if training_of(name) is None else {"pretrain_epochs": 10, "epochs": 8}


def square(run=0):
    """Return two views of four groups at the corners of a square, and which side and which height each sample has."""
    rng = np.random.default_rng(run)
    left, low = rng.integers(0, 2, size=(2, 160))
    places = np.column_stack([6 * left, 6 * low])
    views = [places @ rng.normal(size=(2, 6)) + rng.normal(size=(160, 6)) for _ in range(2)]
    return views, left, low


def some_of(labels, count, run=1):
    """Return labels of which all but `count` are -1."""
    y = np.full(len(labels), -1)
    rows = np.random.default_rng(run).permutation(len(labels))[:count]
    y[rows] = labels[rows]
    return y


# --- k-means whose known points stay ------------------------------------------------------------


def inertia(points, labels, n_clusters):
    total = 0.0
    for k in range(n_clusters):
        own = points[labels == k]
        total += np.square(own - own.mean(axis=0)).sum() if len(own) else 0.0
    return total


@pytest.mark.parametrize("run", range(4))
def test_known_points_stay_and_no_partition_that_keeps_them_is_much_better(run):
    rng = np.random.default_rng(run)
    points = rng.normal(size=(9, 2)) + 3 * rng.integers(0, 2, size=(9, 1))
    known = np.array([0, 0, 1, -1, -1, -1, -1, -1, -1])
    found = seeded_k_means(points, 2, run, known)
    assert found.labels[:3].tolist() == [0, 0, 1]
    every = [inertia(points, np.array([0, 0, 1, *rest]), 2) for rest in product(range(2), repeat=6)]
    assert found.inertia == pytest.approx(inertia(points, found.labels, 2))
    assert found.inertia <= 1.2 * min(every)  # Lloyd's algorithm ends in a local optimum
    apart = np.square(points[:, None] - found.centers).sum(axis=2)
    assert (apart.argmin(axis=1) == found.labels)[known < 0].all()


def test_clusters_without_a_class_come_after_the_classes_by_size():
    sizes = (5, 40, 10, 20)
    points = np.concatenate([np.full((size, 1), 100.0 * k) for k, size in enumerate(sizes)])
    points += np.random.default_rng(0).normal(size=points.shape)
    known = np.full(len(points), -1)
    known[[0, 50]] = 0, 1  # the smallest group, and the one of ten
    found = seeded_k_means(points, 4, 0, known)
    assert np.bincount(found.labels).tolist() == [5, 10, 40, 20]


def test_weights_count():
    points = np.array([[0.0], [1.0], [10.0]])
    found = seeded_k_means(points, 2, 0, np.array([0, -1, 1]), weights=np.array([3.0, 1.0, 1.0]))
    assert found.centers.ravel().tolist() == pytest.approx([0.25, 10.0])


def test_a_class_that_none_of_the_clustered_samples_has_is_an_error():
    with pytest.raises(TrainingError, match="among 2 of 3 samples, and label number 1 of 2 in y has none there"):
        known_among(np.array([0, -1, 1]), np.array([0, 1]))


# --- the objective ------------------------------------------------------------------------------


def test_a_labelled_sample_pays_for_its_own_component_alone():
    torch.manual_seed(0)
    network = MultiViewVAE(
        [3, 2], 2, 3, hidden=(4,), likelihoods=["gaussian"] * 2, alpha=1.0, correlation=torch.eye(2)
    ).double()
    with torch.no_grad():
        network.prior.means.normal_()
        network.prior.logits.normal_()
    views = [torch.randn(5, 3, dtype=torch.float64), torch.randn(5, 2, dtype=torch.float64)]
    observed, noise = torch.ones(5, 2, dtype=torch.bool), torch.randn(5, 2, 2, dtype=torch.float64)
    labels = torch.tensor([2, -1, 0, 1, -1])
    plain, told = (network.loss(Batch(views, observed, (), known), noise) for known in ((), [labels]))
    fused = network.posterior(views, observed)
    log_weights, means, variances = network.prior()
    posterior = torch.distributions.Normal(fused.mean, fused.variance.sqrt())
    for row, label in enumerate(labels.tolist()):
        if label < 0:
            assert torch.equal(plain["total"][row], told["total"][row])
            continue
        component = torch.distributions.Normal(means[label], variances[label].sqrt())
        divergence = torch.distributions.kl_divergence(posterior, component)[row].sum()
        assert torch.allclose(told["kl_z"][row], divergence)
        assert torch.allclose(told["kl_c"][row], -log_weights[label])
    told["total"].sum().backward()
    assert all(p.grad is None or bool(p.grad.isfinite().all()) for p in network.parameters())


# --- estimators ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "truth"), [*product(FOLLOWING, ["left"]), ("ACOVA", "low"), ("AgreementGraph", "low")]
)
def test_clusters_follow_the_labels_and_not_the_other_way_to_cut_the_data(name, truth):
    views, left, low = square()
    truth = {"left": left, "low": low}[truth]
    model = make(name, n_clusters=2, **short(name)).fit(views, some_of(truth, 40))
    assert model.classes_.tolist() == [0, 1]
    assert (model.labels_ == truth).mean() > 0.9


def test_runs_of_a_consensus_keep_the_classes_and_further_clusters_follow():
    views, left, low = square()
    groups = 2 * left + low
    y = some_of(groups, 60)
    y[y == 1] = -1
    y[y >= 0] += 10
    model = make("ACOVA", n_clusters=4, n_init=2, consensus=True, **short("ACOVA")).fit(views, y)
    assert model.classes_.tolist() == [10, 12, 13]
    for cluster, group in enumerate([0, 2, 3, 1]):
        assert (model.labels_ == cluster)[groups == group].mean() > 0.9


def test_labels_are_words_by_name_too_and_are_saved(tmp_path):
    views, left, _ = square()
    index = pd.Index([f"p{i:03d}" for i in range(160)])
    frames = {"a": pd.DataFrame(views[0], index=index), "b": pd.DataFrame(views[1], index=index)}
    words = pd.Series(np.array(["ill", "well"])[left], index=index).sample(40, random_state=0)
    model = AgreementGraph(2, random_state=0).fit({name: one.iloc[::-1] for name, one in frames.items()}, words)
    assert model.classes_.tolist() == ["ill", "well"]
    numbers = some_of(left, 0)
    numbers[index.get_indexer(words.index)] = words == "well"
    same = AgreementGraph(2, random_state=0).fit(frames, numbers)
    assert (model.labels_[::-1] == same.labels_).all()
    model.save(tmp_path / "run")
    assert AgreementGraph.load(tmp_path / "run").classes_.tolist() == ["ill", "well"]


def test_y_that_leaves_nothing_open_or_tells_nothing_is_ignored():
    views, left, _ = square()
    plain = make_tiny("ACOVA", n_clusters=2).fit(views)
    for y in (left, np.full(160, -1), left.astype(float)):
        ignoring = make_tiny("ACOVA", n_clusters=2).fit(views, y)
        assert np.array_equal(ignoring.probabilities_, plain.probabilities_)
        assert not hasattr(ignoring, "classes_")
    assert not hasattr(make_tiny("ACOVA", n_clusters=2).fit(views, some_of(left, 20)).fit(views), "classes_")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_fit_warns_where_clusters_do_not_follow():
    views, left, _ = square()
    rng = np.random.default_rng(0)
    model = make_tiny("ACOVA", n_clusters=2).fit(views, some_of(rng.permutation(left), 60))
    assert any("the clusters hardly follow the labels" in text for text in model.warnings_)


@pytest.mark.parametrize("name", sorted(set(list_methods()) - set(FOLLOWING)))
def test_other_methods_refuse_labels(name):
    views, left, _ = square()
    assert training_of(name) is None or not training_of(name).requirements.follows_labels
    with pytest.raises(OptionError, match=f"{name}: y holds labels of some samples, which this method cannot follow"):
        make_tiny(name, n_clusters=2).fit(views, some_of(left, 20))


@pytest.mark.parametrize(
    ("y", "error", "text"),
    [
        (np.zeros(159, int), DataError, "y must have one label for each of the 160 samples; its shape is"),
        (np.arange(160) % 4 - 1, OptionError, r"3 labels \(0, 1, 2\) for n_clusters=2; .* at least n_clusters=3"),
        (np.where(np.arange(160) % 2, 0.5, -1), DataError, "whole numbers from 0 on or words, .*; got 0.5"),
        (np.where(np.arange(160) % 2, -3, -1), DataError, "got -3"),
        (["a", 1, *[None] * 158], DataError, "got 'both numbers and words'"),
        (
            pd.Series([1], index=["nobody"]),
            DataError,
            "must name each sample once, as the data do, such as 0; .*nobody",
        ),
    ],
)
def test_wrong_labels_are_named(y, error, text):
    with pytest.raises(error, match=text):
        AgreementGraph(2).fit(square()[0], y)


def test_the_number_of_clusters_is_given_with_labels():
    views, left, _ = square()
    with pytest.raises(OptionError, match="chooses without labels; with labels in y, give a number"):
        ACOVA("auto").fit(views, some_of(left, 20))
