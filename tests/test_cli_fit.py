"""What ``acova fit`` does to folders: it never loses a finished run."""

import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA
from acova.base import FileError
from acova.base.files import sealed_json
from acova.base.locks import folder_lock
from acova.metrics import clustering_scores
from conftest import SMALL, make_toy
from kills import start_fit

OPTIONS = ["--clusters", 3, "--quiet", "--device", "cpu"]
for name, value in SMALL.items():
    if name != "random_state":
        text = ",".join(map(str, value)) if isinstance(value, tuple) else value
        OPTIONS += [f"--{name.replace('_', '-')}", text]


@pytest.fixture
def run(fitted, tmp_path):
    """A finished run in a folder of its own, with a file of the user."""
    folder = tmp_path / "runs" / "run"
    fitted.save(folder)
    (folder / "notes.txt").write_text("precious")
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


BAD = {
    "option": (["--alpha", -1], "alpha must be a number at least 0"),
    "clusters": (["--clusters", 999], "n_samples=240 is less than --clusters 999; lower --clusters"),
    "device": (["--device", "cuda:99"], "device must be"),
    "pattern": (["--missing", 0.5, "--pattern", "blok"], "'block'"),
    "likelihood": (["--likelihood", "bernoulli"], "needs values in"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_bad_call_leaves_the_finished_run_alone(acova, run, toy_file, bad):
    arguments, text = BAD[bad]
    before = contents(run)
    code, out, err = acova("fit", toy_file, "--out", run, "--force", *OPTIONS, *arguments)
    assert (code, out) == (2, "")
    assert text in err
    assert contents(run) == before
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_unreadable_data_leave_the_finished_run_alone(acova, run, tmp_path):
    (tmp_path / "damaged.npz").write_bytes(b"PK\x03\x04 no archive")
    before = contents(run)
    assert acova("fit", tmp_path / "damaged.npz", "--out", run, "--force", *OPTIONS)[0] == 2
    assert contents(run) == before


def test_the_old_run_works_until_the_new_one_is_whole(acova, run, toy_file, fitted, monkeypatch):
    """Training fails half way: load, report and --resume find what they should; then the new run takes over."""
    from acova.engine.state import Keeper

    original, seen = Keeper.keep, []

    def stop_in_the_middle(keeper, state):
        original(keeper, state)
        seen.append(1)
        if len(seen) == 12:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "keep", stop_in_the_middle)
        code, _, err = acova("fit", toy_file, "--out", run, "--force", *OPTIONS, "--seed", 5)
    assert (code, f"acova fit --resume {run}" in err) == (130, True)
    assert (run / "checkpoint" / "current-0.safetensors").exists()
    np.testing.assert_array_equal(ACOVA.load(run).probabilities_, fitted.probabilities_)
    assert acova("report", run, "--map", "PCA")[0] == 0
    (run / "checkpoint" / "mine.txt").write_text("in the checkpoint")
    code, _, err = acova("fit", "--resume", run, "--quiet")
    assert (code, err) == (0, "")
    assert ACOVA.load(run).random_state == 5
    assert (run / "notes.txt").read_text() == "precious"
    assert (run / "checkpoint" / "mine.txt").read_text() == "in the checkpoint"
    assert not (run / "report.html").exists()  # of the run that is gone
    assert "nothing to resume" in acova("fit", "--resume", run)[2]
    assert [path.name for path in run.parent.iterdir()] == ["run"]


@pytest.mark.parametrize("before", ["the swap", "the second rename", "the clearing"])
def test_a_kill_around_the_renames_is_healed(acova, run, fitted, before, caplog):
    new, old = run.with_name(".run.new"), run.with_name(".run.old")
    fitted.save(new)
    if before != "the swap":
        (new / "which.txt").write_text("new")
        run.rename(old)
    if before == "the clearing":
        new.rename(run)
    np.testing.assert_array_equal(ACOVA.load(run).probabilities_, fitted.probabilities_)
    assert (run / "which.txt").exists() == (before != "the swap")
    assert ("a process was killed" in caplog.text) == (before == "the second rename")
    fitted.save(run, overwrite=True)
    assert (run / "notes.txt").read_text() == "precious"
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_resume_heals_an_unfinished_fit_that_was_moved_aside(acova, toy_file, tmp_path):
    (tmp_path / ".run.old").mkdir()
    command = {
        "format": "acova command", "data": str(toy_file), "preset": None, "missing": 0.0, "pattern": "mcar", "seed": 0,
        "stream": False, "drop": [], "holes": "refuse", "method": "Concat", "settings": {"n_clusters": 3},
    }  # fmt: skip
    (tmp_path / ".run.old" / "command.json").write_bytes(sealed_json(command))
    assert acova("fit", "--resume", tmp_path / "run", "--quiet")[0] == 0
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_two_processes_cannot_write_one_run(acova, run, toy_file):
    code = (
        "import sys; from pathlib import Path; from acova.base.locks import folder_lock\n"
        "with folder_lock(Path(sys.argv[1])): print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(run)]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "locked\n"
    before = contents(run)
    code, _, err = acova("fit", toy_file, "--out", run, "--force", *OPTIONS)
    assert code == 2
    assert f"{run} is being written by process {other.pid} on" in err
    assert ACOVA.load(run).n_clusters == 3  # reading is free
    with pytest.raises(FileError, match="is being written by process"):
        ACOVA.load(run).save(run, overwrite=True)
    other.kill()  # the lock goes with its process
    other.communicate()
    assert contents(run) == before
    with folder_lock(run), folder_lock(run):
        assert run.with_name(".run.lock").exists()
    assert [path.name for path in run.parent.iterdir()] == ["run"]


def test_sigterm_keeps_the_state_and_says_how_to_go_on(toy_file, tmp_path):
    run = tmp_path / "run"
    process = start_fit(toy_file, "--out", run, *OPTIONS, "--epochs", 5000, "--checkpoint-every", 1)
    while process.poll() is None and not (run / "checkpoint" / "current-0.safetensors").exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 143, err
    assert f"Stopped; the state of training is kept. Go on with: acova fit --resume {run}" in err
    assert "Traceback" not in err
    assert not run.with_name(".run.lock").exists()


@pytest.mark.parametrize("place", ["/proc/run", "/dev/null/run", "x" * 252, "file/run"])
def test_a_place_that_cannot_be_written_is_refused_before_training(acova, toy_file, tmp_path, monkeypatch, place):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(ACOVA, "_prepare", lambda *_: pytest.fail("trained before looking"))
    code, out, err = acova("fit", toy_file, "--out", place, *OPTIONS)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "Check the path, its permissions and the free space" in err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_missing_parents_are_made_only_for_a_run(acova, toy_file, tmp_path):
    assert acova("fit", toy_file, "--out", tmp_path / "a" / "b" / "run", *OPTIONS, "--alpha", -1)[0] == 2
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_while_saving_loses_no_training(acova, run, toy_file, fitted, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("acova.training.run_folder._to_disk", full)
        code, _, err = acova("fit", toy_file, "--out", run, "--force", *OPTIONS, "--seed", 7)
    assert code == 2
    assert "No space left on device" in err
    assert f"acova fit --resume {run}" in err
    np.testing.assert_array_equal(ACOVA.load(run).probabilities_, fitted.probabilities_)
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    assert acova("fit", "--resume", run, "--quiet")[0] == 0
    assert ACOVA.load(run).random_state == 7


def test_a_full_disk_at_the_start_leaves_a_fit_that_can_go_on(acova, toy_file, tmp_path, monkeypatch):
    def full(path, content):
        raise FileError(f"writing {path} failed: No space left on device.")

    with monkeypatch.context() as patch:
        patch.setattr("acova.training.checkpoint.write_whole", full)
        code, _, err = acova("fit", toy_file, "--out", tmp_path / "run", *OPTIONS)
    assert (code, "No space left" in err) == (2, True)
    assert (tmp_path / "run" / "command.json").exists()
    (tmp_path / "run" / "checkpoint").mkdir()
    (tmp_path / "run" / "checkpoint" / ".checkpoint.json.1.part").write_text("half")  # as a kill leaves it
    assert acova("fit", "--resume", tmp_path / "run", "--quiet")[0] == 0
    assert ACOVA.load(tmp_path / "run").n_clusters == 3


def test_training_that_fails_leaves_no_unfinished_fit(acova, run, toy_file, monkeypatch):
    from acova.base import TrainingError

    def fail(*_, **__):
        raise TrainingError("not finite")

    before = contents(run)
    monkeypatch.setattr("acova.estimators._deep.train_runs", fail)
    assert acova("fit", toy_file, "--out", run, "--force", *OPTIONS)[0] == 2
    assert contents(run) == before


def test_another_programs_folder_is_never_replaced(acova, toy_file, tmp_path):
    (tmp_path / "config.json").write_text('{"editor": "vi"}')
    code, _, err = acova("fit", toy_file, "--out", tmp_path, "--force", *OPTIONS)
    assert (code, "is not a run folder" in err) == (2, True)
    assert (tmp_path / "config.json").read_text() == '{"editor": "vi"}'


COMMANDS = {
    "a list": (b"[]", "Expected `object`"),
    "no text": (b"\xff\xfe{", "command.json"),
    "nested deeply": (b"[" * 100_000, "nested too deeply"),
    "a missing field": ({"preset": None}, "missing required field"),
    "a wrong type": ({"seed": "0"}, r"\$.seed"),
    "a huge number": (b'{"seed": ' + b"9" * 5000 + b"}", "command.json"),
    "a name twice": (b'{"seed": 1, "seed": 2}', "occurs more than once"),
}


@pytest.mark.parametrize("content", COMMANDS)
def test_a_damaged_command_says_so(acova, tmp_path, content):
    written, text = COMMANDS[content]
    good = {
        "format": "acova command", "data": "digits", "preset": None, "missing": 0.0, "pattern": "mcar", "seed": 0,
        "stream": False, "drop": [], "holes": "refuse", "method": "ACOVA", "settings": {"n_clusters": 3},
    }  # fmt: skip
    if content == "a missing field":
        del good["data"]
    if isinstance(written, dict):
        written = sealed_json({**good, **written})
    (tmp_path / "command.json").write_bytes(written)
    code, out, err = acova("fit", "--resume", tmp_path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert str(tmp_path / "command.json") in err
    assert "--force" in err
    assert re.search(text, err), err


def test_samples_without_a_class_are_fitted_and_not_scored(acova, tmp_path):
    views, labels = make_toy(n_samples=90, missing=0.0)
    given = np.where(np.arange(90) % 5, labels, -1)
    np.savez(tmp_path / "some.npz", labels=given, view_0=views.arrays[0], view_1=views.arrays[1])
    command = ["fit", tmp_path / "some.npz", "--method", "Concat", "--clusters", 3, "--random-state", 0]
    code, out, err = acova(*command, "--out", tmp_path / "run")
    assert code == 0, err
    found = pd.read_csv(tmp_path / "run" / "labels.csv")["label"]
    assert len(found) == 90
    known = clustering_scores(labels[given >= 0], found[given >= 0])["acc"]
    assert f"{known:.3f}".lstrip("0") in out
    assert known == 1
    assert clustering_scores(given, found)["acc"] < 1
