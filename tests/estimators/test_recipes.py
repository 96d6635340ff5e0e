"""Recipes and their ingredients, each switched alone."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from acova import ACOVA
from acova.base import OptionError
from acova.data import StoredViews, fill_from_neighbours
from acova.estimators import RECIPES
from acova.metrics import clustering_accuracy
from conftest import SMALL

QUICK = {**SMALL, "pretrain_epochs": 2, "epochs": 2}
QUICK.pop("warmup_epochs")


def settings_of(views, **given):
    model = ACOVA(3, **{**QUICK, **given})
    return model._prepare(views, None).jobs[0].settings


def test_a_recipe_fills_only_what_was_left_open(toy):
    for recipe, values in RECIPES.items():
        filled = settings_of(toy[0], recipe=recipe)
        assert {name: getattr(filled, name) for name in values} == values
        changed = settings_of(toy[0], recipe=recipe, balance=not values["balance"], warmup_epochs=3)
        assert changed.balance != values["balance"]
        assert changed.warmup_epochs == 3
    model = ACOVA(3, **QUICK)
    settings_of(toy[0])
    assert model.warmup_epochs is None  # a constructor's values stay as given


def test_balance_gives_every_view_the_same_weight_against_its_mean(toy):
    """Predicting a view's mean costs the same for every view, on average over its observed rows."""
    views = toy[0]
    job = ACOVA(3, **QUICK)._prepare(views, None).jobs[0]
    network = job.network()
    costs = []
    for v, view in enumerate(job.views):
        rows = view[job.observed[:, v]]
        costs.append(float(network.reconstruction_weights[v] * (rows - rows.mean(0)).square().sum(1).mean()))
    np.testing.assert_allclose(costs, costs[0], rtol=1e-4)
    plain = ACOVA(3, **QUICK, balance=False)._prepare(views, None).jobs[0].network()
    torch.testing.assert_close(plain.reconstruction_weights, torch.ones(3))


def test_neighbours_are_decoded_only_where_a_view_is_missing(toy):
    job = ACOVA(3, **QUICK, neighbor_weight=0.5)._prepare(toy[0], None).jobs[0]
    network, noise = job.network(), torch.randn(len(job.observed), 2, 4)
    with_fill = network.loss(job.views, job.observed, noise, fill_weight=0.5)["reconstruction"]
    without = network.loss(job.views, job.observed, noise)["reconstruction"]
    complete = job.observed.all(1)
    torch.testing.assert_close(with_fill[complete], without[complete])
    everything = network.loss(job.views, torch.ones_like(job.observed), noise)["reconstruction"]
    assert (with_fill[~complete] > without[~complete]).all()
    # Half of the difference that weight 1 makes: the reconstruction is linear in the weight.
    full = network.loss(job.views, job.observed, noise, fill_weight=1.0)["reconstruction"]
    torch.testing.assert_close(with_fill - without, 0.5 * (full - without), rtol=1e-4, atol=1e-3)
    assert not torch.allclose(everything, full)  # the encoders do not see what was filled in


@pytest.mark.parametrize(
    "ingredient",
    [{"cluster_start": "codes"}, {"neighbor_weight": 0.5}, {"assignment": "exact"}, {"balance": False}],
    ids=str,
)
def test_each_ingredient_alone_finds_separated_clusters(toy, ingredient):
    views, labels = toy
    found = ACOVA(3, **SMALL, **ingredient).fit(views)
    assert clustering_accuracy(labels, found.labels_) > 0.9
    plain = ACOVA(3, **SMALL).fit(views)
    assert not np.array_equal(plain.probabilities_, found.probabilities_)


def test_the_neighbours_clusters_are_carried_to_the_latent_space(toy):
    views = toy[0]
    model = ACOVA(3, **{**SMALL, "epochs": 0}, cluster_start="neighbors").fit(views)
    holes = np.hstack([np.where(views.observed[:, [v]], array, np.nan) for v, array in enumerate(views.arrays)])
    scaled = StandardScaler().fit_transform(holes) / np.sqrt(np.repeat(views.sizes, views.sizes))
    arrays = np.split(scaled.astype("f4"), np.cumsum(views.sizes)[:-1], axis=1)
    filled = np.hstack(fill_from_neighbours(arrays, views.observed, np.ones(3)))
    labels = KMeans(3, n_init=10, random_state=0).fit_predict(filled)
    latent = model.transform(views)
    expected = np.array([latent[labels == k].mean(0) for k in range(3)])
    nearest = np.linalg.norm(model.means_[:, None] - expected[None], axis=-1).argmin(1)
    assert sorted(nearest) == [0, 1, 2]
    np.testing.assert_allclose(model.means_, expected[nearest], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("junk", [1e6, np.nan])
def test_neighbours_are_found_without_looking_at_hidden_cells(toy, junk):
    views = toy[0]
    given = {**SMALL, "neighbor_weight": 0.5, "cluster_start": "neighbors", "n_init": 2, "consensus": True}
    dirty = [np.where(views.observed[:, [v]], array, junk) for v, array in enumerate(views.arrays)]
    clean = ACOVA(3, **given).fit(views)
    model = ACOVA(3, **given).fit(dict(zip(views.names, dirty, strict=True)), observed=views.observed)
    np.testing.assert_array_equal(model.probabilities_, clean.probabilities_)


def test_bad_settings_are_refused(toy, tmp_path):
    for given, words in (
        ({"recipe": "best"}, "recipe must be 'paper', 'robust'; got 'best'"),
        ({"cluster_start": "middle"}, "cluster_start must be .*; got 'middle'"),
        ({"assignment": "hard"}, "assignment must be .*; got 'hard'"),
        ({"neighbor_weight": -1}, "neighbor_weight"),
        ({"n_neighbors": 0}, "n_neighbors"),
    ):
        with pytest.raises(OptionError, match=words):
            ACOVA(3, **{**QUICK, **given}).fit(toy[0])


def test_neighbours_need_views_in_memory(tmp_path, monkeypatch):
    from acova.estimators import base

    monkeypatch.setattr(base, "_IN_MEMORY", 0)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(50, 4)).astype("f4"))
    with pytest.raises(OptionError, match="neighbours are searched in memory"):
        ACOVA(3, **QUICK, neighbor_weight=0.5).fit(StoredViews.of(tmp_path))
    ACOVA(3, **QUICK).fit(StoredViews.of(tmp_path))
