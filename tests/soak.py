"""Half an hour of faults, section by section, with counts for docs/reliability.md.

    python tests/soak.py                               # everything, 30 minutes
    python tests/soak.py --seconds 600                 # everything, in a third of the time
    python tests/soak.py kills flips                   # these sections; the others keep their figures
    python tests/soak.py --seconds 60 --page "" disks  # keep no figures

A section runs in a process of its own, so that whatever ends it ends nothing else. Its figures are in
``results/reliability.json`` as soon as it ends. The exit status is 1 if anything was wrong.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RESULTS, PAGE = ROOT / "results" / "reliability.json", ROOT / "docs" / "reliability.md"
START, END = "<!-- counts: written by make soak -->", "<!-- end of counts -->"


@dataclass(frozen=True)
class Section:
    """A kind of fault: what a case of it is, where it is tried, and its share of the time."""

    case: str
    where: str
    """Function of a module of ``tests/reliability``, as ``module:function``."""
    share: float
    most: int = 10**6
    """Rounds after which it ends even if there is time left."""
    options: tuple[tuple[str, str], ...] = ()
    """Changes to the environment."""


INPUTS = "a bad or odd input to a public function or command"
SECTIONS = {
    "readers": Section("a damaged file that is read", "files:readers", 0.22),
    "inputs": Section(INPUTS, "files:inputs", 0.05, 1),
    "optimized": Section(f"{INPUTS}, with `PYTHONOPTIMIZE=1`", "files:inputs", 0.05, 1, (("PYTHONOPTIMIZE", "1"),)),
    "adversarial": Section("an adversarial data set, fitted by ACOVA and by k-means", "files:adversarial", 0.04, 1),
    "kills": Section("a fit that is killed (`kill -9`) up to five times and resumed", "interruptions:fits", 0.12),
    "saves": Section("a save over a finished run, killed at any moment", "interruptions:saves", 0.02, 400),
    "benchmarks": Section("a benchmark that is killed and goes on", "interruptions:benches", 0.06),
    "terminations": Section("a fit that gets SIGTERM and is resumed", "interruptions:terminations", 0.06),
    "limits": Section("a write with a limited size of files", "disks:limited_files", 0.05),
    "disks": Section("a write to a full or read-only file system", "disks:full_disk", 0.05),
    "folders": Section("a write to folders without permission", "disks:read_only_folders", 0.03, 60),
    "devices": Section("a device, a pipe or a file in place of an output", "disks:devices", 0.02),
    "flips": Section("a flipped bit in a saved model", "flips:models", 0.02, 2000),
    "checkpoints": Section("a flipped bit in a checkpoint", "flips:checkpoints", 0.03, 1000),
    "stores": Section("a flipped bit in the rows of a benchmark", "flips:stores", 0.01, 5000),
    "predictions": Section("a thread of 64 that predict on one model", "crowds:predicting", 0.03),
    "threads": Section("a fit in one of four threads", "crowds:fitting_at_once", 0.04),
    "fits": Section("a fit in one process, which also saves and loads", "crowds:fitting_in_a_row", 0.20, 1000),
}
LEAST = {"fits": 1000}
"""Rounds that a section of a whole soak takes even when its time is over."""


def child(jobs: dict[str, dict[str, float]]) -> int:
    """Run sections in this process and print the counts of each."""
    warnings.simplefilter("ignore")
    sys.path.insert(0, str(HERE))
    from reliability.tally import rounds

    wrong = 0
    for name, limits in jobs.items():
        module, _, function = SECTIONS[name].where.partition(":")
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o755)  # also for those who are not this user
            tally = getattr(import_module(f"reliability.{module}"), function)(Path(folder), rounds(**limits))
        wrong += len(tally.wrong)
        seconds = round(time.monotonic() - start)
        sys.stdout.write("\n" + json.dumps({"section": name, **asdict(tally), "seconds": seconds}) + "\n")
        sys.stdout.flush()
    return int(wrong > 0)


def run(jobs: dict[str, dict[str, float]]) -> dict[str, dict[str, Any]]:
    """Run sections, one after the other, in one process of their own; return their counts.

    Parameters
    ----------
    jobs : dict
        Section → ``seconds``, ``most`` and ``least`` rounds.
    """
    # The package of this repository, also where the installed one is another.
    paths = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    options = dict(option for name in jobs for option in SECTIONS[name].options)
    environment = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": paths, **options}
    command = [sys.executable, str(HERE / "soak.py"), "--child", json.dumps(jobs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"section"')]
    found = {line.pop("section"): line for line in lines}
    for name in jobs:
        text = f"the section ended with {done.returncode}: {done.stderr[-1500:]}"
        found.setdefault(
            name, {"right": 0, "refused": 0, "undetectable": 0, "wrong": [text], "remark": "", "seconds": 0}
        )
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Return the counts as a table in Markdown."""
    rows = ["| one case is | cases | right | refused | undetectable | wrong | |", "|---|---:|---:|---:|---:|---:|---|"]
    total = [0] * 5
    for name, section in SECTIONS.items():
        if name in found:
            one = found[name]
            numbers = [one["right"], one["refused"], one["undetectable"], len(one["wrong"])]
            numbers = [sum(numbers), *numbers]
            total = [a + b for a, b in zip(total, numbers, strict=True)]
            cells = [f"{section.case} (`{name}`)", *(f"{number:,}" for number in numbers), one["remark"]]
            rows.append(f"| {' | '.join(cells)} |")
    rows.append(f"| **all** | {' | '.join(f'{number:,}' for number in total)} | |")
    return "\n".join(rows)


def put(found: dict[str, dict[str, Any]], text: str) -> str:
    """Return the text of a page with these counts in its table."""
    before, rest = text.split(START)
    return f"{before}{START}\n\n{table(found)}\n\n{END}{rest.split(END)[1]}"


def main(words: Iterable[str] | None = None) -> int:
    """Run the sections that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sections", nargs="*", help=f"of {', '.join(SECTIONS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=1800, help="for all sections together (default: 1800)")
    parser.add_argument("--page", default=str(PAGE), help="page whose table is replaced; empty to keep no figures")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.child:
        return child(json.loads(given.child))
    if unknown := set(given.sections) - set(SECTIONS):
        parser.error(f"no section is called {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    names = given.sections or list(SECTIONS)
    total = sum(SECTIONS[name].share for name in names)
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    wrong = 0
    for name in names:
        section, least = SECTIONS[name], LEAST.get(name, 1) if given.seconds >= 1800 else 1
        job = {"seconds": given.seconds * section.share / total, "most": section.most, "least": least}
        found = run({name: job})[name]
        kept[name] = {**found, "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"}
        if given.page:
            RESULTS.write_text(json.dumps({key: kept[key] for key in SECTIONS if key in kept}, indent=1) + "\n")
            Path(given.page).write_text(put(kept, Path(given.page).read_text()))
        wrong += len(found["wrong"])
        counts = f"{found['right']} right, {found['refused']} refused, {len(found['wrong'])} wrong"
        sys.stdout.write(f"{name}: {counts}, {found['seconds']} s\n")
        sys.stdout.writelines(f"    {text[:1500]}\n" for text in found["wrong"][:20])
        sys.stdout.flush()
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
