import platform
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch

from acova.base import OptionError, Streams, TrainingError
from acova.engine import ParameterGroup, Phase, RunData, Runs, Trainer, generator
from acova.engine.runtime import network_dtype, precision_for, resolve_device, runs_that_fit


class Linear(torch.nn.Module):
    """(x·w - noise)² per sample: small enough to follow by hand."""

    mapped = False

    def __init__(self, start=0.0):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), float(start), dtype=torch.float64))

    def loss(self, batch, noise):
        errors = (batch.views[0] @ self.weight - noise[:, 0]).square()
        return {"total": errors, "first": errors * 2}


def phase_of(**settings):
    groups = [ParameterGroup(["weight"], 0.1)]
    defaults = {"epochs": 4, "batch_size": 4, "loss": Linear.loss, "groups": groups, "noise_shape": (1,)}
    return Phase("fit", **{**defaults, **settings})


def trained(phase, data, seed, report=None, **kind):
    network = Linear()
    trainer = Trainer(Runs([network], **kind), data, [Streams(seed)], report)
    trainer.train(phase)
    return network.weight.detach(), trainer.records[0]


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return RunData([torch.from_numpy(rng.normal(size=(1, 10, 3)))], torch.ones(1, 10, 1, dtype=torch.bool))


def draws(seed, epoch):
    """The noise and the order that a run with this seed uses in an epoch."""
    streams = Streams(seed).child("fit")
    generator = torch.Generator()
    noise = torch.empty(1024, 1).normal_(generator=generator.manual_seed(streams.integer("noise", epoch, 0)))
    order = torch.randperm(10, generator=generator.manual_seed(streams.integer("order", epoch, 0)))
    return noise.numpy()[:10, 0], order.numpy()


@pytest.mark.parametrize("stacked", [False, True])
def test_is_adam_on_the_named_order_and_noise(data, stacked):
    """A second implementation: plain numpy Adam, decay and clipping."""
    weight, _ = trained(phase_of(decay=0.5, clip_norm=0.7), data, 7, stacked=stacked)
    x = data.views[0][0].numpy()
    w, m, v, step = np.zeros(3), np.zeros(3), np.zeros(3), 0
    for epoch in range(4):
        noise, order = draws(7, epoch)
        for rows in np.split(order, [4, 8]):
            gradient = 2 * x[rows].T @ (x[rows] @ w - noise[rows]) / len(rows)
            gradient *= min(1.0, 0.7 / (np.linalg.norm(gradient) + 1e-6))
            step += 1
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            w = w - 0.1 * 0.5**epoch * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(weight.numpy(), w, rtol=1e-6)


def test_runs_beside_it_do_not_change_a_run():
    rng = np.random.default_rng(0)
    views, observed = torch.from_numpy(rng.normal(size=(7, 10, 3))), torch.ones(7, 10, 1, dtype=torch.bool)
    networks = [Linear(run) for run in range(7)]
    phase = phase_of(clip_norm=0.7)
    trainer = Trainer(Runs(networks), RunData([views], observed), [Streams(run) for run in range(7)])
    trainer.train(phase)
    for run in range(7):
        alone = Linear(run)
        single = Trainer(Runs([alone]), RunData([views[run : run + 1]], observed[:1]), [Streams(run)])
        single.train(phase)
        torch.testing.assert_close(networks[run].weight, alone.weight, rtol=1e-12, atol=1e-12)
        totals = [[record["total"] for record in records] for records in (trainer.records[run], single.records[0])]
        assert totals[0] == pytest.approx(totals[1])


def test_stacked_networks_are_windows_on_the_stack():
    networks = [Linear(1), Linear(2)]
    runs = Runs(networks)
    with torch.no_grad():
        networks[1].weight.fill_(9.0)
    assert runs.parameters["weight"].tolist() == [[1.0] * 3, [9.0] * 3]
    runs.release()
    with torch.no_grad():
        runs.parameters["weight"].zero_()
    assert networks[1].weight.tolist() == [9.0] * 3
    assert networks[1].weight.untyped_storage().nbytes() == 3 * 8


def test_records_are_means_over_samples_whatever_the_batches(data):
    phase = phase_of(groups=[ParameterGroup(["weight"], 0.0)], measure=lambda _: {"extra": torch.tensor(5.0)})
    _, records = trained(phase, data, 0)
    noise, _ = draws(0, 0)
    assert records[0]["total"] == pytest.approx(np.square(noise).mean())
    assert records[0]["first"] == pytest.approx(2 * records[0]["total"])
    assert [(r["phase"], r["epoch"], r["extra"]) for r in records] == [("fit", e, 5.0) for e in (1, 2, 3, 4)]


def test_reporting_and_other_random_draws_change_nothing(data):
    def nosy(*_):
        torch.manual_seed(0)
        torch.randn(100)
        np.random.default_rng().normal(size=3)

    plain, _ = trained(phase_of(), data, 1)
    watched, _ = trained(phase_of(), data, 1, nosy)
    assert torch.equal(plain, watched)


def test_reports_every_epoch(data):
    seen = []
    trained(phase_of(), data, 1, lambda *call: seen.append((*call[:3], len(call[3]))))
    assert seen == [("fit", epoch, 4, 1) for epoch in (1, 2, 3, 4)]


def test_a_phase_of_no_epochs_does_nothing(data):
    weight, records = trained(phase_of(epochs=0), data, 1)
    assert records == []
    assert (weight == 0).all()


def test_a_phase_is_prepared_before_its_first_step_and_may_have_data_of_its_own(data):
    few = RunData([data.views[0][:, :4]], data.observed[:, :4])
    seen, networks = [], [Linear(), Linear()]

    def start(number):
        seen.append(networks[number].weight.tolist())
        with torch.no_grad():
            networks[number].weight.fill_(2.0)

    for number, (whole, own) in enumerate([(data, few), (few, None)]):
        trainer = Trainer(Runs([networks[number]]), whole, [Streams(0)])
        trainer.train(phase_of(epochs=0, prepare=partial(start, number)))  # also of a phase without epochs
        trainer.train(phase_of(data=own, prepare=partial(start, number)))
        assert len(trainer.records[0]) == 4
    assert seen == [[0.0] * 3, [2.0] * 3] * 2
    assert torch.equal(networks[0].weight, networks[1].weight)


def test_training_that_diverges_says_so(data):
    def infinite(network, *_):
        return {"total": network.weight.sum() * torch.inf * torch.ones(4)}

    with pytest.raises(TrainingError, match=r"non-finite in epoch 1 of phase 'fit'.*standardize=True"):
        trained(phase_of(loss=infinite), data, 1)


@pytest.mark.parametrize("stacked", [False, True])
def test_parameters_that_break_in_the_last_step_are_found(data, stacked):
    """The loss is finite, its gradient is not, and no loss is computed after it."""

    def steep(network, *_):
        return {"total": network.weight.sum().sqrt().expand(10)}

    phase = phase_of(epochs=1, batch_size=10, loss=steep)
    with pytest.raises(TrainingError, match=r"non-finite parameters at the end of phase 'fit'\. Keep standardize=True"):
        trained(phase, data, 1, stacked=stacked)


def test_the_error_names_the_run(data):
    networks = [Linear(0.0), Linear(0.0)]
    phase = phase_of(epochs=1, loss=lambda network, *given: {"total": given[-1][:, 0] * network.weight[0]})
    trainer = Trainer(
        Runs(networks), RunData([data.views[0]], data.observed, data_set=[0, 0]), [Streams(0), Streams(1)]
    )
    with torch.no_grad():
        trainer.runs.parameters["weight"][1, 2] = torch.inf
    with pytest.raises(TrainingError, match=r"end of phase 'fit' of run 2\."):
        trainer.train(phase)


def test_one_run_at_a_time_on_a_cpu():
    assert runs_that_fit(Linear(), 256, 0, torch.device("cpu")) == 1


def test_a_generator_starts_from_its_seed():
    torch.manual_seed(7)
    expected = torch.randn(3)
    assert torch.equal(torch.randn(3, generator=generator(7)), expected)


def test_devices_resolve_or_say_why_not():
    assert resolve_device("cpu").type == "cpu"
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(OptionError, match=r"device must be 'auto'.*got 'gpu'.*device='cpu'"):
        resolve_device("gpu")


@pytest.mark.parametrize("has_it", [True, False])
def test_a_cpu_rounds_large_networks_if_it_has_the_instructions(monkeypatch, has_it):
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: has_it, raising=False)
    large, small, cpu = torch.nn.Linear(500, 2000), torch.nn.Linear(64, 64), torch.device("cpu")
    rounded = torch.bfloat16 if has_it else torch.float32
    assert network_dtype("auto", cpu, large) == rounded
    assert network_dtype("auto", cpu, small) == torch.float32
    assert network_dtype("bf16", cpu, small) == rounded
    assert network_dtype("tf32", cpu, large) == network_dtype("float32", cpu, large) == torch.float32
    assert precision_for("auto", cpu, large) == ("bf16" if has_it else "float32")
    assert precision_for("auto", cpu, small) == "float32"
    assert [precision_for(word, cpu, large) for word in ("bf16", "tf32", "float32")] == ["bf16", "tf32", "float32"]


@pytest.mark.parametrize("has_it", [True, False])
def test_a_gpu_rounds_or_multiplies_in_tf32(monkeypatch, has_it):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: has_it)
    small, cuda = torch.nn.Linear(4, 4), torch.device("cuda")
    assert precision_for("auto", cuda, small) == ("bf16" if has_it else "tf32")
    assert precision_for("float32", cuda, small) == "float32"


def test_a_torch_that_cannot_tell_rounds_nothing(monkeypatch):
    monkeypatch.delattr(torch.cpu, "_is_avx512_bf16_supported", raising=False)
    assert network_dtype("bf16", torch.device("cpu"), torch.nn.Linear(500, 2000)) == torch.float32


FAULTS = """
import ctypes
import resource
from contextlib import nullcontext
import torch
from acova.engine.runtime import freed_memory_kept

ctypes.CDLL(None).mallopt(-3, 2**20)  # arrays get pages of their own, as the first ones of a process do
for context in (nullcontext(), freed_memory_kept(torch.device("cuda")), freed_memory_kept(torch.device("cpu"))):
    with context:
        for _ in range(5):
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            parts = [torch.zeros(2**22) for _ in range(6)]  # 96 MiB
            del parts
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_memory_that_is_freed_is_kept_for_the_next_step():
    """In a process of its own, where glibc gives everything back; else what lies on the heap decides."""
    done = subprocess.run([sys.executable, "-c", FAULTS], check=True, capture_output=True, text=True)
    plain, gpu, kept = map(int, done.stdout.split())
    assert min(plain, gpu) > 4 * kept


@pytest.mark.parametrize("rates", [[0.1, 0.1, 0.1], [0.1, 0.3, 0.1], [0.2, 0.05, 0.4]])
def test_every_run_learns_at_its_own_rate(rates):
    rng = np.random.default_rng(0)
    views, observed = torch.from_numpy(rng.normal(size=(3, 10, 3))), torch.ones(3, 10, 1, dtype=torch.bool)
    networks = [Linear(run) for run in range(3)]
    trainer = Trainer(Runs(networks), RunData([views], observed), [Streams(run) for run in range(3)])
    trainer.train(phase_of(groups=[ParameterGroup(["weight"], rates)], decay=0.9, clip_norm=0.7))
    for run, rate in enumerate(rates):
        alone = Linear(run)
        single = Trainer(Runs([alone]), RunData([views[run : run + 1]], observed[:1]), [Streams(run)])
        single.train(phase_of(groups=[ParameterGroup(["weight"], rate)], decay=0.9, clip_norm=0.7))
        torch.testing.assert_close(networks[run].weight, alone.weight, rtol=1e-12, atol=1e-12)


def test_a_run_stops_when_its_own_loss_stands_still():
    """A run whose targets are met at once stops early; the one beside it, far off, goes on as if alone."""

    def loss(network, batch, noise):
        (view,) = batch.views
        return {"total": (view @ network.weight - view.sum(1)).square() + 1.0}

    views, observed = torch.eye(3, dtype=torch.float64).expand(2, 3, 3), torch.ones(2, 3, 1, dtype=torch.bool)
    phase = phase_of(epochs=60, batch_size=3, loss=loss, patience=4, tol=1e-3)
    networks = [Linear(1.0), Linear(30.0)]
    trainer = Trainer(Runs(networks), RunData([views], observed), [Streams(0), Streams(1)])
    trainer.train(phase)
    # The first epoch is the best one: four epochs later nothing has improved.
    assert [record["epoch"] for record in trainer.records[0]] == [1, 2, 3, 4, 5]
    assert len(trainer.records[1]) == 60
    torch.testing.assert_close(networks[0].weight.detach(), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-12)
    alone = Linear(30.0)
    single = Trainer(Runs([alone]), RunData([views[:1]], observed[:1]), [Streams(1)])
    single.train(phase)
    torch.testing.assert_close(networks[1].weight, alone.weight)
