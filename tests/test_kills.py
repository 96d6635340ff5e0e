"""A short version of kills at any moment; `kills.py` has the functions for a long one."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from acova import ACOVA
from conftest import SMALL
from kills import fit_with_kills

SAVES = """
import sys
from pathlib import Path

from acova.estimators import load_method
from kills import killed_at_file_operations

run, old, new = map(Path, sys.argv[1:])
models = {model.seed_: model for model in map(load_method, (old, new))}
models[load_method(old).seed_].save(run)
(run / "notes.txt").write_text("mine")
seen = set()


def act():
    models[load_method(new).seed_].save(run, overwrite=True)


def check():
    found = load_method(run)
    assert (found.probabilities_ == models[found.seed_].probabilities_).all()
    assert any((folder / "notes.txt").exists() for folder in (run, run.parent / ".run.old"))
    seen.add(found.seed_)


kills = killed_at_file_operations(act, run.parent, check)
act()
check()
assert (run / "notes.txt").read_text() == "mine"
assert seen == set(models), seen
assert [path.name for path in run.parent.iterdir()] == ["run"], list(run.parent.iterdir())
print(kills)
"""


def test_a_save_that_is_killed_at_any_file_operation_leaves_the_old_or_the_new_run(toy, tmp_path):
    for seed in range(2):
        ACOVA.from_settings(3, **{**SMALL, "random_state": seed}).fit(toy[0]).save(tmp_path / f"run{seed}")
    (tmp_path / "place").mkdir()
    paths = [tmp_path / "place" / "run", tmp_path / "run0", tmp_path / "run1"]
    here = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": here, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SAVES, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 15


def test_a_fit_that_replaces_a_run_and_is_killed_ends_bit_identical(toy_file, tmp_path):
    settings = {**SMALL, "pretrain_epochs": 20, "warmup_epochs": 20, "epochs": 20}
    options = ["--clusters", 3, "--quiet", "--device", "cpu", "--checkpoint-every", 1, "--force"]
    for name, value in settings.items():
        if name != "random_state":
            text = ",".join(map(str, value)) if isinstance(value, tuple) else value
            options += [f"--{name.replace('_', '-')}", text]
    run, whole = tmp_path / "a" / "run", tmp_path / "b" / "run"
    fit_with_kills([toy_file, *options], whole, [])
    old = ACOVA.load(whole)
    old.save(run)

    def check():
        assert (ACOVA.load(run).probabilities_ == old.probabilities_).all()

    kills = fit_with_kills([toy_file, *options, "--seed", 1], run, [2.5, 3.5], check)
    assert kills
    fit_with_kills([toy_file, *options, "--seed", 1], whole, [])
    expected = load_file(whole / "model.safetensors")
    for name, value in load_file(run / "model.safetensors").items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
    assert [path.name for path in run.parent.iterdir()] == ["run"]
    assert not (run / "command.json").exists()
