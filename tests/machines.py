"""Run the tests of training as other processors would: with narrower vectors, and with one thread and two.

`make test-machines` runs them all, one setting after the other, and fails if any fails. Sums come in another order
under each setting, so whatever passes here compares before rounding grows, or compares partitions.

    python tests/machines.py                      # every setting, every test of training
    python tests/machines.py --only "avx2"        # the settings whose name contains this
    python tests/machines.py tests/networks -x    # other tests, and options of pytest
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRAINING = ("tests/engine", "tests/networks", "tests/estimators", "tests/compared", "tests/test_processes.py")
CAPABILITIES = {"default": "default", "avx2": "avx2", "unset": None}
# Settings of two libraries that torch brings; a processor of another maker may not know the second.
LIBRARIES = {"ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}


def settings() -> dict[str, dict[str, str]]:
    """Return the settings by name, as changes to an environment without any of these variables."""
    found = {}
    for threads in ("1", "2"):
        for name, word in CAPABILITIES.items():
            capability = {"ATEN_CPU_CAPABILITY": word} if word else {}
            found[f"ATEN_CPU_CAPABILITY {name}, {threads} thread(s)"] = {**capability, "OMP_NUM_THREADS": threads}
    found["libraries with AVX2, 1 thread(s)"] = {**LIBRARIES, "OMP_NUM_THREADS": "1"}
    return found


def run(change: dict[str, str], words: list[str]) -> tuple[bool, str]:
    """Run the tests under a setting; return whether all passed, and pytest's counts, after the names of failures."""
    ours = {"ATEN_CPU_CAPABILITY", "OMP_NUM_THREADS", *LIBRARIES}
    environment = {name: value for name, value in os.environ.items() if name not in ours} | change
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *words]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    counts = [line for line in lines if re.search(r"\d+ (passed|failed|error)", line)]
    bad = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
    # Tests that were all left out, or a pytest that did not start, are no success.
    passed = done.returncode == 0 and bool(counts) and "passed" in counts[-1]
    ending = f"pytest ended with {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}"
    return passed, "\n".join([*bad, counts[-1].strip("= ") if counts else ending])


def main() -> int:
    """Print one line per setting and return 1 if a test failed under any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the settings whose name contains this")
    parser.add_argument("--processes", default="auto", help="processes of pytest (default: auto)")
    chosen, words = parser.parse_known_args()
    parallel = [] if chosen.processes == "0" else [f"--numprocesses={chosen.processes}", "--dist=worksteal"]
    places = words if any(not word.startswith("-") for word in words) else [*TRAINING, *words]
    todo = {name: change for name, change in settings().items() if chosen.only in name}
    if not todo:
        parser.error(f"no setting is called {chosen.only!r}; there are {', '.join(settings())}")
    failed = 0
    for name, change in todo.items():
        start = time.monotonic()
        passed, found = run(change, [*parallel, *places])
        failed += not passed
        sys.stdout.write(f"{'ok    ' if passed else 'FAILED'} {name}: {found} ({time.monotonic() - start:.0f} s)\n")
        sys.stdout.flush()
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
