"""DCP: its losses, its network, and what it does besides keeping the contract."""

import math

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from acova import DCP
from acova.base import OptionError
from acova.compared.dcp_network import DualPrediction, mutual_information
from acova.data import make_observed
from acova.engine import Runs, Trainer
from acova.engine.distributed import ALONE, Processes
from acova.engine.state import Keeper
from acova.estimators import fit_many
from acova.functional import Batch
from acova.metrics import clustering_accuracy
from acova.training import schedule
from acova.training.schedule import _run_data, train_runs, train_together
from conftest import make_toy

TINY = {
    **{"hidden": (16,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3, "device": "cpu"},
    **{"warmup_epochs": 3, "epochs": 4},
}
SIZES = (5, 3, 4)
N, L = 7, 4
ROWS = torch.tensor([1, 1, 0, 1, 1, 0, 1], dtype=torch.float64)
SEEN = ROWS.bool().numpy()

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained, on purpose


def make(seed=0, **more):
    return DCP(3, **{**TINY, "random_state": seed, **more})


@pytest.fixture(scope="module")
def full():
    return make_toy(n_samples=120, missing=0.0)[0]


@pytest.fixture(scope="module")
def masks():
    return [make_observed(120, 3, 0.4, random_state=run) for run in range(3)]


# --- the mutual information ---------------------------------------------------------------------


def soft_codes(seed):
    return torch.randn(N, L, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).softmax(-1)


def slow_mutual_information(a, b, entropy):
    joint = sum(np.outer(x, y) + np.outer(y, x) for x, y in zip(a, b, strict=True))
    joint /= joint.sum()
    terms = [
        joint[k, m] * (np.log(joint[k, m]) - entropy * np.log(joint[k].sum()) - entropy * np.log(joint[:, m].sum()))
        for k in range(L)
        for m in range(L)
    ]
    return -sum(terms)


def test_mutual_information_is_the_loop_over_the_rows_that_take_part():
    first, second = soft_codes(0), soft_codes(1)
    expected = slow_mutual_information(first.numpy()[SEEN], second.numpy()[SEEN], 9.0)
    assert float(mutual_information(first, second, ROWS, 9.0)) == pytest.approx(expected, rel=1e-9)


def test_rows_that_take_no_part_change_neither_value_nor_gradient():
    results = []
    for seed in (5, 6):
        first, second = soft_codes(0), soft_codes(1)
        first[~ROWS.bool()] = soft_codes(seed)[~ROWS.bool()]
        inputs = [first.requires_grad_(), second.requires_grad_()]
        value = mutual_information(*inputs, ROWS, 9.0)
        results.append([value.detach(), *(g[ROWS.bool()] for g in torch.autograd.grad(value, inputs))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    none = mutual_information(*inputs, torch.zeros_like(ROWS), 9.0)
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(none, inputs, allow_unused=True) if g is not None)


def test_the_gradient_of_mutual_information():
    inputs = [soft_codes(0).requires_grad_(), soft_codes(1).requires_grad_()]
    assert torch.autograd.gradcheck(lambda a, b: mutual_information(a, b, ROWS, 9.0), inputs)


def test_mutual_information_of_uniform_and_of_balanced_sharp_codes():
    every = torch.ones(8, dtype=torch.float64)
    uniform, sharp = torch.full((8, 4), 0.25, dtype=torch.float64), torch.eye(4, dtype=torch.float64).repeat(2, 1)
    assert float(mutual_information(uniform, uniform, every, 10.0)) == pytest.approx((2 - 20) * math.log(4))
    assert float(mutual_information(sharp, sharp, every, 10.0)) == pytest.approx((1 - 20) * math.log(4))


# --- the network --------------------------------------------------------------------------------


def data(n=24, sizes=SIZES, share=0.6):
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(n, len(sizes), generator=generator) < share
    observed[: n // 3] = True
    observed[:, 0] |= ~observed.any(1)
    views = [torch.randn(n, size, generator=generator) for size in sizes]
    return Batch(
        [torch.where(seen.unsqueeze(-1), view, 0.0) for view, seen in zip(views, observed.T, strict=True)], observed
    )


def network_of(sizes=SIZES, **settings):
    torch.manual_seed(0)
    return DualPrediction(sizes, 6, 3, hidden=(8,), **settings)


@pytest.mark.parametrize("graph", ["core", "complete"])
def test_codes_are_on_the_simplex_and_recovered_along_the_graph(graph):
    network = network_of(graph=graph, core_view=0)
    views, observed, *_ = data()
    network.settle([view[observed.all(1)] for view in views])
    codes = network.completed(views, observed)
    assert (codes >= 0).all()
    torch.testing.assert_close(codes.sum(-1), torch.ones(24, 3))
    alone = torch.tensor([[False, False, True]]).expand(24, -1)
    own = network.codes(views)[2]
    codes = network.completed(views, alone)
    core = network.predict(2, 0, own)
    torch.testing.assert_close(codes[:, 0], core)
    torch.testing.assert_close(
        codes[:, 1], network.predict(0, 1, core) if graph == "core" else network.predict(2, 1, own)
    )
    torch.testing.assert_close(codes[:, 2], own)


def test_predictors_do_not_matter_to_complete_samples():
    network, (views, _, *_) = network_of(), data()
    everything = torch.ones(24, 3, dtype=torch.bool)
    network.settle(views)
    before = network.posterior(views, everything).mean
    for parameter in network.predictors.parameters():
        parameter.data.fill_(torch.nan)
    assert torch.equal(network.posterior(views, everything).mean, before)


def test_two_views_are_the_same_on_both_graphs_up_to_the_number_of_views():
    batch = data(sizes=(5, 3))
    core, complete = (network_of((5, 3), graph=graph).loss(batch) for graph in ("core", "complete"))
    for name, factor in {"contrast": 2, "prediction": 2, "reconstruction": 1}.items():
        torch.testing.assert_close(core[name], factor * complete[name])


def test_complete_samples_alone_are_learned_from():
    network, batch = network_of(), data()
    views, observed, *_ = batch
    complete = observed.all(1)
    alone = network.loss(Batch([view[complete] for view in views], observed[complete]))["total"][0]
    torch.testing.assert_close(network.loss(batch)["total"][0], alone)


# --- training -----------------------------------------------------------------------------------


def test_the_stacked_loss_and_gradient_are_those_of_each_run(full, masks):
    jobs = [job for run, mask in enumerate(masks) for job in make(run)._prepare(full, mask).jobs]
    networks = [job.network() for job in jobs]
    expected = []
    for job, network in zip(jobs, networks, strict=True):
        parts = network.loss(job.data.batch(), torch.zeros(120, 0))
        parts["total"].mean().backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        expected.append(({name: value.detach() for name, value in parts.items()}, gradients))
        network.zero_grad()
    runs, run_data = Runs(networks), _run_data(jobs, ALONE)
    batch = run_data.batch(torch.arange(120).expand(3, -1))
    losses = runs.losses(DualPrediction.loss, batch, torch.zeros(3, 120, 0))
    losses["total"].mean(1).sum().backward()
    for run, (parts, gradients) in enumerate(expected):
        for name, value in parts.items():
            torch.testing.assert_close(losses[name][run], value)
        assert len(gradients) > 4
        for name, gradient in gradients.items():
            torch.testing.assert_close(runs.parameters[name].grad[run], gradient, rtol=1e-3, atol=1e-6, msg=name)


def test_runs_train_together_as_they_do_alone(full, masks):
    jobs = [job for run, mask in enumerate(masks) for job in make(run)._prepare(full, mask).jobs]
    alone = [train_runs([job])[0] for job in jobs]
    for ours, theirs in zip(train_together(jobs, None, Keeper(), ALONE), alone, strict=True):
        assert [record["phase"] for record in ours.records] == [record["phase"] for record in theirs.records]
        totals = [[record["total"] for record in run.records] for run in (ours, theirs)]
        np.testing.assert_allclose(*totals, rtol=5e-3, atol=1e-4)


def test_runs_with_other_numbers_of_complete_samples_train_apart(full, monkeypatch):
    masks = [make_observed(120, 3, share, random_state=run) for share in (0.2, 0.5) for run in range(2)]
    groups = []
    monkeypatch.setattr(schedule, "_runs_at_once", len)
    train = schedule.train_together
    monkeypatch.setattr(
        schedule, "train_together", lambda jobs, *rest: (groups.append(len(jobs)), train(jobs, *rest))[1]
    )
    models = fit_many([make(run) for run in range(4)], full, masks)
    assert groups == [2, 2]
    alone = make(2).fit(full, observed=masks[2])
    assert clustering_accuracy(alone.labels_, models[2].labels_) > 0.95


def test_interrupted_training_goes_on(full, masks, tmp_path, monkeypatch):
    plain = make().fit(full, observed=masks[0])
    whole, last = Trainer._epoch, plain.n_iter_ - 1

    def stopping(self, phase, step, draws, stopping, epoch, skip):
        if phase.name == "train" and epoch == last:
            raise KeyboardInterrupt
        whole(self, phase, step, draws, stopping, epoch, skip)

    monkeypatch.setattr(Trainer, "_epoch", stopping)
    settings = {"checkpoint": tmp_path / "kept", "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        make(**settings).fit(full, observed=masks[0])
    monkeypatch.setattr(Trainer, "_epoch", whole)
    again = make(**settings).fit(full, observed=masks[0])
    np.testing.assert_array_equal(again.probabilities_, plain.probabilities_)
    assert len(again.history_) == len(plain.history_)


def test_labels_are_k_means_on_the_codes_side_by_side(toy):
    model = make().fit(toy[0])
    points = model.transform(toy[0])
    assert points.shape == (240, 12)
    plain = KMeans(3, n_init=10, random_state=0).fit_predict(points)
    assert clustering_accuracy(plain, model.labels_) > 0.97
    nearest = np.linalg.norm(points[:, None] - model.means_, axis=-1).argmin(1)
    np.testing.assert_array_equal(nearest, model.labels_)
    np.testing.assert_allclose(model.view_weights_.sum(1), 1, rtol=1e-6)


def test_the_score_is_minus_the_objective_and_there_is_no_mixture(full):
    model = make().fit(full)
    assert model.score(full) == pytest.approx(-model.objective_)
    assert not hasattr(model, "weights_")
    assert not hasattr(model, "variances_")


def test_dropping_the_last_batch_leaves_dcp_untrained(full, tmp_path):
    observed = make_observed(120, 3, 0.8, random_state=0)
    model = make(drop_last=True).fit(full, observed=observed)
    assert observed.all(1).sum() <= 32
    assert len(model.history_) == 0
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(DCP.load(tmp_path / "run").predict(full), model.predict(full))
    assert len(make().fit(full, observed=observed).history_) == 7


def test_authors_settings_per_data_set():
    scene, caltech, mnist = (DCP.preset(name) for name in ("scene15", "caltech5v", "noisymnist"))
    assert [m.warmup_epochs + m.epochs for m in (scene, caltech, mnist)] == [300, 150, 500]
    assert (scene.latent_dim, mnist.latent_dim, caltech.learning_rate) == (128, 40, 3e-4)
    assert DCP().standardize == "unit"


def test_bad_settings_are_named(full):
    with pytest.raises(OptionError, match=r"DCP: graph must be 'core', 'complete'; got 'cor'. Did you mean 'core'"):
        make(graph="cor").fit(full)
    with pytest.raises(OptionError, match="DCP: core_view must be the number of one of the 3 views, from 0; got 3"):
        make(core_view=3).fit(full)
    with pytest.raises(OptionError, match=r"DCP: .* one process trains it; got a job of 2 processes. Start it without"):
        make()._prepare(full, None, Processes(0, 2))
