"""What DCP, DSIMVC, CPSPAN and PMIMC do besides keeping the contract."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from acova import CPSPAN, DCP, DSIMVC, PMIMC
from acova.base import DataError, OptionError
from acova.data import make_observed
from acova.engine import ALONE, Keeper, Processes, Runs, Trainer
from acova.estimators import fit_many
from acova.estimators.dsimvc import _Filled
from acova.metrics import clustering_accuracy
from acova.networks import DualPrediction, PrototypeAlignment, PrototypeMatching, SafeContrast
from acova.training import schedule
from acova.training.phases import _run_data, train_together
from acova.training.schedule import train_runs
from conftest import make_toy

_TINY = {"hidden": (16,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3, "device": "cpu"}
TINY = {
    DCP: {**_TINY, "warmup_epochs": 3, "epochs": 4},
    DSIMVC: {
        **{**_TINY, "feature_dim": 4, "imputer_epochs": 3, "initial_epochs": 3, "pretrain_epochs": 3},
        **{"iterations": 6, "refresh_every": 2},
    },
    CPSPAN: {**_TINY, "pretrain_epochs": 3, "epochs": 5},
    PMIMC: {**_TINY, "pretrain_epochs": 3, "epochs": 5},
}
METHODS = list(TINY)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained, on purpose


def make(cls, seed=0, **more):
    return cls(3, **{**TINY[cls], "random_state": seed, **more})


@pytest.fixture(scope="module")
def full():
    return make_toy(n_samples=120, missing=0.0)[0]


@pytest.fixture(scope="module")
def masks():
    return [make_observed(120, 3, 0.4, random_state=run) for run in range(3)]


LOSSES = {
    DCP: DualPrediction.loss,
    DSIMVC: partial(SafeContrast.bilevel_loss, n_complete=60),
    CPSPAN: PrototypeAlignment.loss,
    PMIMC: PrototypeMatching.loss,
}


@pytest.mark.parametrize("cls", METHODS)
def test_the_stacked_loss_and_gradient_are_those_of_each_run(cls, full, masks):
    jobs = [job for run, mask in enumerate(masks) for job in make(cls, run)._prepare(full, mask).jobs]
    networks = [job.network() for job in jobs]
    expected = []
    for job, network in zip(jobs, networks, strict=True):
        parts = LOSSES[cls](network, job.views, job.observed, torch.zeros(120, 0))
        parts["total"].mean().backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        expected.append(({name: value.detach() for name, value in parts.items()}, gradients))
        network.zero_grad()
    runs, data = Runs(networks), _run_data(jobs, ALONE)
    batch = data.batch(torch.arange(120).expand(3, -1))
    losses = runs.losses(LOSSES[cls], *batch, torch.zeros(3, 120, 0))
    losses["total"].mean(1).sum().backward()
    for run, (parts, gradients) in enumerate(expected):
        for name, value in parts.items():
            torch.testing.assert_close(losses[name][run], value)
        assert len(gradients) > 4
        for name, gradient in gradients.items():
            torch.testing.assert_close(runs.parameters[name].grad[run], gradient, rtol=1e-3, atol=1e-6, msg=name)


@pytest.mark.parametrize("cls", METHODS)
def test_runs_train_together_as_they_do_alone(cls, full, masks):
    jobs = [job for run, mask in enumerate(masks) for job in make(cls, run)._prepare(full, mask).jobs]
    alone = [train_runs([job])[0] for job in jobs]
    for ours, theirs in zip(train_together(jobs, None, Keeper(), ALONE), alone, strict=True):
        assert [record["phase"] for record in ours.records] == [record["phase"] for record in theirs.records]
        totals = [[record["total"] for record in run.records] for run in (ours, theirs)]
        np.testing.assert_allclose(*totals, rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("cls", [DCP, DSIMVC])
def test_runs_with_other_numbers_of_complete_samples_train_apart(cls, full, monkeypatch):
    masks = [make_observed(120, 3, share, random_state=run) for share in (0.2, 0.5) for run in range(2)]
    groups = []
    monkeypatch.setattr(schedule, "_runs_at_once", len)
    train = schedule.train_together
    monkeypatch.setattr(
        schedule, "train_together", lambda jobs, *rest: (groups.append(len(jobs)), train(jobs, *rest))[1]
    )
    models = fit_many([make(cls, run) for run in range(4)], full, masks)
    assert groups == [2, 2]
    alone = make(cls, 2).fit(full, observed=masks[2])
    assert clustering_accuracy(alone.labels_, models[2].labels_) > 0.95


@pytest.mark.parametrize("cls", METHODS)
def test_interrupted_training_goes_on(cls, full, masks, tmp_path, monkeypatch):
    plain = make(cls).fit(full, observed=masks[0])
    whole, last = Trainer._epoch, plain.n_iter_ - 1

    def stopping(self, phase, step, draws, stopping, epoch, skip):
        if phase.name == "train" and epoch == last:
            raise KeyboardInterrupt
        whole(self, phase, step, draws, stopping, epoch, skip)

    monkeypatch.setattr(Trainer, "_epoch", stopping)
    settings = {"checkpoint": tmp_path / "kept", "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        make(cls, **settings).fit(full, observed=masks[0])
    monkeypatch.setattr(Trainer, "_epoch", whole)
    again = make(cls, **settings).fit(full, observed=masks[0])
    np.testing.assert_array_equal(again.probabilities_, plain.probabilities_)
    assert len(again.history_) == len(plain.history_)


@pytest.mark.parametrize("cls", [DCP, CPSPAN, PMIMC])
def test_labels_are_k_means_on_the_codes_side_by_side(cls, toy):
    model = make(cls).fit(toy[0])
    points = model.transform(toy[0])
    assert points.shape == (240, 12)
    plain = KMeans(3, n_init=10, random_state=0).fit_predict(points)
    assert clustering_accuracy(plain, model.labels_) > 0.97
    nearest = np.linalg.norm(points[:, None] - model.means_, axis=-1).argmin(1)
    np.testing.assert_array_equal(nearest, model.labels_)
    np.testing.assert_allclose(model.view_weights_.sum(1), 1, rtol=1e-6)


def test_dropping_the_last_batch_leaves_dcp_untrained(full, tmp_path):
    observed = make_observed(120, 3, 0.8, random_state=0)
    model = make(DCP, drop_last=True).fit(full, observed=observed)
    assert observed.all(1).sum() <= 32
    assert len(model.history_) == 0
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(DCP.load(tmp_path / "run").predict(full), model.predict(full))
    assert len(make(DCP).fit(full, observed=observed).history_) == 7


def test_holes_are_filled_with_the_mean_of_the_nearest_that_have_the_view(full, masks):
    job = make(DSIMVC)._prepare(full, masks[0]).jobs[0]
    drawn = torch.nn.functional.normalize(torch.randn(120, 3, 4, generator=torch.Generator().manual_seed(0)), dim=-1)

    class Told:
        def features(self, views, observed):
            return drawn

    filled = _Filled(_run_data([job], ALONE), [Told()], 2)
    filled.fill()
    features, seen = drawn.double().numpy(), job.observed.numpy()
    for v, ours in enumerate(filled.complete.views):
        assert torch.equal(ours[0][job.observed[:, v]], job.views[v][job.observed[:, v]])
        for i in np.flatnonzero(~seen[:, v]):
            scores = {}
            for n in np.flatnonzero(seen[:, v]):
                common = seen[i] & seen[n]
                if common.any():
                    scores[n] = np.mean([features[i, w] @ features[n, w] for w in np.flatnonzero(common)])
            best = sorted(scores, key=scores.get, reverse=True)[:2]
            torch.testing.assert_close(ours[0][i], job.views[v][best].mean(0))


def test_refreshing_fills_anew_and_0_fills_once(full, masks, monkeypatch):
    calls = []
    fill = _Filled.fill
    monkeypatch.setattr(_Filled, "fill", lambda self: (calls.append(1), fill(self)))
    results = {every: make(DSIMVC, refresh_every=every).fit(full, observed=masks[0]) for every in (0, 2, 100)}
    assert len(calls) == 1 + 3 + 1
    np.testing.assert_array_equal(results[0].probabilities_, results[100].probabilities_)
    assert not np.array_equal(results[0].probabilities_, results[2].probabilities_)


def test_complete_data_have_nothing_to_fill(full):
    model = make(DSIMVC).fit(full)
    assert "filled" not in model.history_
    torch.testing.assert_close(model.history_["complete"].dropna().to_numpy()[-1], model.history_["total"].iloc[-1])


def test_matched_prototypes_are_matched_and_the_released_form_collapses_codes(full, masks):
    model = make(CPSPAN).fit(full, observed=masks[0])
    centers = model.network_.centers.numpy()
    units = centers / np.linalg.norm(centers, axis=-1, keepdims=True)
    for v in (1, 2):
        np.testing.assert_array_equal(linear_sum_assignment(units[0] @ units[v].T, maximize=True)[1], np.arange(3))
    ranks = {}
    for weight in (0.0, 30.0):
        strong = make(CPSPAN, prototypes="released", prototype_weight=weight, epochs=40, learning_rate=1e-2).fit(full)
        values = np.linalg.svd(strong.transform(full)[:, :4], compute_uv=False)
        ranks[weight] = values[1] / values[0]
    assert ranks[30.0] < 0.5 * ranks[0.0]


@pytest.mark.parametrize("cls", [CPSPAN, PMIMC])
def test_the_leak_warns_reads_hidden_cells_and_stays_out_of_predict(cls, full, masks):
    noise = [np.random.default_rng(0).normal(size=view.shape) * 30 for view in full.arrays]
    other = [
        np.where(masks[0][:, [v]], array, dirt) for v, (array, dirt) in enumerate(zip(full.arrays, noise, strict=True))
    ]
    leaks = []
    for views in (list(full.arrays), other):
        with pytest.warns(UserWarning, match=f"{cls.__name__}: oracle_leak=True finds the donors .* `observed` hides"):
            leaks.append(make(cls, oracle_leak=True).fit(views, observed=masks[0]))
    assert not np.array_equal(leaks[0].probabilities_, leaks[1].probabilities_)
    np.testing.assert_array_equal(
        leaks[0].predict(other, observed=masks[0]), leaks[0].predict(list(full.hide(masks[0]).arrays))
    )
    with pytest.raises(DataError, match="oracle_leak=True reads hidden cells, but X does not hold any; give complete"):
        make(cls, oracle_leak=True).fit(full.hide(masks[0]))


def test_authors_settings_per_data_set():
    scene, caltech, mnist = (DCP.preset(name) for name in ("scene15", "caltech5v", "noisymnist"))
    assert [m.warmup_epochs + m.epochs for m in (scene, caltech, mnist)] == [300, 150, 500]
    assert (scene.latent_dim, mnist.latent_dim, caltech.learning_rate) == (128, 40, 3e-4)
    fashion = DSIMVC.preset("fashion")
    assert (fashion.pretrain_epochs, fashion.initial_epochs, fashion.iterations) == (200, 100, 300)
    assert (CPSPAN().latent_dim, CPSPAN().epochs, PMIMC().latent_dim, PMIMC().epochs) == (10, 50, 256, 100)
    assert {cls().standardize for cls in METHODS} == {"unit"}


def test_bad_settings_are_named(full):
    with pytest.raises(OptionError, match=r"DCP: graph must be 'core', 'complete'; got 'cor'. Did you mean 'core'"):
        make(DCP, graph="cor").fit(full)
    with pytest.raises(OptionError, match="DCP: core_view must be the number of one of the 3 views, from 0; got 3"):
        make(DCP, core_view=3).fit(full)
    with pytest.raises(OptionError, match="DSIMVC: refresh_every must be an integer at least 0; got -1"):
        make(DSIMVC, refresh_every=-1).fit(full)
    with pytest.raises(OptionError, match="CPSPAN: impute must be 'cross_view', 'zero_code'; got 'leak'"):
        make(CPSPAN, impute="leak").fit(full)
    with pytest.raises(OptionError, match="PMIMC: prototype_rate must be a number above 0 and at most 1; got 0"):
        make(PMIMC, prototype_rate=0).fit(full)
    with pytest.raises(
        OptionError, match=r"PMIMC: .* one process trains it; got a job of 2 processes. Start it without"
    ):
        make(PMIMC)._prepare(full, None, Processes(0, 2))
