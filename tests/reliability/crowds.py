"""Many predictions at once, many fits at once, and many fits in a row."""

import gc
import os
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from acova.estimators import load_method, make_method
from conftest import SMALL, make_toy
from reliability.tally import Tally, same_bits

TINY = {**SMALL, "pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 2, "imputer_epochs": 1, "initial_epochs": 1}
TINY |= {"iterations": 2, "device": "cpu"}
MEGABYTES = 24
"""By how much the memory of the process may grow between an early fit and the last one."""


def tiny(name: str, **settings: Any) -> Any:
    """Return an estimator of a method that trains in a moment."""
    known = make_method(name).get_settings()
    return make_method(name, n_clusters=3, **{k: v for k, v in {**TINY, **settings}.items() if k in known})


def answers(model: Any, views: Any) -> list[Any]:
    """Return what a model says of samples."""
    found = [model.predict(views)]
    for way in ("predict_proba", "transform", "score_samples"):
        if hasattr(model, way):
            found.append(getattr(model, way)(views))
    return found


def predicting(folder: Path, rounds: Iterable[int], n_threads: int = 64) -> Tally:
    """Let many threads predict on one model at the same moment; each must get the bits that it gets alone."""
    tally, views = Tally(), make_toy(n_samples=640)[0]
    models = [tiny(name).fit(views) for name in ("ACOVA", "MVP", "CPSPAN", "KNNImpute")]
    parts = [views.take(np.arange(start, len(views), n_threads)) for start in range(n_threads)]
    for number in rounds:
        model = models[number % len(models)]
        alone = [answers(model, part) for part in parts]
        gate = threading.Barrier(n_threads)

        def ask(part: Any, model: Any = model, gate: threading.Barrier = gate) -> list[Any]:
            gate.wait(timeout=60)
            return answers(model, part)

        with ThreadPoolExecutor(n_threads) as pool:
            for place, found in enumerate(pool.map(ask, parts)):
                equal = same_bits(found, alone[place])
                tally.note("right" if equal else "other bits than alone", f"{type(model).__name__}, thread {place}")
    return tally


def fitting_at_once(folder: Path, rounds: Iterable[int], n_threads: int = 4) -> Tally:
    """Fit in several threads at the same moment; each must end as it does alone, with the same seed."""
    tally, views = Tally(), make_toy(n_samples=90)[0]
    names = ("ACOVA", "DVIMC", "MVP", "CPSPAN", "PMIMC", "Concat")

    def fitted(job: tuple[str, int]) -> list[Any]:
        model = tiny(job[0], random_state=job[1]).fit(views)
        weights = model.network_.state_dict() if hasattr(model, "network_") else {}
        return [model.labels_, model.history_["total"], *(value.numpy() for value in weights.values())]

    alone: dict[tuple[str, int], list[Any]] = {}
    with ThreadPoolExecutor(n_threads) as pool:
        for number in rounds:
            jobs = [(names[(number + place) % len(names)], place % 2) for place in range(2 * n_threads)]
            for job in jobs:
                if job not in alone:
                    alone[job] = fitted(job)
            for job, found in zip(jobs, pool.map(fitted, jobs), strict=True):
                tally.note("right" if same_bits(found, alone[job]) else "ended otherwise than alone", job)
    return tally


def fitting_in_a_row(folder: Path, rounds: Iterable[int], warm: int = 100) -> Tally:
    """Fit, predict, save and load again and again; memory, open files and threads must stay as they are.

    The first `warm` fits may fill caches; what is taken then is compared with the end.
    """
    tally, views = Tally(), make_toy(n_samples=60)[0]
    names = ("ACOVA", "KNNImpute", "MVP", "Concat", "CPSPAN", "DVIMC", "BSV", "DCP", "DSIMVC", "PMIMC")
    first: dict[tuple[str, int], list[Any]] = {}
    early = late = taken()
    for number in rounds:
        if number == warm:
            early = taken()
        name = names[number % len(names)]
        model = tiny(name, n_init=1 + number % 2, checkpoint=folder / "state" if number % 3 else None).fit(views)
        model.save(folder / "run", overwrite=True)
        key = (name, number % 2)
        found = answers(load_method(folder / "run"), views)
        tally.note("right" if same_bits(found, first.setdefault(key, found)) else "other bits than the first fit", key)
    late = taken()
    growth = late["MB"] - early["MB"]
    tally.note("right" if growth <= MEGABYTES else f"grew by {growth:.0f} MB", "memory")
    for what in ("open files", "threads"):
        tally.note("right" if late[what] <= early[what] else f"{early[what]:.0f}, then {late[what]:.0f}", what)
    tally.remark = f"{early['MB']:.0f} MB after {warm} fits, {late['MB']:.0f} MB after {tally.cases - 3}"
    return tally


def taken() -> dict[str, float]:
    """Return what this process takes of the machine."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "MB": pages * os.sysconf("SC_PAGE_SIZE") / 1e6,
        "open files": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }
