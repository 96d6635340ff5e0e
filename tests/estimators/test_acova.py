import math

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from torch.distributions import Bernoulli, Categorical, Laplace, Normal, kl_divergence

from acova import ACOVA, Views
from acova.base import DataError, OptionError, Streams, TrainingError
from acova.data import make_observed, stack_views
from acova.engine.data import fill_noise
from acova.estimators import PRESETS
from acova.functional import correlation_matrix, distance_to_identity
from acova.metrics import clustering_accuracy
from acova.training.inference import batch_of
from conftest import SMALL, make_toy


def frames_of(views: Views) -> dict[str, pd.DataFrame]:
    """Frames that hold only the samples that have the view."""
    return {
        name: pd.DataFrame(
            views.arrays[v][views.observed[:, v]], index=[f"s{i}" for i in np.flatnonzero(views.observed[:, v])]
        )
        for v, name in enumerate(views.names)
    }


def test_finds_separated_clusters_though_half_the_samples_lack_views(toy, fitted):
    assert clustering_accuracy(toy[1], fitted.labels_) > 0.95


def test_learned_attributes_have_their_shapes_and_meaning(toy, fitted):
    views, _ = toy
    n, n_views = views.observed.shape
    assert fitted.labels_.shape == (n,)
    assert fitted.n_features_in_ == sum(views.sizes)
    assert fitted.view_names_ == ["image", "text", "sound"]
    assert fitted.n_iter_ == SMALL["epochs"]
    assert fitted.weights_.sum() == pytest.approx(1)
    assert fitted.means_.shape == fitted.variances_.shape == (3, SMALL["latent_dim"])
    assert (fitted.variances_ > 0).all()
    np.testing.assert_allclose(np.diag(fitted.correlation_), 1)
    assert np.linalg.eigvalsh(fitted.correlation_).min() > 0
    np.testing.assert_allclose(fitted.probabilities_.sum(1), 1, atol=1e-5)
    np.testing.assert_array_equal(fitted.probabilities_.argmax(1), fitted.labels_)
    np.testing.assert_allclose(fitted.view_weights_.sum(1), 1, atol=1e-4)
    assert (fitted.view_weights_[~views.observed] == 0).all()
    assert fitted.view_weights_.shape == (n, n_views)


def test_history_has_every_part_of_every_epoch(fitted):
    history = fitted.history_
    assert history["phase"].value_counts(sort=False).to_dict() == {"pretrain": 5, "warmup": 10, "train": 10}
    training = history[history["phase"] == "train"]
    parts = training[["reconstruction", "kl_z", "kl_c", "alignment"]]
    assert np.isfinite(parts.to_numpy()).all()
    expected = parts["reconstruction"] + parts["kl_z"] + parts["kl_c"] + fitted.alpha * parts["alignment"]
    np.testing.assert_allclose(training["total"], expected, rtol=1e-5)
    bound = math.sqrt(3 * 2)
    assert training["correlation_distance"].between(0, bound).all()
    last = distance_to_identity(torch.from_numpy(fitted.correlation_)).item()
    assert training["correlation_distance"].iloc[-1] == pytest.approx(last)
    assert training["total"].iloc[-1] < training["total"].iloc[0]


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(toy, fitted):
    views, _ = toy
    again = ACOVA.from_settings(3, **SMALL).fit(views)
    np.testing.assert_array_equal(again.probabilities_, fitted.probabilities_)
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_array_equal(again.correlation_, fitted.correlation_)
    other = ACOVA.from_settings(3, **{**SMALL, "random_state": 1}).fit(views)
    assert not np.array_equal(other.probabilities_, fitted.probabilities_)


def test_global_random_states_are_neither_used_nor_changed(toy, fitted):
    torch.manual_seed(123)
    before = torch.random.get_rng_state()
    again = ACOVA.from_settings(3, **SMALL).fit(toy[0])
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(again.probabilities_, fitted.probabilities_)


def test_a_progress_bar_changes_nothing(toy, fitted, capsys):
    shown = ACOVA.from_settings(3, **SMALL, verbose=True).fit(toy[0])
    np.testing.assert_array_equal(shown.probabilities_, fitted.probabilities_)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "loss" in captured.err


def test_fitting_prints_and_leaves_nothing(toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ACOVA.from_settings(3, **SMALL).fit(toy[0])
    assert list(tmp_path.iterdir()) == []
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("junk", [1e6, np.nan, np.inf])
def test_hidden_cells_change_nothing_bit_for_bit(toy, fitted, junk):
    views, _ = toy
    dirty = [np.where(views.observed[:, [v]], array, junk) for v, array in enumerate(views.arrays)]
    model = ACOVA.from_settings(3, **SMALL).fit(dict(zip(views.names, dirty, strict=True)), observed=views.observed)
    np.testing.assert_array_equal(model.probabilities_, fitted.probabilities_)
    np.testing.assert_array_equal(model.view_weights_, fitted.view_weights_)
    prediction = model.predict_proba(dict(zip(views.names, dirty, strict=True)), observed=views.observed)
    np.testing.assert_array_equal(prediction, fitted.predict_proba(views))


def test_hidden_blocks_of_one_table_may_hold_anything(toy, fitted):
    table, sizes = stack_views(toy[0])
    dirty = np.where(np.isnan(table), np.inf, table)
    model = ACOVA.from_settings(3, **SMALL, view_sizes=sizes).fit(dirty, observed=toy[0].observed)
    np.testing.assert_array_equal(model.probabilities_, fitted.probabilities_)


def test_a_failed_fit_is_no_fit(toy):
    model = ACOVA.from_settings(3, **SMALL, likelihood="bernoulli")
    with pytest.raises(DataError, match="Bernoulli"):
        model.fit(toy[0])
    with pytest.raises(ValueError, match="not fitted yet"):
        model.predict(toy[0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # noise holds no clusters
def test_a_bernoulli_view_of_any_bounds_is_brought_to_the_unit_interval():
    rng = np.random.default_rng(0)
    pixels = [rng.integers(0, 256, size=(60, 6)).astype(float) for _ in range(2)]
    for view in pixels:
        view[0, :2] = 0, 255
    settings = {**SMALL, "likelihood": "bernoulli"}
    model = ACOVA.from_settings(3, **settings, standardize="unit_view").fit(pixels)
    same = ACOVA.from_settings(3, **settings, standardize=False).fit([view / 255 for view in pixels])
    np.testing.assert_allclose(model.probabilities_, same.probabilities_, atol=1e-5)
    with pytest.raises(DataError, match=r"values from \d+ to 255.*standardize='unit_view'"):
        ACOVA.from_settings(3, **settings).fit(pixels)


def test_every_form_of_input_gives_the_same_model(toy, fitted):
    views, _ = toy
    table, sizes = stack_views(views)
    masked = dict(zip(views.names, (np.nan_to_num(a, nan=7.0) for a in views.arrays), strict=True))
    fits = [
        ACOVA.from_settings(3, **SMALL).fit(list(views.arrays)),
        ACOVA.from_settings(3, **SMALL).fit(dict(zip(views.names, views.arrays, strict=True))),
        ACOVA.from_settings(3, **SMALL).fit(masked, observed=views.observed),
        ACOVA.from_settings(3, **SMALL, view_sizes=sizes).fit(table),
        ACOVA.from_settings(3, **SMALL, view_sizes=sizes).fit(pd.DataFrame(table)),
    ]
    for model in fits:
        np.testing.assert_array_equal(model.probabilities_, fitted.probabilities_)
    assert fits[0].view_names_ == ["view_0", "view_1", "view_2"]


def test_shuffled_frames_give_the_same_label_to_the_same_index(toy):
    frames = frames_of(toy[0])
    plain = ACOVA.from_settings(3, **SMALL).fit(frames)
    shuffled = {name: frame.sample(frac=1, random_state=v) for v, (name, frame) in enumerate(frames.items())}
    model = ACOVA.from_settings(3, **SMALL).fit(shuffled)
    assert list(model.index_) != list(plain.index_)
    pd.testing.assert_frame_equal(model.assignments().loc[plain.index_], plain.assignments())
    predicted = plain.assignments(shuffled).loc[plain.index_, "label"]
    np.testing.assert_array_equal(predicted, plain.labels_)


def test_labels_follow_the_order_of_the_frames(toy):
    views, labels = toy
    frames = frames_of(views)
    model = ACOVA.from_settings(3, **SMALL).fit(frames)
    truth = labels[[int(name[1:]) for name in model.index_]]
    assert list(model.index_[: len(frames["image"])]) == list(frames["image"].index)
    assert clustering_accuracy(truth, model.labels_) > 0.95


def test_swapping_the_views_swaps_the_correlation_start_and_keeps_the_clusters(toy):
    views, labels = toy
    order = [2, 0, 1]
    swapped = {views.names[v]: views.arrays[v] for v in order}
    model = ACOVA.from_settings(3, **SMALL).fit(swapped)
    assert model.view_names_ == [views.names[v] for v in order]
    assert clustering_accuracy(labels, model.labels_) > 0.95
    straight = dict(zip(views.names, views.arrays, strict=True))
    np.testing.assert_array_equal(model.predict_proba(straight), model.predict_proba(swapped))


def test_predictions_repeat_exactly_and_agree_with_each_other(toy, fitted):
    views, _ = toy
    first, second = fitted.predict_proba(views), fitted.predict_proba(views)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(fitted.predict(views), first.argmax(1))
    np.testing.assert_array_equal(first, fitted.probabilities_)
    np.testing.assert_array_equal(fitted.labels_, fitted.predict(views))
    assert fitted.score(views) == fitted.score(views)


@pytest.mark.parametrize("names", [["image"], ["sound"], ["sound", "image"], ["text", "image", "sound"]])
def test_new_samples_may_have_any_subset_of_views(fitted, names):
    views, labels = make_toy(missing=0.0)
    some = {name: views.arrays[views.names.index(name)] for name in names}
    assert clustering_accuracy(labels, fitted.predict(some)) > 0.95
    np.testing.assert_allclose(fitted.fusion_weights(some).sum(1), 1, atol=1e-4)
    as_list = [some.get(name) for name in views.names]
    renamed = ACOVA.from_settings(3, **SMALL).fit(list(views.arrays))
    assert clustering_accuracy(labels, renamed.predict(as_list)) > 0.95


def test_prediction_in_chunks_is_the_same(toy, fitted, monkeypatch):
    views, _ = toy
    whole = fitted.transform(views)
    monkeypatch.setattr("acova.training.inference.CHUNK", 37)
    np.testing.assert_allclose(fitted.transform(views), whole, rtol=1e-4, atol=1e-5)


def test_no_complete_sample_at_all_works():
    views, labels = make_toy(missing=0.0)
    observed = make_observed(len(views), 3, 1.0, random_state=0)
    assert not observed.all(axis=1).any()
    for recipe in ({}, {"recipe": "paper", "warmup_epochs": 0}):
        model = ACOVA.from_settings(3, **{**SMALL, "epochs": 20, **recipe}).fit(views, observed=observed)
        assert clustering_accuracy(labels, model.labels_) > 0.8


def test_single_view_and_complete_data_work(toy):
    views, labels = make_toy(missing=0.0)
    assert clustering_accuracy(labels, ACOVA.from_settings(3, **SMALL).fit_predict(views)) > 0.95
    single = ACOVA.from_settings(3, **SMALL).fit(views.arrays[1])
    assert clustering_accuracy(labels, single.labels_) > 0.95
    assert single.correlation_.tolist() == [[1.0]]


def test_one_cluster_is_allowed(toy):
    model = ACOVA.from_settings(1, **SMALL).fit(toy[0])
    assert (model.labels_ == 0).all()


@pytest.mark.parametrize("likelihood", ["gaussian", "laplace", "bernoulli"])
@pytest.mark.parametrize("assignment", ["draw", "exact"])
def test_score_is_the_evidence_bound_of_the_stated_model(likelihood, assignment):
    """Rebuilt with torch's own distributions from what the network encodes and decodes, with the documented draws."""
    views, _ = make_toy(n_samples=60)
    arrays = [(a > 0).astype(float) if likelihood == "bernoulli" else a for a in views.arrays]
    settings = {**SMALL, "likelihood": likelihood, "assignment": assignment, "reconstruction_scale": 50.0}
    model = ACOVA.from_settings(3, **settings).fit(arrays, observed=views.observed)
    network = model.network_
    assert (network.reconstruction_weights != 1).all()
    scaled, observed, *_ = batch_of(Views.of(arrays, views.observed), model._scaling, torch.device("cpu"))
    fused = network.posterior(scaled, observed)
    posterior = Normal(fused.mean.unsqueeze(1), fused.variance.sqrt().unsqueeze(1))
    log_weights, means, variances = network.prior()
    to_clusters = kl_divergence(posterior, Normal(means, variances.sqrt())).sum(-1)
    bounds = []
    for draw in range(4):
        noise = torch.empty(60, 2, SMALL["latent_dim"])
        fill_noise(noise, [(0, 60)], Streams(model.seed_).child("score"), draw)
        decoded, assigned = (fused.mean + fused.variance.sqrt() * noise[:, n] for n in (0, 1))
        joint = log_weights + Normal(means, variances.sqrt()).log_prob(assigned.unsqueeze(1)).sum(-1)
        assignments = Categorical(logits=joint if assignment == "draw" else log_weights - to_clusters)
        bound = -(assignments.probs * to_clusters).sum(-1) - kl_divergence(assignments, Categorical(logits=log_weights))
        for v, output in enumerate(network.decode([decoded] * 3, observed)):
            family = {
                "gaussian": Normal(output, 0.5**0.5),
                "laplace": Laplace(output, torch.ones(())),
                "bernoulli": Bernoulli(logits=output),
            }[likelihood]
            bound += torch.where(observed[:, v], family.log_prob(scaled[v]).sum(-1), 0.0)
        bounds.append(bound.mean().item())
    assert model.score(arrays, observed=views.observed) == pytest.approx(np.mean(bounds), rel=1e-4)


def test_score_falls_when_the_data_move_away(toy, fitted):
    views, _ = toy
    worse = Views.of({n: a + 5 for n, a in zip(views.names, views.arrays, strict=True)})
    assert fitted.score(worse) < fitted.score(views)


def test_more_runs_keep_the_one_with_the_lowest_objective(toy, fitted):
    views, _ = toy
    model = ACOVA.from_settings(3, **SMALL | {"n_init": 3}).fit(views)
    assert model.objectives_.shape == (3,)
    assert model.objective_ == model.objectives_.min()
    assert model.objectives_[0] == fitted.objective_
    assert len(set(model.objectives_)) == 3


@pytest.mark.parametrize("neighbor_weight", [0.0, 0.5])
def test_runs_are_chosen_by_what_was_trained(toy, neighbor_weight):
    """The objective of the last epoch's kind: with neighbours' targets, filled views and the views' weights."""
    model = ACOVA.from_settings(3, **SMALL, neighbor_weight=neighbor_weight).fit(toy[0])
    job = model._prepare(toy[0], None).jobs[0]
    assert (len(job.data.targets) > 0) == (neighbor_weight > 0)
    values = []
    for draw in range(4):
        noise = torch.empty(len(toy[0]), 2, SMALL["latent_dim"])
        fill_noise(noise, [(0, len(toy[0]))], Streams(model.seed_).child("score"), draw)
        values.append(model.network_.loss(job.data.batch(), noise, fill_weight=neighbor_weight**2)["total"])
    assert model.objective_ == pytest.approx(torch.stack(values).mean().item(), rel=1e-5)


def test_fixed_correlations_stay_as_given(toy):
    views, _ = toy
    matrix = correlation_matrix(torch.linspace(-1, 1, 6, dtype=torch.float64)).numpy()
    cases = {"identity": np.eye(3), 0.4: np.full((3, 3), 0.4) + 0.6 * np.eye(3)}
    for given, expected in [*cases.items(), (matrix, matrix)]:
        model = ACOVA.from_settings(3, **SMALL, correlation=given).fit(views)
        np.testing.assert_allclose(model.correlation_, expected)


@pytest.mark.parametrize("start", ["identity", 0.3, "random", "similarity", np.eye(2) * 0.5 + 0.5])
def test_correlation_starts_where_it_is_told(start):
    views, _ = make_toy(sizes=(8, 12))
    settings = {**SMALL, "warmup_epochs": 0, "epochs": 0}
    model = ACOVA.from_settings(3, **settings, correlation_start=start).fit(views)
    rho = model.correlation_[0, 1]
    if isinstance(start, str) and start == "random":
        noise = Streams(model.seed_).child("run", 0).numpy("correlation").standard_normal(3)
        expected = correlation_matrix(torch.from_numpy(np.abs(noise)))[0, 1].item()
    elif isinstance(start, str) and start == "similarity":
        with torch.no_grad():
            batch = batch_of(views, model._scaling, torch.device("cpu"))
            codes = model.network_.codes(batch.views, batch.observed).numpy()[views.complete]
        flat = codes.transpose(1, 0, 2).reshape(2, -1).astype(float)
        expected = 0.99 * flat[0] @ flat[1] / np.linalg.norm(flat[0]) / np.linalg.norm(flat[1])
    else:
        expected = {"identity": 0.0, 0.3: 0.3}.get(start, 0.5) if not isinstance(start, np.ndarray) else 0.5
    assert rho == pytest.approx(expected, abs=1e-6)


def test_weights_that_do_not_learn_stay_equal(toy):
    model = ACOVA.from_settings(3, **SMALL, weight_learning_rate=0).fit(toy[0])
    np.testing.assert_allclose(model.weights_, 1 / 3, rtol=1e-6)


def test_the_exact_missing_form_trains_too(toy):
    views, labels = toy
    model = ACOVA.from_settings(3, **SMALL, missing="marginal").fit(views)
    assert clustering_accuracy(labels, model.labels_) > 0.95


def test_likelihoods_can_differ_by_view():
    views, labels = make_toy()
    unit = {n: 1 / (1 + np.exp(-a / 4)) for n, a in zip(views.names, views.arrays, strict=True)}
    mixed = {**unit, "text": views.arrays[1]}
    choice = {"image": "bernoulli", "text": "gaussian", "sound": "bernoulli"}
    for likelihood in (choice, ["bernoulli", "gaussian", "bernoulli"]):
        model = ACOVA.from_settings(3, **{**SMALL, "epochs": 20}, likelihood=likelihood).fit(mixed)
        assert model.network_.likelihoods == ("bernoulli", "gaussian", "bernoulli")
        np.testing.assert_array_equal(model._scaling.scales[0], 1.0)
        assert not np.allclose(model._scaling.scales[1], 1.0)
        assert clustering_accuracy(labels, model.labels_) > 0.9


def test_presets_are_the_papers_table():
    model = ACOVA.preset("handwritten", epochs=7)
    assert (model.n_clusters, model.alpha) == (10, 15.0)
    assert (model.training.learning_rate, model.training.prior_learning_rate) == (3e-4, 1e-2)
    assert (model.epochs, model.recipe, model.hidden) == (7, "shared", None)
    table = {name: (ACOVA.preset(name).alpha, ACOVA.preset(name).latent_dim) for name in PRESETS}
    assert table == {
        "handwritten": (15, 10),
        "caltech5v": (5, 15),
        "scene15": (20, 10),
        "fashion": (20, 10),
        "noisymnist": (10, 10),
        "cub": (60, 10),
    }
    with pytest.raises(OptionError, match=r"dataset must be .* got 'scene'. Did you mean 'scene15'"):
        ACOVA.preset("scene")


def test_works_inside_a_pipeline_and_clones(toy):
    views, labels = toy
    table, sizes = stack_views(views)
    model = make_pipeline(FunctionTransformer(lambda x: 2 * x), ACOVA.from_settings(3, **SMALL, view_sizes=sizes))
    assert clustering_accuracy(labels, model.fit_predict(table)) > 0.95
    copy = clone(model[-1])
    assert copy.get_settings() == model[-1].get_settings()
    assert copy.training is not model[-1].training
    assert not hasattr(copy, "labels_")


def test_assignments_tell_label_probabilities_and_view_weights(toy, fitted):
    table = fitted.assignments()
    assert list(table.columns[:5]) == ["label", "confidence", "p_0", "p_1", "p_2"]
    assert list(table.columns[5:]) == ["weight_image", "weight_text", "weight_sound"]
    np.testing.assert_array_equal(table["confidence"], fitted.probabilities_.max(1))
    pd.testing.assert_frame_equal(fitted.assignments(toy[0]), table)


def test_latent_frame_output(toy):
    model = ACOVA.from_settings(3, **SMALL).set_output(transform="pandas").fit(toy[0])
    frame = model.transform(toy[0])
    assert list(frame.columns) == ["acova0", "acova1", "acova2", "acova3"]
    assert model.fit_transform(toy[0]).shape == (240, 4)


BAD_OPTIONS = [
    ({"n_clusters": 0}, "n_clusters must be an integer at least 1; got 0"),
    ({"latent_dim": 2.5}, "latent_dim must be an integer"),
    ({"epochs": -1}, "epochs must be an integer at least 0"),
    ({"learning_rate": 0}, "learning_rate must be a number above 0"),
    ({"alpha": -1.0}, "alpha must be a number at least 0"),
    ({"clip_norm": 0}, "clip_norm must be a number above 0"),
    ({"hidden": 500}, "hidden must be 'auto' or widths of layers"),
    ({"hidden": (500, 0)}, "hidden must be an integer at least 1"),
    ({"missing": "marginl"}, "Did you mean 'marginal'"),
    ({"correlation": "learnt"}, "correlation must be 'learned', 'low_rank', 'identity' or a number or a matrix"),
    ({"correlation": 1.0}, r"lies between -1/2 and 1 \(both excluded\)"),
    ({"correlation": -0.6}, "is no correlation matrix"),
    ({"correlation": np.ones((3, 3))}, "symmetric positive definite"),
    ({"correlation": np.eye(2)}, r"\(3, 3\) matrix with a unit diagonal"),
    ({"correlation": None}, "must be a word, a number or a"),
    ({"correlation_start": "randm"}, "Did you mean 'random'"),
    ({"likelihood": "normal"}, "likelihood must be 'gaussian', 'bernoulli'"),
    ({"likelihood": ["gaussian"]}, r"one entry per view \(3\); got 1"),
    ({"likelihood": {"image": "gaussian"}}, "must name every view once"),
    ({"standardize": "minmax"}, "'counts', 'range', 'cosine', 'auto', 'unit', 'unit_view', 'none' or True or False"),
    ({"device": "tpu0"}, "device must be 'auto'"),
]


@pytest.mark.parametrize(("option", "text"), BAD_OPTIONS, ids=[str(option) for option, _ in BAD_OPTIONS])
def test_a_bad_option_is_named_with_its_rule(toy, option, text):
    model = ACOVA.from_settings(**{"n_clusters": 3, **SMALL, **option})
    with pytest.raises(OptionError, match=text):
        model.fit(toy[0])


def test_bad_data_are_named_with_the_way_out(toy, fitted):
    views, _ = toy
    with pytest.raises(DataError, match=r"n_samples=2 is less than n_clusters=3; lower n_clusters"):
        ACOVA.from_settings(3, **SMALL).fit(views.take([0, 1]))
    with pytest.raises(DataError, match="view 'text' is observed for no sample"):
        ACOVA.from_settings(3, **SMALL).fit(make_toy(missing=0.0)[0], observed=np.tile([True, False, True], (240, 1)))
    with pytest.raises(
        DataError, match=r"view 'image', column \d+ has values from .* likelihood needs values in \[0, 1\]"
    ):
        ACOVA.from_settings(3, **SMALL, likelihood="bernoulli").fit(views)
    with pytest.raises(DataError, match=r"View 'sounds' was not there .* Did you mean 'sound'"):
        fitted.predict({"sounds": np.zeros((4, 5))})
    with pytest.raises(DataError, match="View 'image' has 9 columns but was fitted with 8"):
        fitted.predict({"image": np.zeros((4, 9))})
    with pytest.raises(DataError, match="no samples"):
        fitted.predict({"image": np.zeros((0, 8))})


def test_overflow_is_reported_not_returned(toy):
    views, _ = toy
    huge = {n: a * 1e25 for n, a in zip(views.names, views.arrays, strict=True)}
    with pytest.raises(TrainingError, match="standardize=True"):
        ACOVA.from_settings(3, **SMALL, standardize=False).fit(huge)
    ACOVA.from_settings(3, **SMALL).fit(huge)


def test_view_sizes_must_fit_the_data(toy):
    views, _ = toy
    table, sizes = stack_views(views)
    with pytest.raises(DataError, match=r"view_sizes=\(8, 12\) but the views have widths \(8, 12, 5\)"):
        ACOVA.from_settings(3, **SMALL, view_sizes=(8, 12)).fit(views)
    with pytest.raises(DataError, match=r"sums to 20 but the array has 25 columns"):
        ACOVA.from_settings(3, **SMALL, view_sizes=(8, 12)).fit(table)
    with pytest.raises(DataError, match=r"view_sizes must list the number of columns of each view.* got 25"):
        ACOVA.from_settings(3, **SMALL, view_sizes=25).fit(table)
    ACOVA.from_settings(3, **SMALL, view_sizes=sizes).fit(views)
