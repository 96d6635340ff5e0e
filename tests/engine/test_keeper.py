import os
import signal
from dataclasses import replace

import pytest
import torch
from test_loop import Linear, phase_of

from acova.base import RunFolderError, Streams
from acova.engine import Keeper, ParameterGroup, RunData, Runs, Trainer, read_state


@pytest.fixture(autouse=True)
def interrupts():
    """Python's own handling of Ctrl-C, which a shell's background job does not have."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    views = torch.randn(3, 10, 3, generator=generator, dtype=torch.float64)
    return RunData([views], torch.ones(3, 10, 1, dtype=torch.bool))


def run(data, phases, keeper=None, report=None):
    networks = [Linear(start) for start in range(3)]
    trainer = Trainer(Runs(networks), data, [Streams(seed) for seed in range(3)], report, keeper)
    for phase in phases:
        trainer.train(phase)
    return [network.weight.detach().clone() for network in networks], trainer.records


def phases(**settings):
    rates = [ParameterGroup(["weight"], [0.1, 0.2, 0.1])]
    return [phase_of(epochs=3, **settings), phase_of(epochs=4, groups=rates, decay=0.9, **settings)]


class Killed(Exception):
    pass


@pytest.mark.parametrize("killed_after", range(1, 7))
def test_a_killed_training_goes_on_to_the_very_same_end(data, tmp_path, killed_after):
    """At every epoch of both phases, with learning rates per run, decay and patience."""
    settings = {"patience": 2, "tol": 0.02}
    expected, expected_records = run(data, _named(phases(**settings)))
    seen = []

    def report(*_):
        seen.append(1)
        if len(seen) == killed_after:
            raise Killed

    path = tmp_path / "state"
    with pytest.raises(Killed):
        run(data, _named(phases(**settings)), Keeper(path, every=1), report)
    keeper = Keeper(path, every=1)
    keeper.resumed, _ = read_state(path)
    weights, records = run(data, _named(phases(**settings)), keeper)
    for mine, theirs in zip(weights, expected, strict=True):
        assert torch.equal(mine, theirs)
    assert records == expected_records


def _named(phases):
    return [replace(phase, name=name) for phase, name in zip(phases, ("one", "two"), strict=True)]


def test_an_interrupt_stops_after_the_step_and_loses_none(data, tmp_path):
    expected, expected_records = run(data, _named(phases()))
    path = tmp_path / "state"
    steps = []

    def loss(network, *batch):
        steps.append(1)
        if len(steps) == 5:  # the second step of the second epoch
            os.kill(os.getpid(), signal.SIGINT)
        return Linear.loss(network, *batch)

    keeper = Keeper(path, every=100, runs=[0, 1, 2])
    with keeper.interruptible(), pytest.raises(KeyboardInterrupt, match=r"epoch 2 of phase 'one'.*fit again"):
        run(data, _named(phases(loss=loss)), keeper)
    assert len(steps) == 5
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    state, runs = read_state(path)
    assert (state.phase, state.epoch, state.step, runs) == ("one", 1, 2, [0, 1, 2])
    keeper = Keeper(path)
    keeper.resumed = state
    weights, records = run(data, _named(phases()), keeper)
    for mine, theirs in zip(weights, expected, strict=True):
        assert torch.equal(mine, theirs)
    assert records == expected_records


def test_a_second_interrupt_acts_at_once(tmp_path):
    keeper = Keeper(tmp_path / "state")
    with keeper.interruptible():
        os.kill(os.getpid(), signal.SIGINT)
        assert keeper.stop_requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert not (tmp_path / "state").exists()


def test_nothing_is_kept_and_interrupts_stay_as_they_are_without_a_path(data):
    keeper = Keeper()
    with keeper.interruptible(), pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    assert not keeper.stop_requested
    run(data, _named(phases()), keeper)


def test_states_come_every_so_many_epochs(data, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr("acova.engine.keeper.write_state", lambda path, state, runs: written.append(state.epoch))
    run(data, [phase_of(epochs=7)], Keeper(tmp_path / "state", every=3))
    assert written == [3, 6]


@pytest.mark.parametrize("content", [b"", b"no state", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_state_says_so(tmp_path, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"state is no checkpoint of acova, or is damaged.*Delete its folder"):
        read_state(path)
