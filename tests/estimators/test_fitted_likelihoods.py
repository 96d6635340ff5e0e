"""Fits of views of every kind: what they find, what they save, and what they refuse."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import stats

from acova import ACOVA, MVP, Views
from acova.base import DataError, OptionError, Streams
from acova.data import Scaling, StoredViews
from acova.engine import Runs
from acova.engine.data import fill_noise
from acova.functional import Batch
from acova.metrics import clustering_accuracy
from acova.networks import MultiViewVAE
from acova.networks.likelihoods import LIKELIHOODS
from acova.training.inference import batch_of
from conftest import SMALL

N = 90
CHOSEN = {
    "rna": "negative_binomial",
    "peaks": "zero_inflated_negative_binomial",
    "visits": "poisson",
    "clinic": "categorical",
    "methylation": "beta",
    "lab": "student_t",
    "protein": "gaussian_learned",
}


def messy(seed=0):
    """Return a frame of every kind, each without a seventh of the samples, and the clusters."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N) % 3
    rates = np.exp(rng.normal(0, 1, (3, 8)))[labels] * rng.uniform(3, 30, (N, 1))
    share = 1 / (1 + np.exp(-rng.normal(0, 2, (3, 6))))[labels]
    cells = {
        "rna": rng.negative_binomial(3, 3 / (3 + rates)),
        "peaks": rng.negative_binomial(3, 3 / (3 + rates)) * (rng.random((N, 8)) < 0.8),
        "visits": rng.poisson(rates),
        "clinic": np.array([["a", "b", "c"][k] for k in labels])[:, None].repeat(2, 1),
        "methylation": rng.beta(20 * share, 20 * (1 - share)),
        "lab": rng.normal(0, 3, (3, 5))[labels] + rng.standard_t(4, (N, 5)),
        "protein": rng.normal(0, 3, (3, 5))[labels] + rng.normal(size=(N, 5)),
    }
    cells["clinic"][::9, 0] = "c"
    frames = {
        name: pd.DataFrame(values, columns=[f"c{j}" for j in range(values.shape[1])]) for name, values in cells.items()
    }
    frames["clinic"].loc[1::20, "c0"] = None
    return {name: frame[np.arange(N) % 7 != v] for v, (name, frame) in enumerate(frames.items())}, labels


@pytest.fixture(scope="module")
def data():
    return messy()


@pytest.fixture(scope="module")
def model(data):
    settings = {**SMALL, "epochs": 40, "neighbor_weight": 0.5}
    return ACOVA.from_settings(3, **settings, likelihood=CHOSEN).fit(data[0])


def ordered(model, labels):
    return labels[np.asarray(model.index_)]


def test_views_of_every_kind_are_clustered_together(data, model):
    assert clustering_accuracy(ordered(model, data[1]), model.labels_) > 0.95
    assert model.likelihoods_ == CHOSEN
    assert np.isfinite(model.history_["total"]).all()


def test_a_saved_model_predicts_and_scores_the_same(data, model, tmp_path):
    model.save(tmp_path / "run")
    loaded = ACOVA.load(tmp_path / "run", device="cpu")
    assert loaded.likelihoods_ == CHOSEN
    some = {name: frame[frame.index < N // 2] for name, frame in data[0].items()}
    np.testing.assert_array_equal(loaded.predict_proba(some), model.predict_proba(some))
    assert loaded.score(some) == model.score(some)
    for density, other in zip(model.network_.view_likelihoods, loaded.network_.view_likelihoods, strict=True):
        for name, value in density.state_dict().items():
            torch.testing.assert_close(other.state_dict()[name], value, rtol=0, atol=0)
    assert [density.blocks for density in loaded.network_.view_likelihoods][3] == (3, 3)


def test_score_is_the_evidence_bound_with_scipys_densities(data, model):
    """Counts enter as they are, with the row's sum; the rest as in the bound of the Gaussian model."""
    counts = data[0]["rna"]
    views = Views.of({"rna": counts}).matched_to(model.view_names_, model.view_sizes_, model._columns)
    network = model.network_
    batch = batch_of(views, model._scaling, torch.device("cpu"))
    fused = network.posterior(batch.views, batch.observed)
    density = network.view_likelihoods[0]
    bounds = []
    for draw in range(4):
        noise = torch.empty(len(counts), *network.noise_shape)
        fill_noise(noise, [(0, len(counts))], Streams(model.seed_).child("score"), draw)
        latent = fused.mean + fused.variance.sqrt() * noise[:, 0]
        output = network.decode([latent] * len(CHOSEN), batch.observed)[0]
        shares = (output + density.baseline).double().softmax(-1).numpy()
        mean, size = counts.to_numpy().sum(1, keepdims=True) * shares, density.log_dispersion.exp().double().numpy()
        likelihood = stats.nbinom.logpmf(counts, size, size / (size + mean)).sum(1)
        targets = [torch.from_numpy(np.nan_to_num(views.arrays[0])).float(), *network._cells(batch.views)[0][1:]]
        parts, _ = network._objective(batch._replace(targets=targets), noise, batch.observed.float())
        bounds.append((likelihood - (parts.kl_z + parts.kl_c).numpy()).mean())
    assert model.score({"rna": counts}) == pytest.approx(np.mean(bounds), rel=1e-4)


def test_spreads_are_those_of_the_samples_around_what_is_decoded(data, model):
    """Normal variances have a closed form; the others are where the sum of the errors is least."""
    network, views = model.network_, Views.of(data[0])
    batch = batch_of(views, model._scaling, torch.device("cpu"), tuple(CHOSEN.values()))
    latent = network.posterior(batch.views, batch.observed).mean
    outputs = network.decode([latent] * len(CHOSEN), batch.observed)
    for v, density in enumerate(network.view_likelihoods):
        if not density.has_spread:
            continue
        seen, free = batch.observed[:, v], density.spread
        output, target = outputs[v][seen].double(), batch.decoded[v][seen].double()
        if density.name == "gaussian_learned":
            variance = (output - target).square().mean(0)
            torch.testing.assert_close(density.log_variance.exp().double(), variance, rtol=1e-3, atol=1e-3)
        near = []
        for step in (-0.05, 0.0, 0.05):
            density.spread = free + step
            near.append((density.log_constant(target) - density.error(output, target)).sum(0))
        density.spread = free
        assert (near[1] >= torch.maximum(near[0], near[2]) - 1e-3).all()


def test_dispersion_and_means_of_made_counts_are_found():
    """One cluster of counts with dispersion 2, so that the decoder has nothing else to explain."""
    rng = np.random.default_rng(3)
    mean = np.exp(rng.normal(1, 1, 20))
    totals = rng.uniform(0.5, 2, (400, 1))
    mean[9] = mean[0]  # no feature makes up most of a row's sum
    counts = rng.negative_binomial(2, 2 / (2 + mean * totals))
    settings = {**SMALL, "latent_dim": 1, "epochs": 5, "alpha": 0.0, "n_init": 1}
    model = ACOVA.from_settings(1, **settings, likelihood="negative_binomial", standardize="auto").fit(counts)
    density = model.network_.view_likelihoods[0]
    assert density.log_dispersion.exp().median().item() == pytest.approx(2.0, rel=0.2)
    expected = density.mean(torch.zeros(1, 20)).numpy()[0] / counts.sum(1).mean()
    np.testing.assert_allclose(expected, mean / mean.sum(), rtol=0.25, atol=0.002)


def test_runs_that_train_together_have_the_losses_of_each_alone():
    torch.manual_seed(0)
    networks = [
        MultiViewVAE(
            (4, 5, 3), 2, 2, hidden=(8,), alpha=1.0, correlation=torch.eye(3), blocks=[(), (3, 2), ()],
            likelihoods=("zero_inflated_negative_binomial", "categorical", "beta"),
            generator=torch.Generator().manual_seed(seed),
        )
        for seed in (0, 1)
    ]  # fmt: skip
    counts = torch.poisson(torch.full((6, 4), 3.0))
    shares = torch.rand(6, 3)
    hot = torch.cat([torch.eye(3)[torch.arange(6) % 3], torch.eye(2)[torch.arange(6) % 2]], 1)
    observed = torch.tensor([[True, True, True], [True, False, True], [False, True, True]]).repeat(2, 1)
    batch = Batch([counts.log1p(), hot, shares], observed, [counts, hot, shares])
    noise = torch.randn(6, *networks[0].noise_shape)
    for loss in (MultiViewVAE.loss, MultiViewVAE.autoencoding_loss):
        alone = [loss(network, batch, noise)["total"].detach() for network in networks]
        pair = lambda parts: [torch.stack([part, part]) for part in parts]  # noqa: E731
        both = Batch(pair(batch.views), torch.stack([observed] * 2), pair(batch.targets))
        together = Runs(networks).losses(loss, both, torch.stack([noise] * 2))["total"]
        torch.testing.assert_close(together.detach(), torch.stack(alone), rtol=1e-4, atol=1e-4)


def test_counts_are_scaled_by_their_rows_sum_and_logarithm():
    counts = np.random.default_rng(0).poisson(4.0, (30, 6)).astype(float)
    counts[3] = 0
    scaling = Scaling.fit(Views.of([counts]), ("counts",))
    sums = counts.sum(1, keepdims=True)
    logs = np.log1p(counts / np.where(sums > 0, sums, 1) * sums.mean())
    expected = (logs - logs.mean(0)) / logs.std(0)
    np.testing.assert_allclose(scaling.transform(Views.of([counts]))[0], expected, rtol=1e-5, atol=1e-5)
    with pytest.raises(DataError, match=r"view 'view_0' holds -4, but standardize='counts' takes the logarithm"):
        Scaling.fit(Views.of([-counts.clip(0, 4)]), ("counts",))


def test_what_suits_a_view_is_recognised_and_said(data):
    model = ACOVA.from_settings(3, **{**SMALL, "epochs": 1}, likelihood="suited").fit(data[0])
    suited = {"rna": "negative_binomial", "peaks": "negative_binomial", "visits": "negative_binomial"}
    suited |= {"clinic": "categorical", "methylation": "beta", "lab": "gaussian", "protein": "gaussian"}
    assert model.likelihoods_ == model.settings_["likelihood"] == suited


def test_auto_goes_on_taking_counts_for_measurements(data):
    frames = {name: data[0][name] for name in ("rna", "protein")}
    prepared = ACOVA.from_settings(3, **SMALL)._prepare(frames, None)
    assert set(prepared.jobs[0].likelihoods) == {"gaussian"}


@pytest.mark.parametrize("recipe", ["shared", "robust"])
def test_counts_are_decoded_to_counts_drawn_towards_those_of_neighbours(data, recipe):
    """Totals of the smoothed counts are between those of samples; without smoothing they are the counts."""
    frames = {name: data[0][name] for name in ("rna", "protein")}
    for weight in (0.0, 0.5):
        settings = {**SMALL, "recipe": recipe, "neighbor_weight": weight}
        model = ACOVA.from_settings(3, **settings, likelihood=["poisson", "gaussian"])
        prepared = model._prepare(frames, None)
        target, counts = prepared.jobs[0].data.targets[0].numpy(), prepared.views.arrays[0]
        seen = prepared.views.observed[:, 0]
        if weight:
            rest = 2 * target[seen] - counts[seen]
            assert rest.min() > -1e-3
            assert counts[seen].min(0).max() - 1e-3 <= rest.max() <= counts[seen].max() + 1e-3
            assert target[~seen].sum(1).min() > 0
        else:
            np.testing.assert_array_equal(target[seen], counts[seen])


def test_new_samples_must_be_counts(data, model):
    with pytest.raises(
        DataError, match=r"View 'rna', column 'c1' holds -3 in sample 1, but the model was fitted on counts"
    ):
        model.predict({"rna": data[0]["rna"].assign(c1=-3)})
    half = {"rna": data[0]["rna"] / 2}
    assert len(model.predict(half)) == len(half["rna"])


@pytest.mark.parametrize(
    ("view", "likelihood", "words"),
    [
        ("protein", "negative_binomial", "likelihood 'negative_binomial' needs counts, which are not negative"),
        ("methylation", "poisson", "column 'c0' has values that are no whole numbers"),
        ("rna", "beta", r"the beta likelihood needs shares in \[0, 1\]"),
        ("lab", "categorical", "view 'lab' has columns of numbers, but the categorical likelihood is for"),
    ],
)
def test_views_that_cannot_have_a_likelihood_are_named(data, view, likelihood, words):
    with pytest.raises(DataError, match=words):
        ACOVA.from_settings(3, **SMALL, likelihood=likelihood).fit({view: data[0][view]})


def test_counts_on_disk_or_as_a_start_are_refused(data, tmp_path):
    frame = data[0]["rna"]
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", frame.to_numpy(dtype=np.float32))
    settings = {**SMALL, "likelihood": "poisson", "neighbor_weight": 0.0, "cluster_start": "fused"}
    prepared = ACOVA.from_settings(3, **settings)
    prepared.empty_cells_ = {}
    prepared._views_to_fit = lambda X, observed: StoredViews.of(tmp_path)  # small ones are read into memory
    with pytest.raises(OptionError, match="needs its data in memory, but these views stay on disk"):
        prepared._prepare(None, None)
    with pytest.raises(OptionError, match="cluster_start='neighbors' compares what samples are decoded to"):
        ACOVA.from_settings(3, **settings | {"cluster_start": "neighbors"}).fit({"rna": frame})


def test_methods_say_which_likelihoods_they_have(data):
    with pytest.raises(OptionError, match="likelihood must be 'gaussian', 'bernoulli', 'laplace', 'auto'; got 'beta'"):
        MVP(3, likelihood="beta").fit({name: data[0][name] for name in ("lab", "protein")})
    assert set(ACOVA.method.requirements.likelihoods) == set(LIKELIHOODS)
