"""Several processes that train one model, with gloo on a CPU; where there are GPUs, on them too."""

import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from acova.engine.distributed import ALONE, Processes, clear_loss_of_contact
from acova.functional import Batch
from acova.networks import MultiViewVAE
from conftest import SMALL, make_toy

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SETTINGS = {**SMALL, "pretrain_epochs": 3, "warmup_epochs": 4, "epochs": 4}
SCRIPT = """
import sys
import numpy as np
from acova import ACOVA
arrays = np.load(sys.argv[1])
views = {name: arrays[name] for name in arrays.files if name != "observed"}
settings = dict(hidden=(32,), latent_dim=4, batch_size=32, learning_rate=3e-3, pretrain_epochs=3, warmup_epochs=4,
                epochs=4, n_init=2, device="cpu")
seed = None if sys.argv[3] == "none" else 0
model = ACOVA.from_settings(3, **settings, random_state=seed).fit(views, observed=arrays["observed"])
import os
again = ACOVA.from_settings(3, **{**settings, "epochs": 1, "n_init": 1}, random_state=0)
again.fit(views, observed=arrays["observed"])
rank = os.environ.get("RANK", "0")
np.savez(f"{sys.argv[2]}-{rank}.npz", p=model.probabilities_, o=model.objectives_, w=model.view_weights_)
"""


def options(*, device="cpu", **settings):
    given = {**SETTINGS, **settings}
    given.pop("random_state")
    pairs = [
        (f"--{k.replace('_', '-')}", ",".join(map(str, v)) if isinstance(v, tuple) else v) for k, v in given.items()
    ]
    return ["--clusters", "3", "--quiet", "--device", device, *(str(part) for pair in pairs for part in pair)]


def environment(**more):
    return {"OMP_NUM_THREADS": "1", **os.environ, **more}


def torchrun(*arguments):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += map(str, arguments)
    return subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_two_processes_end_where_one_does(toy_file, tmp_path, device):
    """The command line, with every kind of start; only the first process writes and speaks.

    Two processes share one GPU through gloo; with a GPU for each, it is NCCL that they exchange gradients by.
    """
    starts = {"correlation_start": "similarity", "cluster_start": "neighbors", "neighbor_weight": 0.5}
    more = options(device=device, precision="float32", **starts, n_init=2, consensus=True)
    alone = [sys.executable, "-m", "acova", "fit", str(toy_file), "--out", str(tmp_path / "one"), *more]
    subprocess.run(alone, env=environment(), capture_output=True, check=True, timeout=300)
    done = torchrun("-m", "acova", "fit", toy_file, "--out", tmp_path / "two", *more)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Run: ") == 1
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    # The clusters are far apart: rounding moves no sample, and the clusters' numbers follow from their samples.
    np.testing.assert_array_equal(two["labels_"], one["labels_"])
    # Other seeds, noise or shares of the samples move weights by more than 0.1 in 11 epochs; rounding, by 1e-6.
    for name, value in one.items():
        if ".encoders." in name or ".decoders." in name:
            np.testing.assert_allclose(two[name], value, atol=0.01, err_msg=name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("seed", ["0", "none"])
def test_every_process_gets_the_whole_result(toy_file, tmp_path, seed):
    """From Python, with restarts; without a seed the processes still agree on one."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = torchrun(script, toy_file, tmp_path / "two", seed)
    assert done.returncode == 0, done.stderr
    first, second = (np.load(tmp_path / f"two-{rank}.npz") for rank in (0, 1))
    for name in ("p", "o", "w"):
        np.testing.assert_array_equal(first[name], second[name])
    if seed == "0":
        subprocess.run([sys.executable, script, toy_file, tmp_path / "one", seed], env=environment(), check=True)
        single = np.load(tmp_path / "one-0.npz")
        np.testing.assert_array_equal(first["p"].argmax(1), single["p"].argmax(1))
        np.testing.assert_allclose(first["o"], single["o"], rtol=1e-2)


def start_pair(*arguments):
    """Two processes as a cluster's scheduler would start them, without torchrun to clean up after them."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "acova", "fit", *map(str, arguments)]
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            command,
            env=environment(**place, RANK=str(rank), LOCAL_RANK=str(rank)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]


def kill_after_a_checkpoint(pair, run, victim):
    """Kill one of two processes; return the other's exit code and standard error."""
    state, start = run / "checkpoint" / "current-0.safetensors", time.time()
    while all(process.poll() is None for process in pair):
        if state.exists() and state.stat().st_mtime > start:
            break
        time.sleep(0.02)
    pair[victim].send_signal(signal.SIGKILL)
    pair[victim].communicate()
    _, err = pair[1 - victim].communicate(timeout=100)  # less than the time after which a silent process is given up
    return pair[1 - victim].returncode, err


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_job_with_a_message(toy_file, tmp_path, victim):
    run = tmp_path / "run"
    pair = start_pair(toy_file, "--out", run, *options(epochs=100_000), "--checkpoint-every", "1")
    code, err = kill_after_a_checkpoint(pair, run, victim)
    assert code == 2, err
    assert f"process {1 - victim} of 2 lost contact with another process" in err
    assert "--resume" in err
    assert "Traceback" not in err


def test_two_processes_go_on_where_two_were_killed(toy_file, tmp_path):
    more = [*options(epochs=15, n_init=2), "--checkpoint-every", "1"]
    whole, run = tmp_path / "whole", tmp_path / "run"
    for process in start_pair(toy_file, "--out", whole, *more):
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
    for victim, arguments in enumerate([(toy_file, "--out", run, *more), ("--resume", run, "--quiet")]):
        code, err = kill_after_a_checkpoint(start_pair(*arguments), run, victim)
        assert code == 2, err
    for process in start_pair("--resume", run, "--quiet"):
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err
    expected, found = (load_file(folder / "model.safetensors") for folder in (whole, run))
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_all_processes_end_when_the_first_may_not_write(toy_file, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    pair = start_pair(toy_file, "--out", run, *options())
    errors = [process.communicate(timeout=100)[1] for process in pair]
    assert [process.returncode for process in pair] == [2, 2]
    assert "already exists" in errors[0]
    assert "process 1 of 2 ends because process 0 failed" in errors[1]
    assert not list(run.iterdir())


def test_shares_are_equal_and_cover_everything():
    for count in (0, 1, 7, 240):
        shares = [Processes(rank, 3).share(count) for rank in range(3)]
        assert [n for share in shares for n in range(count)[share]] == list(range(count))
        assert max(s.stop - s.start for s in shares) - min(s.stop - s.start for s in shares) <= 1


def test_alone_there_is_nothing_to_exchange():
    rows = torch.arange(3)
    assert ALONE.gather(rows) is rows
    assert ALONE.sum(rows) is rows
    assert ALONE.agree(5) == 5
    with pytest.raises(RuntimeError, match=r"^out of memory$"), clear_loss_of_contact(Processes(0, 2)):
        raise RuntimeError("out of memory")
    with pytest.raises(RuntimeError, match=r"^Connection closed by peer$"), clear_loss_of_contact(ALONE):
        raise RuntimeError("Connection closed by peer")


EMPTY = """
import os, sys
import numpy as np
from acova.training import inference
from acova.estimators.registry import METHODS
inference.CHUNK = 32  # the last chunk of 65 samples has one, for two processes
arrays = np.load(sys.argv[1])
views = {name: arrays[name] for name in arrays.files if name != "observed"}
settings = dict(hidden=(16,), latent_dim=3, batch_size=64, learning_rate=3e-3, pretrain_epochs=3, warmup_epochs=3,
                epochs=3, device=sys.argv[3], precision="float32", random_state=0)
found = {}
for name in ("ACOVA", "MVP"):
    known = METHODS[name].setting_names()
    model = METHODS[name].from_settings(3, **{option: value for option, value in settings.items() if option in known})
    model.fit(views, observed=arrays["observed"])
    found |= {f"{name}-history": model.history_["total"], f"{name}-p": model.probabilities_}
    found |= {f"{name}-{key}": value.cpu() for key, value in model.network_.state_dict().items()}
np.savez(f"{sys.argv[2]}-{os.environ.get('RANK', '0')}.npz", **found)
"""


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_a_process_may_have_no_row_of_a_batch(tmp_path, device):
    """65 samples in batches of 64: the last batch is one sample, which one of two processes holds.

    A CPU leaves hidden rows out, a GPU computes them: both must get on with none at all. Tolerances are those of sums
    in another order, over few steps.
    """
    views, _ = make_toy(n_samples=65)
    np.savez(tmp_path / "toy.npz", observed=views.observed, **dict(zip(views.names, views.arrays, strict=True)))
    script = tmp_path / "script.py"
    script.write_text(EMPTY)
    done = torchrun(script, tmp_path / "toy.npz", tmp_path / "two", device)
    assert done.returncode == 0, done.stderr
    alone = [sys.executable, script, tmp_path / "toy.npz", tmp_path / "one", device]
    subprocess.run(alone, env=environment(), check=True)
    one, *two = (np.load(tmp_path / name) for name in ("one-0.npz", "two-0.npz", "two-1.npz"))
    for name in one.files:
        np.testing.assert_array_equal(two[0][name], two[1][name], err_msg=name)
        np.testing.assert_allclose(two[0][name], one[name], rtol=1e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("mapped", [False, True])
def test_no_rows_at_all_give_no_loss_and_no_gradient(mapped):
    network = MultiViewVAE(
        [5, 4], 3, 2, hidden=(8,), likelihoods=["gaussian", "bernoulli"], alpha=1.0, correlation=torch.eye(2)
    )
    network.mapped = mapped
    batch = Batch([torch.zeros(0, 5), torch.zeros(0, 4)], torch.zeros(0, 2, dtype=torch.bool))
    for loss in (
        network.autoencoding_loss(batch),
        network.warmup_loss(batch, torch.zeros(0, 2, 3), kl_weight=1.0),
        network.loss(batch, torch.zeros(0, 2, 3)),
    ):
        assert loss["total"].shape == (0,)
        network.zero_grad()
        loss["total"].sum().backward()
        assert all(not p.grad.any() for p in network.parameters() if p.grad is not None)
    assert all(p.grad is not None for p in network.parameters())
