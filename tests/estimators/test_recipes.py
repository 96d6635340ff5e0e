"""Recipes and their ingredients, each switched alone."""

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans
from sklearn.impute import KNNImputer
from sklearn.preprocessing import StandardScaler

from acova import ACOVA
from acova.base import OptionError
from acova.data import Scaling, StoredViews, Views, make_observed
from acova.data.scaling import scaled_moments
from acova.estimators import RECIPES
from acova.functional import reconstruction
from acova.metrics import clustering_accuracy
from acova.training.neighbours import neighbour_means
from conftest import SMALL, make_toy

QUICK = {**SMALL, "pretrain_epochs": 2, "epochs": 2}
QUICK.pop("warmup_epochs")


def settings_of(views, **given):
    model = ACOVA.from_settings(3, **{**QUICK, **given})
    return model._prepare(views, None).jobs[0].settings


def test_a_recipe_fills_only_what_was_left_open(toy):
    for recipe, values in RECIPES.items():
        filled = settings_of(toy[0], recipe=recipe)
        left = {name: value for name, value in values.items() if name not in QUICK}
        if recipe != "paper":
            left["neighbor_weight"] = 0.5  # what "auto" means for few samples
        assert {name: getattr(filled, name) for name in left} == left
        changed = settings_of(toy[0], recipe=recipe, balance=0.25, warmup_epochs=3)
        assert (changed.balance, changed.warmup_epochs) == (0.25, 3)
    model = ACOVA.from_settings(3, **QUICK)
    settings_of(toy[0])
    assert model.training.warmup_epochs is None  # a constructor's values stay as given


@pytest.mark.parametrize(("samples", "widths"), [(240, (64, 64, 256)), (3001, (256, 256, 1024))])
def test_widths_follow_the_number_of_samples(samples, widths):
    views = make_toy(n_samples=samples)[0]
    for given in ({}, {"hidden": "auto"}):
        assert ACOVA.from_settings(3, **given)._prepare(views, None).jobs[0].settings.hidden == widths
    assert ACOVA(3, recipe="paper")._prepare(views, None).jobs[0].settings.hidden == (500, 500, 2000)


@pytest.mark.parametrize(("samples", "weight"), [(240, 0.5), (4000, 0.125), (20_000, 0.005), (20_001, 0.0)])
def test_neighbours_count_less_the_more_samples_there_are(samples, weight):
    views = make_toy(n_samples=samples, sizes=(2, 2))[0]
    assert ACOVA(3)._prepare(views, None).jobs[0].settings.neighbor_weight == pytest.approx(weight)
    assert ACOVA(3, recipe="paper")._prepare(views, None).jobs[0].settings.neighbor_weight == 0


def test_views_of_zeros_and_ones_are_bernoulli_unless_told_otherwise(toy):
    rng = np.random.default_rng(0)
    views = [(rng.random((60, 5)) < 0.4).astype(float), rng.random((60, 4)), rng.normal(size=(60, 3))]
    views[1] *= [1.0, 0.1, 0.01, 0.2]  # in [0, 1], but every feature on a scale of its own
    for given, expected in (
        ({}, ("bernoulli", "gaussian", "gaussian")),
        ({"likelihood": "gaussian"}, ("gaussian",) * 3),
        ({"recipe": "paper"}, ("gaussian",) * 3),
        ({"likelihood": ["auto", "laplace", "auto"]}, ("bernoulli", "laplace", "gaussian")),
    ):
        job = ACOVA.from_settings(3, **{**QUICK, **given})._prepare(views, None).jobs[0]
        assert job.likelihoods == expected
    scaling = ACOVA.from_settings(3, **QUICK).fit(views)._scaling
    np.testing.assert_array_equal(scaling.scales[0], 1)
    np.testing.assert_array_equal(scaling.centers[0], 0)


@pytest.mark.parametrize(("samples", "rate"), [(3000, 0.001), (3001, 0.002)])
def test_few_samples_are_learned_slowly(samples, rate):
    views = make_toy(n_samples=samples, sizes=(2, 2))[0]
    for given, expected in (({}, rate), ({"learning_rate": 0.004}, 0.004), ({"recipe": "paper"}, 0.001)):
        assert ACOVA.from_settings(3, **given)._prepare(views, None).jobs[0].settings.learning_rate == expected


def test_with_many_samples_there_are_fewer_epochs():
    """Sixteen times the samples that need all epochs: half of them."""
    views = make_toy(n_samples=32_000, sizes=(2, 2))[0]
    prepared = ACOVA.from_settings(3, neighbor_weight=0.0, epochs=7)._prepare(views, None).jobs[0].settings
    assert (prepared.pretrain_epochs, prepared.warmup_epochs, prepared.epochs) == (50, 50, 7)
    paper = ACOVA(3, recipe="paper")._prepare(views, None).jobs[0].settings
    assert (paper.pretrain_epochs, paper.warmup_epochs, paper.epochs) == (200, 0, 300)


def test_widths_chosen_by_size_are_saved_with_the_model(toy, tmp_path):
    given = {**QUICK, "hidden": "auto", "pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 1}
    model = ACOVA.from_settings(3, **given).fit(toy[0])
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict(toy[0]), model.labels_)
    assert loaded.score(toy[0]) == model.score(toy[0])  # the weights of the views came along


def make_documents(seed=0, n=240, size=600, n_topics=4):
    """Two views that count words: in each a topic has its own words, and documents are long or short."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, n_topics, n)
    views = []
    for _ in range(2):
        topical, common = rng.dirichlet(np.full(size, 0.1), n_topics)[topic], rng.dirichlet(np.full(size, 0.1))
        views.append(rng.poisson((5 + rng.gamma(1.0, 40.0, (n, 1))) * (0.7 * topical + 0.3 * common)).astype(float))
    return Views.of(views, make_observed(n, 2, 0.5, random_state=seed)), topic


def test_counts_of_words_are_compared_by_direction_and_a_loaded_model_does_the_same(tmp_path):
    views, topic = make_documents()
    given = {"hidden": (32, 32), "pretrain_epochs": 20, "warmup_epochs": 40, "epochs": 20, "random_state": 0}
    models = {kind: ACOVA.from_settings(4, **given, standardize=kind, device="cpu").fit(views) for kind in (None, True)}
    accuracy = {kind: clustering_accuracy(topic, model.labels_) for kind, model in models.items()}
    assert accuracy[None] > 0.8
    assert accuracy[True] < 0.6  # one by one, rare words weigh as much as telling ones
    model = models[None]
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(loaded.predict_proba(views), model.predict_proba(views))
    longer = Views.of([3 * array for array in views.arrays], views.observed)
    np.testing.assert_allclose(loaded.transform(longer), model.latent_, atol=1e-4)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("balance", [0.0, 0.5, 1.0])
def test_balance_counts_errors_in_units_of_variance_and_tempers_widths(toy, balance, standardize):
    """Predicting a view's mean costs width^(1 - balance), and all views together what they cost without weights."""
    views = Views.of([array * scale for array, scale in zip(toy[0].arrays, (1, 30, 0.1), strict=True)])
    settings = {**QUICK, "balance": balance, "standardize": standardize, "reconstruction_scale": False}
    job = ACOVA.from_settings(3, view_weights="equal", **settings)._prepare(views, None).jobs[0]
    costs = []
    for v, view in enumerate(job.data.views):
        rows = view[job.data.observed[:, v]]
        costs.append(float((rows - rows.mean(0)).square().sum(1).mean()))
    weighed = np.array(costs) * job.network().reconstruction_weights.numpy()
    expected = np.array(views.sizes) ** (1 - balance)
    np.testing.assert_allclose(weighed / weighed.sum(), expected / expected.sum(), rtol=1e-4)
    np.testing.assert_allclose(weighed.sum(), sum(costs), rtol=1e-4)
    plain = (
        ACOVA.from_settings(3, view_weights="equal", **{**settings, "balance": False})
        ._prepare(views, None)
        .jobs[0]
        .network()
    )
    torch.testing.assert_close(plain.reconstruction_weights, torch.ones(3))


@pytest.mark.parametrize("balance", [False, 0.5, 1.0])
def test_reconstruction_by_the_means_costs_what_the_scale_says(balance):
    """Whatever the views' widths, units and likelihoods; the network's own loss is asked, with outputs at the means."""
    rng = np.random.default_rng(0)
    views = [40 * rng.normal(size=(400, 3)), (rng.random((400, 6)) < 0.2).astype(float), rng.normal(size=(400, 50))]
    likelihoods = ("gaussian", "bernoulli", "laplace")
    given = {**QUICK, "likelihood": list(likelihoods), "balance": balance, "reconstruction_scale": 70.0}
    job = ACOVA.from_settings(3, view_weights="equal", **given)._prepare(views, None).jobs[0]
    outputs = [view.mean(0).expand_as(view) for view in job.data.views]
    outputs[1] = torch.logit(outputs[1])
    weights = job.network().reconstruction_weights
    costs = [
        float(reconstruction(view, output, torch.ones(400, dtype=torch.bool), likelihood).mean())
        for view, output, likelihood in zip(job.data.views, outputs, likelihoods, strict=True)
    ]
    parts = np.array(costs) * weights.numpy()
    assert parts.sum() == pytest.approx(70, rel=0.01)  # the Laplace view is normal only in the limit
    expected = np.array(costs) if balance is False else np.array([3, 6, 50]) ** (1 - balance)
    np.testing.assert_allclose(parts / parts.sum(), expected / expected.sum(), rtol=0.02)


@pytest.mark.parametrize("balance", [0.5, 1.0])
def test_bernoulli_views_share_one_unit(balance):
    """Wide views weigh less, pale ones do not weigh more: nats are nats."""
    rng = np.random.default_rng(0)
    lit = [(rng.random((400, width)) < share).astype(float) for width, share in ((4, 0.5), (64, 0.02), (64, 0.4))]
    given = {**QUICK, "balance": balance, "reconstruction_scale": 70.0}
    job = ACOVA.from_settings(3, view_weights="equal", **given)._prepare(lit, None).jobs[0]
    assert set(job.likelihoods) == {"bernoulli"}
    weights = job.network().reconstruction_weights.numpy()
    np.testing.assert_allclose(weights / weights[0], [1, 16**-balance, 16**-balance], rtol=1e-5)
    means = [np.clip(view.mean(0), 1e-9, 1 - 1e-9) for view in lit]
    costs = [-np.mean(v * np.log(m) + (1 - v) * np.log1p(-m), axis=0).sum() for v, m in zip(lit, means, strict=True)]
    assert np.dot(weights, costs) == pytest.approx(70, rel=1e-4)


def test_narrow_views_do_not_collapse():
    """Without a scale of its own, alignment outweighs what two columns have to tell, and all probabilities are 1/K."""
    views, labels = make_toy(sizes=(2, 2, 2), missing=0.3)
    settings = {**SMALL, "warmup_epochs": 30, "epochs": 30}
    model = ACOVA.from_settings(3, **settings).fit(views)
    lost = ACOVA.from_settings(3, **settings, reconstruction_scale=False).fit(views)
    assert clustering_accuracy(labels, model.labels_) > 0.9
    assert model.probabilities_.max(axis=1).mean() > 0.9 > lost.probabilities_.max(axis=1).mean()


def test_a_constant_view_is_not_blown_up(toy):
    arrays = [*toy[0].arrays[:2], np.full((240, 2), 7.0)]
    weights = (
        ACOVA.from_settings(3, view_weights="equal", **QUICK)
        ._prepare(arrays, None)
        .jobs[0]
        .network()
        .reconstruction_weights
    )
    assert weights[2] == 1.0
    assert torch.isfinite(weights).all()


def test_neighbours_share_what_is_decoded(toy):
    """The loss is (1 - w) of the sample's own error and w of the mean error against each neighbour, but a constant."""
    weight = 0.3
    plain = ACOVA.from_settings(3, view_weights="equal", **QUICK, neighbor_weight=0.0)._prepare(toy[0], None).jobs[0]
    job = ACOVA.from_settings(3, view_weights="equal", **QUICK, neighbor_weight=weight)._prepare(toy[0], None).jobs[0]
    batch = job.data.batch()
    variances = [variance.sum() for _, variance in scaled_moments(toy[0], Scaling.fit(toy[0], ("zscore",) * 3))]
    means = neighbour_means(batch.views, batch.observed, variances, 10)
    network, noise = job.network(), torch.randn(len(toy[0]), 2, 4)

    def loss(samples, fill):
        return network.loss(samples, noise, fill_weight=fill)["reconstruction"]

    blended, own = loss(batch, weight), loss(plain.data.batch(), 0.0)
    theirs = loss(batch._replace(targets=means), 1.0)
    gaps = [
        (view - mean).square().sum(1) * seen * factor
        for view, mean, seen, factor in zip(
            batch.views, means, batch.observed.unbind(1), network.reconstruction_weights, strict=True
        )
    ]
    expected = (1 - weight) * own + weight * theirs - weight * (1 - weight) * torch.stack(gaps).sum(0)
    torch.testing.assert_close(blended, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "ingredient",
    [{"cluster_start": "codes"}, {"neighbor_weight": 0.0}, {"assignment": "exact"}, {"balance": False}],
    ids=str,
)
def test_each_ingredient_alone_finds_separated_clusters(toy, ingredient):
    views, labels = toy
    settings = {**SMALL, "reconstruction_scale": False}  # assignments are less than certain, and differ
    found = ACOVA.from_settings(3, **settings, **ingredient).fit(views)
    assert clustering_accuracy(labels, found.labels_) > 0.9
    plain = ACOVA.from_settings(3, **settings).fit(views)
    assert not np.array_equal(plain.transform(views), found.transform(views))


def test_the_neighbours_clusters_are_carried_to_the_latent_space(toy):
    views = toy[0]
    model = ACOVA.from_settings(3, **{**SMALL, "epochs": 0}, cluster_start="neighbors", neighbor_weight=0.0).fit(views)
    holes = np.hstack([np.where(views.observed[:, [v]], array, np.nan) for v, array in enumerate(views.arrays)])
    scaled = StandardScaler().fit_transform(holes) / np.sqrt(np.repeat(views.sizes, views.sizes))
    filled = KNNImputer(n_neighbors=10).fit_transform(scaled)
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
    clean = ACOVA.from_settings(3, **given).fit(views)
    model = ACOVA.from_settings(3, **given).fit(dict(zip(views.names, dirty, strict=True)), observed=views.observed)
    np.testing.assert_array_equal(model.probabilities_, clean.probabilities_)


def test_bad_settings_are_refused(toy, tmp_path):
    for given, words in (
        ({"recipe": "best"}, "recipe must be 'paper', 'robust', 'shared'; got 'best'"),
        ({"cluster_start": "middle"}, "cluster_start must be .*; got 'middle'"),
        ({"assignment": "hard"}, "assignment must be .*; got 'hard'"),
        ({"neighbor_weight": -1}, "neighbor_weight must be a number at least 0 and at most 1; got -1"),
        ({"neighbor_weight": 2}, "neighbor_weight must be a number at least 0 and at most 1; got 2"),
        ({"neighbor_weight": "some"}, "neighbor_weight must be 'auto' or a number from 0 to 1; got 'some'"),
        ({"reconstruction_scale": 0}, "reconstruction_scale must be a number above 0"),
        ({"balance": 1.5}, "balance must be a number at least 0 and at most 1; got 1.5"),
        ({"hidden": "large"}, "hidden must be 'auto' or widths of layers"),
        ({"hidden": 128}, "hidden must be 'auto' or widths of layers"),
        ({"n_neighbors": 0}, "n_neighbors"),
    ):
        with pytest.raises(OptionError, match=words):
            ACOVA.from_settings(3, **{**QUICK, **given}).fit(toy[0])


def test_neighbours_need_views_in_memory(tmp_path, monkeypatch):
    from acova.estimators import _base as base

    monkeypatch.setattr(base, "_IN_MEMORY", 0)
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", rng.normal(size=(50, 4)).astype("f4"))
    with pytest.raises(OptionError, match="neighbours are searched in memory"):
        ACOVA.from_settings(3, **QUICK, neighbor_weight=0.5).fit(StoredViews.of(tmp_path))
    ACOVA.from_settings(3, **QUICK).fit(StoredViews.of(tmp_path))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # guards that act too often ruin a fit
def test_history_tells_how_often_guards_acted(toy):
    calm = ACOVA.from_settings(3, **SMALL).fit(toy[0]).history_
    assert (calm["clipped"].dropna() == 0).all()
    assert (calm["floored"].dropna() == 0).all()
    assert (calm.loc[calm["phase"] == "train", "empty_clusters"] == 0).all()
    tight = ACOVA.from_settings(3, **SMALL, clip_norm=1e-3, min_std=1e4).fit(toy[0]).history_
    train = tight[tight["phase"] == "train"]
    assert (train["clipped"] == 8).all()  # every step: 240 samples in batches of 32
    seen = toy[0].observed.sum() / 240
    np.testing.assert_allclose(train["floored"], 4 * seen, rtol=1e-6)  # every view's four standard deviations
    crowded = ACOVA.from_settings(60, **{**SMALL, "epochs": 3}, prior_learning_rate=5.0).fit(toy[0])
    last = crowded.history_["empty_clusters"].iloc[-1]
    assert 0 < last <= 60 - len(np.unique(crowded.labels_)) + 20
