"""Full disks, read-only folders and devices: what writes is refused in the library's words, and nothing is lost.

Every act runs in a forked child under the fault. Then the parent looks at what is there: the old state, or the new one,
whole. At last the fault ends and the act must succeed.
"""

import os
import random
import resource
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from acova import ACOVA
from acova.base import AcovaError
from acova.bench import Store
from acova.estimators import load_method
from reliability.cases import command
from reliability.interruptions import SETTINGS, must, options, toy_file
from reliability.tally import Tally, forked, same_bits

REASONS = "File too large|No space left on device|Permission denied|Read-only file system"
NO_PLACE = "is a device|is a pipe|Not a directory|File exists|Permission denied|not a run folder|must end in|regular"
NOBODY = 65534
ROOT = os.geteuid() == 0
_SCORES = {"acc": 0.5, "nmi": 0.5, "ari": 0.5, "purity": 0.5, "seconds": 1.0}
ROWS = [
    {"dataset": "toy", "missing_percent": 50, "method": "A", **_SCORES, "key": f"{n:024x}", "run": n} for n in range(60)
]


@dataclass
class World:
    """Data, two finished runs, and a folder that an act changes."""

    toy: Path
    runs: tuple[Path, Path]
    place: Path

    def __post_init__(self) -> None:
        self.models = [load_method(run) for run in self.runs]
        self.arrays = dict(np.load(self.toy))

    def furnish(self) -> None:
        """Put the old state into the place."""
        for thing in self.place.iterdir():
            shutil.rmtree(thing) if thing.is_dir() else thing.unlink()
        shutil.copytree(self.runs[0], self.place / "run")
        (self.place / "labels.csv").write_text("old\n")
        (self.place / "report.html").write_text("<!DOCTYPE html>\n<!-- acova report --></html>\n")
        Store(self.place / "rows.jsonl").append(ROWS[:5])


@dataclass(frozen=True)
class Act:
    """What writes, and whether what is there after it is whole: "old", "new", or what is wrong."""

    do: Callable[[World], object]
    state: Callable[[World], str]
    largest: int
    """About how many bytes it writes to one file."""


def _fit(world: World) -> None:
    settings = options(random_state=1)
    command("fit", world.toy, "--out", world.place / "run", *settings, "--force")


def _checkpointed(world: World) -> None:
    views = {name: array for name, array in world.arrays.items() if name not in ("observed", "labels")}
    model = ACOVA.from_settings(3, **{**SETTINGS, "random_state": 1}, checkpoint=world.place / "state", device="cpu")
    model.fit(views, observed=world.arrays["observed"])
    if not same_bits(model.probabilities_, world.models[1].probabilities_):
        msg = "the fit ended otherwise than one without a fault"
        raise RuntimeError(msg)


def _run_state(world: World) -> str:
    try:
        found = load_method(world.place / "run")
    except AcovaError as error:
        return f"the run does not load: {error}"
    for name, model in zip(("old", "new"), world.models, strict=True):
        if found.random_state == model.random_state:
            return name if same_bits(found.probabilities_, model.probabilities_) else f"parts of the {name} run"
    return "another run"


def _labels_state(world: World) -> str:
    text = (world.place / "labels.csv").read_text()
    if text == "old\n":
        return "old"
    return "new" if text.startswith("sample,") and text.count("\n") == 91 else "a part of the labels"


def _report_state(world: World) -> str:
    text = (world.place / "report.html").read_text()
    if "<!-- acova report -->" in text:
        return "old"
    return "new" if text.rstrip().endswith("</html>") and len(text) > 50_000 else "a part of the report"


def _store_state(world: World) -> str:
    rows = len(Store(world.place / "rows.jsonl").rows)
    return {5: "old", 60: "new"}.get(rows, f"{rows} rows")


ACTS = {
    "save": Act(lambda w: w.models[1].save(w.place / "run", overwrite=True), _run_state, 60_000),
    "fit": Act(_fit, _run_state, 120_000),
    "checkpoint": Act(_checkpointed, lambda w: "old" if not (w.place / "state").exists() else "new", 120_000),
    "predict": Act(
        lambda w: command("predict", w.runs[1], w.toy, "--out", w.place / "labels.csv", "--force"), _labels_state, 9_000
    ),
    "report": Act(lambda w: w.models[1].report(w.place / "report.html", overwrite=True), _report_state, 400_000),
    "store": Act(lambda w: Store(w.place / "rows.jsonl").append(ROWS[5:]), _store_state, 20_000),
}


def _prepared(folder: Path) -> World:
    toy = toy_file(folder)
    runs = (folder / "run0", folder / "run1")
    for seed, run in enumerate(runs):
        must(partial(command, "fit", toy, "--out", run, *options(random_state=seed)))
    (folder / "place").mkdir()
    world = World(toy, runs, folder / "place")
    world.furnish()
    world.models[1].report(world.place / "warm.html")  # imports what nobody else may import, later
    return world


def _with_fault(world: World, name: str, fault: Callable[[], None], *, end: Callable[[], None] = lambda: None) -> str:
    """Return what came of an act under a fault: "right", "refused", or what was wrong with it or with what it left."""
    act = ACTS[name]
    listing = sorted(os.listdir(world.place))

    def faulty() -> None:
        fault()
        act.do(world)

    answer = forked(faulty, REASONS)
    end()
    if answer not in ("right", "refused"):
        return answer
    if name != "checkpoint" and (found := act.state(world)) != ("new" if answer == "right" else "old"):
        return f"was {answer} and left {found}"
    after = forked(partial(act.do, world))  # with an unfinished fit there, --force starts it again
    if after != "right" or (name != "checkpoint" and act.state(world) != "new"):
        return f"after the fault: {after}"
    litter = sorted((set(os.listdir(world.place)) ^ set(listing)) - {".rows.jsonl.lock"})
    return f"left {litter}" if litter else answer


def limited_files(folder: Path, rounds: Iterable[int]) -> Tally:
    """Let files grow no larger than a random number of bytes, as on a full disk."""
    tally, rng, world = Tally(), random.Random(0), _prepared(folder)
    for number in rounds:
        name = list(ACTS)[number % len(ACTS)]
        size = rng.randrange(int(1.1 * ACTS[name].largest))
        world.furnish()
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))
        tally.note(_with_fault(world, name, limit), f"{name}, {size} bytes")
    return tally


@contextmanager
def _small_disk(place: Path, size: int) -> Iterator[None]:
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def full_disk(folder: Path, rounds: Iterable[int]) -> Tally:
    """Leave a random number of bytes on a file system of its own, or make it read-only; it takes root to mount one."""
    if not ROOT or shutil.which("mount") is None:
        return Tally(remark="left out: it takes root to mount a file system")
    tally, rng, world = Tally(), random.Random(0), _prepared(folder)
    with _small_disk(world.place, 4 * 2**20):
        for number in rounds:
            name = list(ACTS)[number % len(ACTS)]
            world.furnish()
            read_only = number % 5 == 4
            free = rng.randrange(int(1.5 * ACTS[name].largest))
            filler = world.place / "filler"
            filler.touch()
            if read_only:
                subprocess.run(["mount", "-o", "remount,ro", str(world.place)], check=True)
            else:
                disk = os.statvfs(world.place)
                filler.write_bytes(bytes(max(disk.f_bavail * disk.f_frsize - free, 0)))

            def end(filler: Path = filler, *, read_only: bool = read_only) -> None:
                if read_only:
                    subprocess.run(["mount", "-o", "remount,rw", str(world.place)], check=True)
                filler.write_bytes(b"")

            answer = _with_fault(world, name, lambda: None, end=end)
            if read_only and answer == "right":
                answer = "a read-only file system was written to"
            tally.note(answer, f"{name}, {'read-only' if read_only else f'{free} bytes free'}")
    return tally


def read_only_folders(folder: Path, rounds: Iterable[int]) -> Tally:
    """Let somebody write who may not; root may everything, and becomes nobody for it."""
    tally, world = Tally(), _prepared(folder)

    def become_nobody() -> None:
        if ROOT:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)

    for number in rounds:
        name = list(ACTS)[number % len(ACTS)]
        world.furnish()
        places = [world.place, *(path for path in world.place.rglob("*") if path.is_dir())]
        for place in places:
            place.chmod(0o555)

        def end(places: list[Path] = places) -> None:
            for place in places:
                place.chmod(0o755)

        answer = _with_fault(world, name, become_nobody, end=end)
        tally.note("was not refused" if answer == "right" else answer, name)
    return tally


def devices(folder: Path, rounds: Iterable[int]) -> Tally:
    """Name a device, a pipe or a place below a file as the place to write to."""
    tally, world = Tally(), _prepared(folder)
    os.mkfifo(folder / "pipe.csv")
    # Devices of its own: a careless program that runs as root would replace those that everybody uses.
    ours, theirs = os.openpty()
    (folder / "terminal.csv").symlink_to(os.ttyname(theirs))
    places = [os.ttyname(theirs), folder / "terminal.csv", folder / "pipe.csv", world.toy / "run.csv"]
    if ROOT:
        os.mknod(folder / "full.csv", stat.S_IFCHR | 0o666, os.makedev(1, 7))  # as /dev/full
        places.append(folder / "full.csv")
    jobs: list[tuple[str, Callable[[Path], object]]] = [
        ("save", lambda place: load_method(world.runs[0]).save(place, overwrite=True)),
        ("fit", lambda place: command("fit", world.toy, "--out", place, "--force", *options())),
        ("predict", lambda place: command("predict", world.runs[0], world.toy, "--out", place, "--force")),
        ("report", lambda place: load_method(world.runs[0]).report(place, overwrite=True)),
        ("store", lambda place: Store(place).append(ROWS)),
    ]
    for number in rounds:
        if number == len(jobs) * len(places):
            break
        (name, act), place = jobs[number // len(places)], Path(places[number % len(places)])
        kind = place.lstat().st_mode if place.exists() else None
        answer = forked(partial(act, place), NO_PLACE)
        if (place.lstat().st_mode if kind else None) != kind:
            answer = "the device was replaced"
        tally.note("was not refused" if answer == "right" else answer, f"{name} to {place}")
    os.close(ours)
    os.close(theirs)
    return tally
