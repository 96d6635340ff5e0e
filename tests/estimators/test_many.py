import numpy as np
import pytest
import torch

from acova import ACOVA
from acova.base import OptionError, Streams
from acova.data import make_observed
from acova.engine import RunData, Runs
from acova.engine.distributed import ALONE
from acova.engine.state import Keeper
from acova.estimators import fit_many
from acova.training.job import Job
from acova.training.schedule import train_together
from conftest import SMALL, make_toy


def jobs_of(n_runs, **settings):
    """Runs with their own masks and α, on one set of samples."""
    views, _ = make_toy(missing=0.0)
    jobs = []
    for run in range(n_runs):
        model = ACOVA.from_settings(3, **{**SMALL, "epochs": 4, "alpha": 5.0 + run, **settings})
        observed = make_observed(len(views), 3, 0.1 * (run + 1), random_state=run)
        prepared = model.set_params(random_state=run)._prepare(views, observed)
        jobs += prepared.jobs
    return jobs


def train(jobs):
    return train_together(jobs, None, Keeper(), ALONE)


def labels_of(run, job):
    found = run.network.posterior(job.data.views, job.data.observed).mean
    return run.network.prior.log_responsibilities(found).argmax(1).numpy()


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_a_run_among_seven_starts_as_it_does_alone(missing):
    """After a few steps: rounding has not grown yet, while another mask, seed or learning rate moves every weight."""
    settings = {"missing": missing, "pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 0}
    together = train(jobs_of(7, **settings))
    for run in (0, 3, 6):
        alone = train(jobs_of(7, **settings)[run : run + 1])[0]
        theirs = alone.network.state_dict()
        for name, ours in together[run].network.state_dict().items():
            if not name.startswith("prior."):  # k-means jumps: a sample between two clusters moves their means
                torch.testing.assert_close(ours, theirs[name], rtol=1e-4, atol=1e-4, msg=name)


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_a_run_among_seven_finds_the_clusters_that_it_finds_alone(missing):
    """After training: the clusters are far apart, so no rounding moves a sample, and their numbers follow from them."""
    jobs = jobs_of(7, missing=missing)
    together = train(jobs)
    for run in (0, 3, 6):
        alone = train(jobs_of(7, missing=missing)[run : run + 1])[0]
        np.testing.assert_array_equal(labels_of(together[run], jobs[run]), labels_of(alone, jobs[run]))
        assert together[run].records[-1]["total"] == pytest.approx(alone.records[-1]["total"], rel=1e-2)


def test_the_stacked_loss_and_gradient_are_those_of_each_run():
    jobs = jobs_of(3)
    networks = [job.network() for job in jobs]
    noise = torch.randn(3, 240, 2, 4, generator=torch.Generator().manual_seed(0))
    expected = []
    for run, (job, network) in enumerate(zip(jobs, networks, strict=True)):
        parts = network.loss(job.data.batch(), noise[run])
        network.zero_grad()
        parts["total"].sum().backward()
        gradients = {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}
        expected.append(({name: value.detach() for name, value in parts.items()}, gradients))
        network.zero_grad()
    runs = Runs(networks)
    data = RunData(
        [torch.stack([job.data.views[v] for job in jobs]) for v in range(3)],
        torch.stack([job.data.observed for job in jobs]),
        targets=[torch.stack([job.data.targets[v] for job in jobs]) for v in range(3)],
    )
    rows = torch.arange(240).expand(3, -1)
    losses = runs.losses(type(networks[0]).loss, data.batch(rows), noise)
    losses["total"].sum().backward()
    for run, (parts, gradients) in enumerate(expected):
        for name, value in parts.items():
            torch.testing.assert_close(losses[name][run].detach(), value, rtol=1e-4, atol=1e-4)
        for name, gradient in gradients.items():
            ours = runs.parameters[name].grad[run]
            torch.testing.assert_close(ours, gradient, rtol=1e-3, atol=1e-3 * gradient.abs().max().item())


def test_many_fits_are_the_single_fits():
    views, _ = make_toy(missing=0.0)
    masks = [make_observed(len(views), 3, rate, random_state=run) for run, rate in enumerate((0.2, 0.5, 0.5))]
    settings = [{"alpha": 3.0}, {"correlation": 0.3}, {"n_init": 2, "hidden": (16,)}]
    build = lambda: [ACOVA.from_settings(3, **{**SMALL, "random_state": r, **s}) for r, s in enumerate(settings)]  # noqa: E731
    many = fit_many(build(), views, masks)
    for model, single, mask in zip(many, build(), masks, strict=True):
        single.fit(views, observed=mask)
        np.testing.assert_array_equal(model.labels_, single.labels_)
        # Wide enough for training on a GPU, where the runs share their products.
        np.testing.assert_allclose(model.objectives_, single.objectives_, rtol=1e-2)


def test_every_run_needs_its_own_estimator_and_mask():
    views, _ = make_toy()
    model = ACOVA.from_settings(3, **SMALL)
    with pytest.raises(OptionError, match=r"2 estimators \(1 distinct\) and 2 masks"):
        fit_many([model, model], views)
    with pytest.raises(OptionError, match="1 masks"):
        fit_many([ACOVA(3), ACOVA(3)], views, [views.observed])


def test_jobs_share_what_is_the_same():
    views, _ = make_toy()
    model = ACOVA.from_settings(3, **SMALL | {"n_init": 3})
    prepared = model._prepare(views, None)
    assert len({id(job.data) for job in prepared.jobs}) == 1
    assert isinstance(prepared.jobs[0], Job)
    assert len({job.streams.integer("weights") for job in prepared.jobs}) == 3
    assert prepared.jobs[1].streams.integer("x") == Streams(model.seed_).child("run", 1).integer("x")
