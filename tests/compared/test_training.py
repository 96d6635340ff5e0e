"""How DSIMVC, CPSPAN and PMIMC train: together, side by side and after an interruption."""

from functools import partial

import numpy as np
import pytest
import torch

from acova import CPSPAN, DSIMVC, PMIMC
from acova.compared.cpspan import PrototypeAlignment
from acova.compared.dsimvc_network import SafeContrast
from acova.compared.pmimc import PrototypeMatching
from acova.data import make_observed
from acova.engine import Runs, Trainer
from acova.engine.distributed import ALONE
from acova.engine.state import Keeper
from acova.estimators import fit_many
from acova.metrics import clustering_accuracy
from acova.training import schedule
from acova.training.schedule import _run_data, train_runs, train_together
from conftest import make_toy

_TINY = {"hidden": (16,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3, "device": "cpu"}
TINY = {
    DSIMVC: {
        **{**_TINY, "feature_dim": 4, "imputer_epochs": 3, "initial_epochs": 3, "pretrain_epochs": 3},
        **{"iterations": 6, "refresh_every": 2},
    },
    CPSPAN: {**_TINY, "pretrain_epochs": 3, "epochs": 5},
    PMIMC: {**_TINY, "pretrain_epochs": 3, "epochs": 5},
}
METHODS = list(TINY)
LOSSES = {
    DSIMVC: partial(SafeContrast.bilevel_loss, n_complete=60),
    CPSPAN: PrototypeAlignment.loss,
    PMIMC: PrototypeMatching.loss,
}
PHASES = {
    DSIMVC: ("imputer_pretrain", "imputer", "pretrain", "train"),
    **dict.fromkeys((CPSPAN, PMIMC), ("pretrain", "train")),
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained, on purpose


def make(cls, seed=0, **more):
    return cls(3, **{**TINY[cls], "random_state": seed, **more})


@pytest.fixture(scope="module")
def full():
    return make_toy(n_samples=120, missing=0.0)[0]


@pytest.fixture(scope="module")
def masks():
    return [make_observed(120, 3, 0.4, random_state=run) for run in range(3)]


@pytest.mark.parametrize("cls", METHODS)
def test_the_stacked_loss_and_gradient_are_those_of_each_run(cls, full, masks):
    jobs = [job for run, mask in enumerate(masks) for job in make(cls, run)._prepare(full, mask).jobs]
    networks = [job.network() for job in jobs]
    expected = []
    for job, network in zip(jobs, networks, strict=True):
        parts = LOSSES[cls](network, job.data.batch(), torch.zeros(120, 0))
        parts["total"].mean().backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        expected.append(({name: value.detach() for name, value in parts.items()}, gradients))
        network.zero_grad()
    runs, data = Runs(networks), _run_data(jobs, ALONE)
    batch = data.batch(torch.arange(120).expand(3, -1))
    losses = runs.losses(LOSSES[cls], batch, torch.zeros(3, 120, 0))
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


def test_runs_with_other_numbers_of_complete_samples_train_apart(full, monkeypatch):
    masks = [make_observed(120, 3, share, random_state=run) for share in (0.2, 0.5) for run in range(2)]
    groups = []
    monkeypatch.setattr(schedule, "_runs_at_once", len)
    train = schedule.train_together
    monkeypatch.setattr(
        schedule, "train_together", lambda jobs, *rest: (groups.append(len(jobs)), train(jobs, *rest))[1]
    )
    models = fit_many([make(DSIMVC, run) for run in range(4)], full, masks)
    assert groups == [2, 2]
    alone = make(DSIMVC, 2).fit(full, observed=masks[2])
    assert clustering_accuracy(alone.labels_, models[2].labels_) > 0.95


@pytest.mark.parametrize(("cls", "name"), [(cls, name) for cls, names in PHASES.items() for name in names])
def test_interrupted_training_goes_on(cls, name, full, masks, tmp_path, monkeypatch):
    plain = make(cls).fit(full, observed=masks[0])
    whole, last = Trainer._epoch, (plain.history_["phase"] == name).sum() - 1

    def stopping(self, phase, step, draws, stopping, epoch, skip):
        if phase.name == name and epoch == last:
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
