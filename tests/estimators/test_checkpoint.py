"""Fits that are killed, interrupted and continued, as real processes."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file

from acova import ACOVA
from acova.base import FileError, RunFolderError
from acova.base.files import sealed_json
from acova.base.locks import folder_lock
from acova.engine.state import read_state, write_state
from acova.estimators import fit_many
from conftest import SMALL

SETTINGS = {**SMALL, "pretrain_epochs": 6, "warmup_epochs": 6, "epochs": 10, "n_init": 2}
FIT = ["--clusters", "3", "--quiet", "--device", "cpu", "--checkpoint-every", "1"]
for name, value in SETTINGS.items():
    if name != "random_state":
        FIT += [f"--{name.replace('_', '-')}", ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def start(*arguments):
    command = [sys.executable, "-m", "acova", "fit", *map(str, arguments)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(*arguments):
    process = start(*arguments)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


@pytest.fixture(scope="module")
def whole(toy_file, tmp_path_factory):
    """The model of a fit that nobody interrupts."""
    run = tmp_path_factory.mktemp("whole") / "run"
    finish(toy_file, "--out", run, *FIT)
    return load_file(run / "model.safetensors")


def assert_same(run, whole):
    tensors = load_file(run / "model.safetensors")
    assert tensors.keys() == whole.keys()
    for name, value in whole.items():
        np.testing.assert_array_equal(tensors[name], value, err_msg=name)
    assert not (run / "checkpoint").exists()
    assert not [path for path in run.parent.iterdir() if path != run]


def written(run):
    """Return what tells one state of training in a run folder from the next."""
    times = []
    for path in sorted((run / "checkpoint").glob("*.safetensors")):
        with suppress(FileNotFoundError):
            times.append((path.name, path.stat().st_mtime_ns))
    return times


def test_a_fit_killed_at_random_moments_ends_bit_identical(toy_file, whole, tmp_path):
    run, rng = tmp_path / "run", random.Random(0)
    process, kills = start(toy_file, "--out", run, *FIT), 0
    while kills < 3:
        while process.poll() is None and not written(run):
            time.sleep(0.01)
        before = written(run)
        while process.poll() is None and written(run) == before:
            time.sleep(0.005)  # at least one new state, or kills could outrun training
        time.sleep(rng.uniform(0, 0.1))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        kills += 1
        process = start("--resume", run, "--quiet")
    assert kills >= 2
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert_same(run, whole)


def test_an_interrupt_says_how_to_go_on_and_loses_nothing(toy_file, whole, tmp_path):
    run = tmp_path / "run"
    process = start(toy_file, "--out", run, *FIT[:-2], "--checkpoint-every", "1", *FIT[-2:])
    while process.poll() is None and not (run / "checkpoint" / "current-0.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"acova fit --resume {run}" in err
    assert "Traceback" not in err
    with pytest.raises(RunFolderError, match=r"unfinished fit.*acova fit --resume"):
        ACOVA.load(run)
    refused = start(toy_file, "--out", run, *FIT)
    assert "go on with it (acova fit --resume" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
    finish("--resume", run, "--quiet")
    assert_same(run, whole)
    again = start("--resume", run)
    assert "finished run; there is nothing to resume" in again.communicate(timeout=60)[1]


class Killed(Exception):
    pass


def killed_after(model, views, epochs, monkeypatch):
    """Fit until so many epochs are done."""
    seen = []

    def keep(keeper, state):
        original(keeper, state)
        seen.append(1)
        if len(seen) == epochs:
            raise Killed

    from acova.engine.state import Keeper

    original = Keeper.keep
    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "keep", keep)
        with pytest.raises(Killed):
            model.fit(views)


@pytest.mark.parametrize("random_state", [0, None])
def test_a_second_fit_goes_on_and_cleans_up(toy, tmp_path, monkeypatch, random_state):
    settings = {**SETTINGS, "random_state": random_state, "checkpoint": tmp_path / "state", "checkpoint_every": 2}
    killed = ACOVA.from_settings(3, **settings)
    killed_after(killed, toy[0], 31, monkeypatch)  # inside the second run
    seed = killed.seed_
    assert (tmp_path / "state" / "run-0.safetensors").exists()
    model = ACOVA.from_settings(3, **settings).fit(toy[0])
    assert not (tmp_path / "state").exists()
    assert model.seed_ == seed
    if random_state is not None:
        whole = ACOVA.from_settings(3, **{**settings, "checkpoint": None}).fit(toy[0])
        np.testing.assert_array_equal(model.probabilities_, whole.probabilities_)
        np.testing.assert_array_equal(model.objectives_, whole.objectives_)
        assert len(model.history_) == len(whole.history_) == 22


def test_another_fit_is_not_mixed_with_the_kept_one(toy, tmp_path, monkeypatch):
    settings = {**SETTINGS, "checkpoint": tmp_path / "state", "checkpoint_every": 1}
    killed_after(ACOVA.from_settings(3, **settings), toy[0], 3, monkeypatch)
    with pytest.raises(RunFolderError, match=r"holds another fit: alpha \(10.0 there, 3.0 now\) differ.*delete this"):
        ACOVA.from_settings(3, **settings, alpha=3.0).fit(toy[0])
    with pytest.raises(RunFolderError, match="another fit: seed"):
        ACOVA.from_settings(3, **{**settings, "random_state": 1}).fit(toy[0])
    with pytest.raises(RunFolderError, match="another fit: data"):
        ACOVA.from_settings(3, **settings).fit(toy[0].take(slice(1, None)))
    (tmp_path / "state" / "checkpoint.json").write_text("{")
    with pytest.raises(RunFolderError, match=r"checkpoint.json is damaged"):
        ACOVA.from_settings(3, **settings).fit(toy[0])


def test_a_folder_with_other_files_is_left_alone(toy, tmp_path):
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(RunFolderError, match="folder with other files"):
        ACOVA.from_settings(3, **SETTINGS, checkpoint=tmp_path).fit(toy[0])
    assert (tmp_path / "mine.txt").read_text() == "precious"


def test_many_fits_keep_one_checkpoint_together(toy, tmp_path):
    models = [ACOVA.from_settings(3, **{**SMALL, "random_state": run}) for run in range(2)]
    with pytest.raises(ValueError, match=r"fit_many: .*checkpoint"):
        fit_many([ACOVA(3, checkpoint="x"), ACOVA(3)], toy[0])
    fit_many(models, toy[0], checkpoint=tmp_path / "state")
    assert not (tmp_path / "state").exists()
    np.testing.assert_array_equal(
        models[1].labels_, ACOVA.from_settings(3, **{**SMALL, "random_state": 1}).fit(toy[0]).labels_
    )


# --- whose files, damaged files, full disks -----------------------------------------------------


def test_files_of_the_user_stay(toy, tmp_path, monkeypatch):
    folder = tmp_path / "state"
    settings = {**SETTINGS, "checkpoint": folder, "checkpoint_every": 1}
    killed_after(ACOVA.from_settings(3, **settings), toy[0], 3, monkeypatch)
    (folder / "mine.txt").write_text("precious")
    (folder / "config.json").write_text("mine, too")
    ACOVA.from_settings(3, **settings).fit(toy[0])
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "mine.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


def test_many_fits_leave_files_of_the_user_alone(toy, tmp_path):
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "checkpoint.json").write_text("of another fit")
    fit_many([ACOVA.from_settings(3, **SMALL)], toy[0], checkpoint=folder)
    assert [path.name for path in folder.iterdir()] == ["checkpoint.json"]


@pytest.mark.parametrize("moment", ["head", "state"])
def test_a_full_disk_is_the_librarys_error_and_the_fit_can_go_on(toy, tmp_path, monkeypatch, moment):
    settings = {**SETTINGS, "n_init": 1, "checkpoint": tmp_path / "state", "checkpoint_every": 1}
    calls = []

    def full(number):
        calls.append(number)
        if len(calls) > {"head": 0, "state": 4}[moment]:
            raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("acova.base.files.os.fsync", full)
        with pytest.raises(FileError, match=r"writing .*state.* failed: No space left on device"):
            ACOVA.from_settings(3, **settings).fit(toy[0])
    assert (tmp_path / "state").exists() == (moment == "state")
    assert not list(tmp_path.rglob(".*.part*"))
    model = ACOVA.from_settings(3, **settings).fit(toy[0])
    whole = ACOVA.from_settings(3, **{**settings, "checkpoint": None}).fit(toy[0])
    np.testing.assert_array_equal(model.probabilities_, whole.probabilities_)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [".checkpoint.json.99.part", ".0123abcd.part.json"])  # before, and today
def test_the_part_of_a_head_that_a_kill_left_is_no_hindrance(toy, tmp_path, name):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / name).write_text("{")
    ACOVA.from_settings(3, **SMALL, checkpoint=tmp_path / "state").fit(toy[0])
    assert list(tmp_path.iterdir()) == []


def test_a_second_fit_in_the_same_folder_waits_its_turn(toy, tmp_path):
    refused = []

    def other():
        try:
            ACOVA.from_settings(3, **SMALL, checkpoint=tmp_path / "state").fit(toy[0])
        except RunFolderError as error:
            refused.append(str(error))

    with folder_lock(tmp_path / "state"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert f"{tmp_path / 'state'} is being written by another thread of this process" in refused[0]


@pytest.mark.parametrize("name", ["checkpoint.json", "run-0.safetensors", "current-1.safetensors"])
def test_a_flipped_bit_is_refused_or_changes_nothing(toy, tmp_path, monkeypatch, name):
    folder = tmp_path / "state"
    settings = {**SETTINGS, "checkpoint": folder, "checkpoint_every": 1}
    killed_after(
        ACOVA.from_settings(3, **settings), toy[0], 43, monkeypatch
    )  # the last epoch but one of the second run
    kept = {path.name: path.read_bytes() for path in folder.iterdir()}
    whole = ACOVA.from_settings(3, **settings).fit(toy[0])
    rng, refused = random.Random(0), 0
    for _ in range(12):
        folder.mkdir(exist_ok=True)
        for file, content in kept.items():
            changed = bytearray(content)
            if file == name:
                changed[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            (folder / file).write_bytes(changed)
        try:
            model = ACOVA.from_settings(3, **settings).fit(toy[0])
        except RunFolderError:
            refused += 1
            continue
        np.testing.assert_array_equal(model.probabilities_, whole.probabilities_)
    assert refused >= 6


HEADS = {
    "a list": b"[]",
    "no text": b"{\xff",
    "deep": b"[" * 100_000,
    "not ours": b'{"format": "other"}',
    "an old version": b'{"format": "acova checkpoint", "format_version": 2, "params": {}, "seed": 0, "data": ""}',
    "a seed of text": sealed_json({"format": "acova checkpoint", "format_version": 3, "params": {}, "seed": "0"}),
    "params as a list": sealed_json({"format": "acova checkpoint", "format_version": 3, "params": [], "seed": 0}),
}


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("random_state", [0, None])
def test_a_foreign_or_damaged_head_says_so(toy, tmp_path, head, random_state):
    (tmp_path / "checkpoint.json").write_bytes(HEADS[head])
    model = ACOVA.from_settings(3, **{**SMALL, "random_state": random_state}, checkpoint=tmp_path)
    with pytest.raises(RunFolderError, match=r"checkpoint.json is (damaged .*Delete its folder|no checkpoint)"):
        model.fit(toy[0])
    assert (tmp_path / "checkpoint.json").read_bytes() == HEADS[head]


def test_a_state_of_an_unknown_phase_is_no_trained_model(toy, tmp_path, monkeypatch):
    folder = tmp_path / "state"
    settings = {**SETTINGS, "checkpoint": folder, "checkpoint_every": 1}
    killed_after(ACOVA.from_settings(3, **settings), toy[0], 3, monkeypatch)
    state, runs = read_state(folder / "current-0.safetensors")
    write_state(folder / "current-0.safetensors", replace(state, phase="holidays"), runs)
    with pytest.raises(RunFolderError, match="of a phase 'holidays' that this fit lacks"):
        ACOVA.from_settings(3, **settings).fit(toy[0])
