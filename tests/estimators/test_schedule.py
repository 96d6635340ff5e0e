"""Runs side by side in processes: how many, the same result, one bar, and errors, signals and kills on the way."""

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from joblib import parallel_config
from joblib.parallel import BACKENDS

from acova import ACOVA
from acova.base import OptionError, ProcessError, TrainingError
from acova.data import make_observed
from acova.engine import workers
from acova.engine.parallel import multiplications
from acova.engine.workers import Exchange, worker_count
from acova.estimators import CPSPAN, DCP, DSIMVC, MVP, PMIMC, fit_many
from acova.training import schedule
from acova.training.checkpoint import Checkpoint
from acova.training.phases import Variational
from conftest import SMALL, make_toy

TINY = {**SMALL, "pretrain_epochs": 2, "warmup_epochs": 2, "epochs": 3}
for _name in ("n_init", "consensus"):
    TINY.pop(_name)
_CODED = {"hidden": (16,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3}
OTHERS = {
    MVP: {"hidden": (16,), "latent_dim": 4, "batch_size": 32, "warmup_epochs": 2, "epochs": 2},
    DCP: {**_CODED, "warmup_epochs": 2, "epochs": 2},
    DSIMVC: {
        **{**_CODED, "feature_dim": 4, "imputer_epochs": 2, "initial_epochs": 2, "pretrain_epochs": 2},
        **{"iterations": 4, "refresh_every": 2},
    },
    CPSPAN: {**_CODED, "pretrain_epochs": 2, "epochs": 2},
    PMIMC: {**_CODED, "pretrain_epochs": 2, "epochs": 2},
}


@pytest.fixture
def free(monkeypatch):
    """No number of processes in the environment, and 8 cores, of which torch may use 6."""
    monkeypatch.delenv("ACOVA_JOBS", raising=False)
    monkeypatch.setattr(workers, "cpu_count", lambda: 8)
    monkeypatch.setattr(workers, "most_threads", lambda: 6)
    return monkeypatch


@pytest.fixture
def two(monkeypatch):
    """Every fit of several runs takes two processes."""
    monkeypatch.setattr(schedule, "_WORTH_PROCESSES", 0.0)
    monkeypatch.setenv("ACOVA_JOBS", "2")
    return monkeypatch


def refused(*_, **__):
    msg = "a process was to be started"
    raise RuntimeError(msg)


def one_by_one(build, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setenv("ACOVA_JOBS", "1")
        patch.setattr(schedule, "side_by_side", refused)
        return build()


def assert_same(model, other):
    for ours, theirs in zip(model._ensemble.networks, other._ensemble.networks, strict=True):
        for (name, value), expected in zip(ours.state_dict().items(), theirs.state_dict().values(), strict=True):
            assert torch.equal(value, expected), name
    np.testing.assert_array_equal(model.probabilities_, other.probabilities_)
    np.testing.assert_array_equal(model.objectives_, other.objectives_)
    assert set(model.history_) == set(other.history_)  # a state that goes on has its columns in another order
    assert model.history_[list(other.history_)].equals(other.history_)
    assert model.warnings_ == other.warnings_


# --- how many -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tasks", "threads", "expected"), [(10, 1, 6), (4, 1, 4), (1, 1, 1), (10, 2, 3), (10, 4, 1), (10, 8, 1)]
)
def test_tasks_take_the_cores_that_torch_may_use(free, tasks, threads, expected):
    assert worker_count(tasks, threads) == expected


def test_no_more_than_the_cores_there_are(free):
    free.setattr(workers, "most_threads", lambda: 64)
    assert worker_count(10, 1) == 8


def test_a_number_that_is_given_counts(free):
    free.setenv("ACOVA_JOBS", "9")
    assert worker_count(20, 4) == 9
    with parallel_config(n_jobs=3):
        assert worker_count(20, 4) == 3
        assert worker_count(2, 4) == 2
    with parallel_config("loky", n_jobs=1):
        assert worker_count(20, 1) == 1
    with parallel_config("loky"):
        assert worker_count(20, 1) == 9


@pytest.mark.parametrize("word", ["0", "two", "-1", "1.5"])
def test_a_number_in_the_environment_is_checked(free, word):
    free.setenv("ACOVA_JOBS", word)
    with pytest.raises(OptionError, match=rf"ACOVA_JOBS must be a number of processes, at least 1; got '{word}'"):
        worker_count(2, 1)


def test_workers_of_others_start_no_processes(free):
    free.setenv("ACOVA_JOBS", "9")
    for nested in (BACKENDS["loky"](nesting_level=0), BACKENDS["threading"](nesting_level=0)):
        backend, _ = nested.get_nested_backend()
        with parallel_config(backend, n_jobs=4):
            assert worker_count(20, 1) == 1
    with parallel_config("threading", n_jobs=4):
        assert worker_count(20, 1) == 1
    free.setattr(workers.multiprocessing, "parent_process", object)
    assert worker_count(20, 1) == 1


def test_python_threads_start_processes_only_where_they_ask_for_them(free):
    found = []

    def ask():
        found.append(worker_count(20, 1))
        with parallel_config(n_jobs=3):
            found.append(worker_count(20, 1))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [1, 3]


def test_small_fits_start_no_processes(toy, free):
    free.setattr(schedule, "side_by_side", refused)
    ACOVA.from_settings(3, **TINY, n_init=3).fit(toy[0])


def test_processes_are_started_from_an_estimated_time_on(toy, free):
    """400 epochs of 8 steps: 8 ms each, and the time of the products; 15 s in all."""
    settings = {**TINY, "pretrain_epochs": 100, "warmup_epochs": 100, "epochs": 200}
    jobs = ACOVA.from_settings(3, **settings, n_init=10)._prepare(toy[0], None).jobs
    seconds = 400 * 8 * (0.008 + multiplications(jobs[0].network(), 32) / 1.5e10)
    assert 25 < seconds < 27
    assert schedule._workers(jobs, 10) == 6
    assert schedule._workers(jobs, 1) == 1
    short = ACOVA.from_settings(3, **{**settings, "epochs": 0}, n_init=2)._prepare(toy[0], None).jobs
    assert schedule._workers(short, 2) == 2
    shorter = (
        ACOVA.from_settings(3, **{**settings, "warmup_epochs": 0, "epochs": 0}, n_init=2)._prepare(toy[0], None).jobs
    )
    assert schedule._workers(shorter, 2) == 1


# --- the same result ----------------------------------------------------------------------------


def test_a_consensus_side_by_side_is_that_of_one_run_after_the_other(toy, two):
    build = lambda: ACOVA.from_settings(3, **TINY, n_init=4, consensus=True, correlation_start="similarity").fit(toy[0])  # noqa: E731
    assert_same(build(), one_by_one(build, two))


def test_early_stopping_is_the_same(toy, two):
    build = lambda: ACOVA.from_settings(3, **SMALL | {"n_init": 2}, patience=2, tol=0.5).fit(toy[0])  # noqa: E731
    model = build()
    assert len(model.history_) < 25
    assert_same(model, one_by_one(build, two))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("cls", OTHERS)
def test_other_methods_are_the_same(cls, two):
    views = make_toy(n_samples=90, sizes=(6, 5), missing=0.3)[0]
    build = lambda: cls(3, **OTHERS[cls], random_state=0, n_init=2).fit(views)  # noqa: E731
    assert_same(build(), one_by_one(build, two))


def test_many_fits_with_their_own_masks_are_the_same(two):
    views = make_toy(missing=0.0)[0]
    masks = [make_observed(len(views), 3, 0.4, random_state=run) for run in range(3)]

    def build():
        return fit_many([ACOVA.from_settings(3, **{**TINY, "random_state": run}) for run in range(3)], views, masks)

    for model, other in zip(build(), one_by_one(build, two), strict=True):
        assert_same(model, other)


def test_all_epochs_are_reported_and_every_one_once(toy, two):
    jobs, reports = ACOVA.from_settings(3, **TINY, n_init=3)._prepare(toy[0], None).jobs, []
    runs = schedule.train_runs(jobs, lambda *values: reports.append(values))
    steps = [(phase, epoch, total) for phase, epoch, total, (_,) in reports]
    phases = (("pretrain", 2), ("warmup", 2), ("train", 3))
    once = [
        (f"{phase}, run {run} of 3", epoch + 1, n) for run in (1, 2, 3) for phase, n in phases for epoch in range(n)
    ]
    assert sorted(steps) == sorted(once)
    losses = sorted(record["total"] for *_, (record,) in reports)
    assert losses == sorted(record["total"] for run in runs for record in run.records)


def test_every_phase_of_every_run_has_a_line(toy, two, capfd):
    ACOVA.from_settings(3, **TINY, n_init=3, verbose=True).fit(toy[0])
    out, err = capfd.readouterr()
    assert out == ""
    for phase, epochs in (("pretrain", 2), ("warmup", 2), ("train", 3)):
        for run in (1, 2, 3):
            assert err.count(f"ACOVA {phase}, run {run} of 3: epoch {epochs} of {epochs}, loss ") == 1
    assert len(err.splitlines()) == 9


def test_a_finished_fit_leaves_no_files(toy, two, tmp_path):
    two.setattr("tempfile.tempdir", str(tmp_path))
    ACOVA.from_settings(3, **TINY, n_init=2, checkpoint=tmp_path / "state").fit(toy[0])
    assert list(tmp_path.iterdir()) == []


def test_without_room_for_the_data_runs_go_one_after_the_other(toy, two):
    build = lambda: ACOVA.from_settings(3, **TINY, n_init=2).fit(toy[0])  # noqa: E731
    with two.context() as patch:
        patch.setattr("tempfile.tempdir", "/proc/no such place")
        model = build()
    assert_same(model, one_by_one(build, two))


def test_tensors_are_in_files_once_and_aligned_like_torchs_own():
    view, other = torch.arange(12.0).view(4, 3), torch.tensor([True, False])
    with Exchange.opened() as exchange:
        known = {}
        lent = [exchange.lent(tensor, known) for tensor in (view, other, view.T, view)]
        first, second, third, again = (pickle.loads(pickle.dumps(each)) for each in lent)
        assert len(list(exchange.folder.iterdir())) == 3
        assert torch.equal(first, view)
        assert torch.equal(second, other)
        assert torch.equal(third, view.T)
        assert {tensor.data_ptr() % 64 for tensor in (first, second, third)} == {0}
        first[0, 0] = 7.0  # on a copy of the page
        assert again[0, 0] == 0.0
    assert not exchange.folder.exists()


# --- errors, warnings, deaths -------------------------------------------------------------------


class WarnedTraining(Variational):
    def finish(self, group):
        for _ in range(2):
            warnings.warn("a view is odd", UserWarning, stacklevel=1)


class Warns(ACOVA):
    method = WarnedTraining()


@pytest.mark.parametrize(("action", "count"), [("default", 1), ("always", 6)])
def test_warnings_of_workers_are_given_here_by_the_filters_of_here(toy, two, action, count):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        Warns.from_settings(3, **TINY, n_init=3).fit(toy[0])
    assert [str(each.message) for each in caught if each.category is UserWarning] == ["a view is odd"] * count


def test_the_error_of_a_worker_is_given_as_itself(toy, two):
    with pytest.raises(TrainingError, match=r"non-finite in epoch \d+ of phase 'pretrain'\. Keep standardize"):
        ACOVA.from_settings(3, **{**TINY, "pretrain_learning_rate": 1e30}, n_init=2).fit(toy[0])


class DeadlyTraining(Variational):
    def phases(self, group):
        if group.jobs[0].streams.integer("weights") == group.settings.get("deadly", None):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().phases(group)


class Dies(ACOVA):
    method = DeadlyTraining()


def test_a_worker_that_is_killed_gives_the_way_out_and_loses_no_finished_run(toy, two, tmp_path):
    settings = {**TINY, "n_init": 3, "checkpoint": tmp_path / "state"}
    build = lambda: Dies.from_settings(3, **settings)  # noqa: E731
    jobs = build()._prepare(toy[0], None).jobs
    deadly = jobs[2].settings.replaced(deadly=jobs[2].streams.integer("weights"))
    jobs[2] = replace(jobs[2], settings=deadly)
    checkpoint = Checkpoint(tmp_path / "state", 1)
    checkpoint.open({"params": {}, "seed": 0, "data": ""})
    with pytest.raises(ProcessError, match=r"worker process .*memory.*n_jobs=.*ACOVA_JOBS.*checkpoint goes on"):
        schedule.train_runs(jobs, checkpoint=checkpoint)
    assert len(list((tmp_path / "state").glob("run-*.safetensors"))) >= 1


# --- checkpoints --------------------------------------------------------------------------------

FIT = """
import sys
import numpy as np
from acova import ACOVA
from acova.data import Views
from acova.training import schedule

schedule._WORTH_PROCESSES = 0.0
data, state = sys.argv[1:]
parts = dict(np.load(data))
views = Views.of({name: parts[name] for name in parts if name != "observed"}, parts["observed"])
ACOVA.from_settings(3, **SETTINGS, checkpoint=state).fit(views)
"""
LONG = {**SMALL, "batch_size": 120, "n_init": 3, "checkpoint_every": 1}
LONG |= dict.fromkeys(("pretrain_epochs", "warmup_epochs", "epochs"), 50)


def start_fit(data, state):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACOVA_JOBS": "2"}
    command = [sys.executable, "-c", FIT.replace("SETTINGS", repr(LONG)), str(data), str(state)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True)


def states(folder):
    """Return which states there are, and their times."""
    found = {}
    for path in folder.glob("[!.]*.safetensors"):  # not files that are being written
        try:
            found[path.name] = path.stat().st_mtime_ns
        except FileNotFoundError:
            continue
    return found


def wait_for_two_states(process, folder):
    """Wait until two runs have gone on from what there was."""
    before = states(folder)
    while process.poll() is None:
        if sum(before.get(name) != at for name, at in states(folder).items()) >= 2:
            return
        time.sleep(0.01)
    raise RuntimeError(process.communicate()[1])


@pytest.mark.skipif(not hasattr(os, "getppid"), reason="needs POSIX")
def test_signals_and_kills_lose_nothing_and_leave_no_process(toy, toy_file, tmp_path, monkeypatch):
    folder = tmp_path / "state"
    for number, code, message in (
        (signal.SIGINT, -signal.SIGINT, r"KeyboardInterrupt: stopped [23] of 3 runs; the state is kept"),
        (signal.SIGTERM, 143, r"stopped [23] of 3 runs; the state is kept: fit again with the same settings"),
        (signal.SIGKILL, -signal.SIGKILL, None),
    ):
        process = start_fit(toy_file, folder)
        wait_for_two_states(process, folder)
        children = psutil.Process(process.pid).children(recursive=True)
        assert len(children) >= 2
        if number == signal.SIGKILL:
            process.kill()
        else:
            os.killpg(process.pid, number)  # as a terminal or a cluster does: to the workers, too
        _, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        if message is not None:
            assert re.search(message, err), err
        _, alive = psutil.wait_procs(children, timeout=30)
        assert alive == []
        assert len(states(folder)) >= 2  # of runs under way, or done in the meantime
    seen = []
    keep = schedule.Keeper.keep
    monkeypatch.setattr(schedule.Keeper, "keep", lambda *args: (seen.append(1), keep(*args))[1])
    with monkeypatch.context() as patch:
        patch.setenv("ACOVA_JOBS", "1")
        model = ACOVA.from_settings(3, **LONG, checkpoint=folder).fit(toy[0])
        assert len(seen) < 3 * 150
        whole = ACOVA.from_settings(3, **{**LONG, "checkpoint_every": 10}).fit(toy[0])
    assert_same(model, whole)
    assert list(tmp_path.iterdir()) == []


def test_a_state_of_before_goes_on(toy, tmp_path, monkeypatch):
    """A run that trains alone had its state in current.safetensors."""
    settings = {**TINY, "n_init": 2, "checkpoint": tmp_path / "state", "checkpoint_every": 1}
    seen = []
    keep = schedule.Keeper.keep

    def killed(keeper, state):
        keep(keeper, state)
        seen.append(1)
        if len(seen) == 10:
            raise SystemError

    with monkeypatch.context() as patch:
        patch.setattr(schedule.Keeper, "keep", killed)
        with pytest.raises(SystemError):
            ACOVA.from_settings(3, **settings).fit(toy[0])
    (tmp_path / "state" / "current-1.safetensors").rename(tmp_path / "state" / "current.safetensors")
    monkeypatch.setattr(schedule.Keeper, "keep", lambda *args: (seen.append(1), keep(*args))[1])
    model = ACOVA.from_settings(3, **settings).fit(toy[0])
    assert len(seen) == 14
    assert_same(model, ACOVA.from_settings(3, **{**settings, "checkpoint": None}).fit(toy[0]))
    assert not Path(tmp_path / "state").exists()
