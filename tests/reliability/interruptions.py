"""kill -9 and SIGTERM at random moments of a fit, a save and a benchmark, which must end as if undisturbed.

Every act runs in a forked child, which spends no time on imports; so moments fall on the work itself. The parent never
trains: torch forbids a child to train after its parent did.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from acova.base import RunFolderError
from acova.bench import BenchSpec, Store, run_bench
from acova.estimators import load_method
from conftest import SMALL, make_toy
from reliability.cases import command
from reliability.tally import Tally, forked, same_bits, signalled

SETTINGS = {**SMALL, "pretrain_epochs": 4, "warmup_epochs": 4, "epochs": 6, "n_init": 2, "checkpoint_every": 1}
SIGNALS_PER_FIT = 5
"""After so many interruptions a fit may end."""
DONE = "there is nothing to resume"
"""What a resumed fit says if the kill came after the new run was in place, before the old one was removed."""


def toy_file(folder: Path) -> Path:
    """Write the toy, and return its place."""
    views, labels = make_toy(n_samples=90)
    arrays = dict(zip(views.names, views.arrays, strict=True))
    np.savez(folder / "toy.npz", observed=views.observed, labels=labels, **arrays)
    return folder / "toy.npz"


def options(**settings: Any) -> list[str]:
    """Return settings as the words of a command line."""
    words = ["--clusters", "3", "--quiet", "--device", "cpu"]
    for name, value in {**SETTINGS, **settings}.items():
        text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
        words += [f"--{name.replace('_', '-')}", text]
    return words


def must(act: Callable[[], object]) -> float:
    """Run an act in a child process to its end; return the seconds."""
    start = time.monotonic()
    answer = forked(act, seconds=600)
    if answer != "right":
        raise RuntimeError(answer)
    return time.monotonic() - start


def fits(folder: Path, rounds: Iterable[int], number: int = signal.SIGKILL) -> Tally:
    """Interrupt fits on the command line, resume them, and compare the end with a fit that nobody interrupted.

    Every second fit replaces a finished run, which must be whole until the new one is.
    """
    tally, rng, toy, total = Tally(), random.Random(0), toy_file(folder), 0
    old = folder / "old" / "run"
    must(partial(command, "fit", toy, "--out", old, *options(random_state=1)))
    start = partial(command, "fit", toy, *options(), "--force", "--out")
    seconds = must(partial(start, folder / "whole" / "run"))
    whole, before = load_file(folder / "whole" / "run" / "model.safetensors"), load_file(old / "model.safetensors")
    for at in rounds:
        run = folder / f"place{at}" / "run"
        if at % 2:
            shutil.copytree(old, run)
        signals = 0
        while not _finished(run, whole):
            act = partial(command, "fit", "--resume", run, "--quiet") if _begun(run) else partial(start, run)
            if signals == SIGNALS_PER_FIT:
                last = forked(act, DONE)
                if last not in ("right", "refused"):
                    tally.note(last, f"fit {at}, the last time")
                break
            answer = signalled(act, rng.uniform(0, seconds), number)
            signals += 1
            if answer not in ("killed", "right") and DONE not in answer:
                tally.note(answer, f"fit {at}")
            if at % 2 and not same_bits(_tensors(run), before) and not _finished(run, whole):
                tally.note("the run that is replaced is no longer whole", f"fit {at}")
        equal = same_bits(load_file(run / "model.safetensors"), whole)
        # A process that dies between its last rename and its end leaves a lock file, which locks nothing.
        litter = {path.name for path in run.parent.iterdir()} - {"run", ".run.lock"}
        tally.note("right" if equal and not litter else f"ended otherwise; left {litter}", f"fit {at}")
        shutil.rmtree(run.parent)
        total += signals
    tally.remark = f"{total:,} signals"
    return tally


def _begun(run: Path) -> bool:
    return any((place / "command.json").exists() for place in (run, run.with_name(".run.old")))


def _tensors(run: Path) -> dict[str, Any]:
    """Return the arrays of a finished run, which loads, wherever a kill has left it."""
    model = load_method(run)
    place = run if (run / "model.safetensors").exists() else run.with_name(".run.old")
    return load_file(place / "model.safetensors") if model.n_clusters == 3 else {}


def _finished(run: Path, whole: dict[str, Any]) -> bool:
    try:
        load_method(run)
    except RunFolderError:
        return False
    return same_bits(_tensors(run), whole) and not _begun(run)


def terminations(folder: Path, rounds: Iterable[int]) -> Tally:
    """Do the same with SIGTERM, after which the command ends by itself."""
    return fits(folder, rounds, signal.SIGTERM)


def saves(folder: Path, rounds: Iterable[int]) -> Tally:
    """Kill a save that replaces a run; what is there must be the old or the new run, whole."""
    tally, rng, toy, kills = Tally(), random.Random(0), toy_file(folder), 0
    for seed in (0, 1):
        must(partial(command, "fit", toy, "--out", folder / str(seed), *options(random_state=seed)))
    models = [load_method(folder / str(seed)) for seed in (0, 1)]
    run = folder / "place" / "run"
    run.parent.mkdir()
    seconds = min(must(partial(model.save, run, overwrite=True)) for model in models * 2)
    for at in rounds:
        answer = signalled(partial(models[at % 2].save, run, overwrite=True), rng.uniform(0, 1.1 * seconds))
        kills += answer == "killed"
        if answer in ("killed", "right"):
            found = load_method(run)
            of_seed = models[found.random_state]
            whole = same_bits(found.probabilities_, of_seed.probabilities_) and found.warnings_ == of_seed.warnings_
            new = answer == "killed" or found.random_state == at % 2
            answer = "right" if whole and new else f"{answer}, and the run is {'old' if whole else 'not whole'}"
        tally.note(answer, f"save {at}")
    tally.remark = f"{kills:,} kills"
    models[0].save(run, overwrite=True)
    litter = sorted(os.listdir(run.parent))
    tally.note("right" if litter == ["run"] else f"left {litter}", "after all kills")
    return tally


def benches(folder: Path, rounds: Iterable[int]) -> Tally:
    """Kill benchmarks and start them again; the store must end with the rows of one that nobody killed."""
    tally, rng, toy, total = Tally(), random.Random(0), toy_file(folder), 0
    (folder / "spec.toml").write_text(
        f'name = "kills"\nruns = 2\nmissing = [30]\ndata = [{{ name = "toy", source = "{toy.name}" }}]\n'
        'methods = ["Concat", "KNNImpute", { name = "ACOVA", use = "ACOVA", settings = { epochs = 2, hidden = [8], '
        "pretrain_epochs = 2, warmup_epochs = 2 } }]\n"
    )
    spec = BenchSpec.from_toml(folder / "spec.toml")

    def act(path: Path) -> None:
        outcome = run_bench(spec, Store(path), n_jobs=1)
        if outcome.problems:
            raise RuntimeError(outcome.problems)

    seconds = min(must(partial(act, folder / f"whole{n}.jsonl")) for n in range(2))
    whole = _rows(folder / "whole0.jsonl")
    if len(whole) != 6:
        msg = f"the benchmark gave {len(whole)} rows instead of 6"
        raise RuntimeError(msg)
    for at in rounds:
        path, kills = folder / f"rows{at}.jsonl", 0
        while kills < SIGNALS_PER_FIT and (answer := signalled(partial(act, path), rng.uniform(0, seconds))) != "right":
            kills += 1
            if answer != "killed":
                tally.note(answer, f"benchmark {at}")
        must(partial(act, path))
        same = _rows(path) == whole
        tally.note("right" if same else "other rows than those of a benchmark that nobody killed", f"benchmark {at}")
        total += kills
    tally.remark = f"{total:,} kills"
    return tally


def _rows(path: Path) -> dict[str, dict[str, Any]]:
    """Return the rows of a store, without what a clock wrote."""
    clock = ("seconds", "time")
    return {key: {k: v for k, v in row.items() if k not in clock} for key, row in Store(path).rows.items()}
