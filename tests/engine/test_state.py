import os
import random
import signal
from contextlib import suppress
from dataclasses import replace

import pytest
import torch
from test_trainer import Linear, phase_of

from acova.base import RunFolderError, Streams
from acova.engine import ParameterGroup, RunData, Runs, Trainer
from acova.engine.state import Keeper, Terminated, read_state, write_state


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


def test_a_resumed_phase_is_not_prepared_again_and_goes_on_with_its_own_data(tmp_path):
    def begun(path, epochs, resumed=None):
        """Train on data that the phase scales before its first step, and that belong to the state."""
        own = RunData([torch.ones(1, 8, 3, dtype=torch.float64)], torch.ones(1, 8, 1, dtype=torch.bool), derived=True)
        prepared, network, keeper = [], Linear(), Keeper(path, every=2)
        keeper.resumed = resumed

        def report(_, epoch, *__):
            if epoch == epochs:
                raise Killed

        def prepare():
            prepared.append(1)
            own.views[0].mul_(3.0)

        other = RunData([torch.zeros(1, 10, 3, dtype=torch.float64)], torch.ones(1, 10, 1, dtype=torch.bool))
        trainer = Trainer(Runs([network]), other, [Streams(0)], report, keeper)
        with suppress(Killed):
            trainer.train(phase_of(epochs=5, data=own, prepare=prepare))
        return network.weight.detach(), trainer.records, len(prepared)

    whole = begun(tmp_path / "whole", None)
    begun(tmp_path / "state", 2)
    rest = begun(tmp_path / "state", None, read_state(tmp_path / "state")[0])
    assert torch.equal(rest[0], whole[0])
    assert rest[1] == whole[1]
    assert (whole[2], rest[2]) == (1, 0)


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


def test_sigterm_keeps_the_state_and_ends_with_its_exit_code(data, tmp_path, caplog):
    before = signal.getsignal(signal.SIGTERM)

    def loss(network, *batch):
        os.kill(os.getpid(), signal.SIGTERM)
        return Linear.loss(network, *batch)

    keeper = Keeper(tmp_path / "state", every=100, runs=[0, 1, 2])
    with keeper.interruptible(), pytest.raises(SystemExit) as caught:
        run(data, _named(phases(loss=loss)), keeper)
    assert isinstance(caught.value, Terminated)
    assert caught.value.code == 143
    assert "the state is kept: fit again" in caplog.text
    assert signal.getsignal(signal.SIGTERM) is before
    assert read_state(tmp_path / "state")[0].step == 1


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
    monkeypatch.setattr("acova.engine.state.write_state", lambda path, state, runs: written.append(state.epoch))
    run(data, [phase_of(epochs=7)], Keeper(tmp_path / "state", every=3))
    assert written == [3, 6]


@pytest.mark.parametrize("content", [b"", b"no state", b"\x08\0\0\0\0\0\0\0{}      "])
def test_a_damaged_state_says_so(tmp_path, content):
    path = tmp_path / "state"
    path.write_bytes(content)
    with pytest.raises(RunFolderError, match=r"state is no checkpoint of acova, or is damaged.*Delete its folder"):
        read_state(path)


@pytest.fixture
def state(data, tmp_path):
    path = tmp_path / "state"
    run(data, _named(phases()), Keeper(path, every=2, runs=[0, 1, 2]))
    return path


def test_a_flipped_bit_of_a_state_is_refused_or_harmless(state):
    whole, rng, refused = state.read_bytes(), random.Random(0), 0
    expected, _ = read_state(state)
    for _ in range(150):
        changed = bytearray(whole)
        changed[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        state.write_bytes(changed)
        try:
            found, runs = read_state(state)
        except RunFolderError:
            refused += 1
            continue
        assert runs == [0, 1, 2]
        assert {**vars(found), "tensors": 0} == {**vars(expected), "tensors": 0}
        assert all(torch.equal(found.tensors[name], tensor) for name, tensor in expected.tensors.items())
    assert refused > 100


CRAFTED = {
    "another shape": ({"tensors": {"parameter.weight": torch.zeros(3, 1)}}, "'parameter.weight' is missing or has"),
    "another type": ({"tensors": {"parameter.weight": torch.zeros(3, 3)}}, "'parameter.weight' is missing or has"),
    "no moments": ({"drop": "adam.0.exp_avg"}, "'adam.0.exp_avg' is missing or has"),
    "too many epochs": ({"epoch": 5}, "numbers do not agree"),
    "records of one run": ({"records": [[]]}, "numbers do not agree"),
}


@pytest.mark.parametrize("craft", CRAFTED)
def test_a_state_of_something_else_is_refused(data, state, craft):
    changes, text = CRAFTED[craft]
    found, runs = read_state(state)
    tensors = {**found.tensors, **changes.get("tensors", {})}
    tensors.pop(changes.get("drop"), None)
    rest = {name: value for name, value in changes.items() if name not in ("tensors", "drop")}
    write_state(state, replace(found, tensors=tensors, **rest), runs)
    keeper = Keeper(state)
    keeper.resumed, _ = read_state(state)
    with pytest.raises(RunFolderError, match=text):
        run(data, _named(phases()), keeper)


HEADS = {
    "a phase that is a number": ({"phase": 3}, r"Expected `str`, got `int` - at `\$.phase`"),
    "a negative epoch": ({"epoch": -1}, r"Expected `int` >= 0 - at `\$.epoch`"),
    "a run twice": ({"runs": [0, 0]}, r"it is of the runs \[0, 0\]"),
}


@pytest.mark.parametrize("head", HEADS)
def test_the_head_of_a_state_matches_its_schema(state, head):
    changes, text = HEADS[head]
    found, runs = read_state(state)
    rest = {name: value for name, value in changes.items() if name != "runs"}
    write_state(state, replace(found, **rest), changes.get("runs", runs))
    with pytest.raises(RunFolderError, match=text):
        read_state(state)
