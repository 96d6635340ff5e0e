"""kill -9 at chosen or random moments: what is left must be whole, and a resumed fit must end bit-identical.

Two ways to choose the moment:

- `killed_at_file_operations` forks this process and kills the child just before its n-th operation on a file below a
  folder (open, rename, remove, mkdir, rmdir). With every n it covers every state that a kill can leave of a `save`, at
  some hundredths of a second each.
- `fit_with_kills` starts ``acova fit`` as a process of its own, kills it after so many seconds, resumes it, kills it
  again, … and lets the last one finish. It asks after each kill whether what is there is whole.

Both return how many kills took place, since a process may end before its moment comes.
"""

import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path

_OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate")


def killed_at_file_operations(
    act: Callable[[], object], folder: Path, check: Callable[[], object], moments: Iterable[int] | None = None
) -> int:
    """Kill a forked child before the n-th file operation of `act` below `folder`, for each n, and call `check`.

    Parameters
    ----------
    act : callable
        Runs in the child; every call must start from what the kills before have left.
    folder : Path
    check : callable
        Runs here after each kill.
    moments : iterable of int, optional
        Numbers n; by default 0, 1, … until the child comes to its end.
    """
    kills = 0
    for moment in moments if moments is not None else range(10_000):
        child = os.fork()
        if not child:
            _die_at(moment, str(folder))
            code = 1
            try:
                act()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            kills += 1
            check()
            continue
        if os.WEXITSTATUS(status):
            msg = f"the child failed instead of being killed at operation {moment}"
            raise RuntimeError(msg)
        if moments is None:
            break
    check()
    return kills


def _die_at(moment: int, folder: str) -> None:
    seen = 0

    def look(event: str, arguments: tuple) -> None:
        nonlocal seen
        if event in _OPERATIONS and str(arguments[0]).startswith(folder):
            if seen == moment:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    sys.addaudithook(look)


def fit_with_kills(
    arguments: Iterable[object], run: Path, moments: Iterable[float], check: Callable[[], object] = lambda: None
) -> int:
    """Run ``acova fit ARGUMENTS --out RUN``, kill and resume it at these moments, and let the last one finish.

    Parameters
    ----------
    arguments : iterable
        Data and options, without ``--out`` and ``--resume``.
    run : Path
    moments : iterable of float
        Seconds from the start of a process (of which importing torch takes two or more) to its kill.
    check : callable
        Called after each kill; for example a look at the old run that ``--force`` replaces.
    """
    first = [*map(str, arguments), "--out", str(run)]
    kills = 0
    for seconds in moments:
        process = start_fit(*_next(first, run))
        end = time.monotonic() + seconds
        while process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        ended = process.poll() is not None
        process.send_signal(signal.SIGKILL)
        _, err = process.communicate()
        if ended:
            if process.returncode:
                raise RuntimeError(err)
            return kills
        kills += 1
        check()
    process = start_fit(*_next(first, run))
    _, err = process.communicate(timeout=600)
    if process.returncode and "nothing to resume" not in err:
        raise RuntimeError(err)
    return kills


def start_fit(*arguments: object) -> subprocess.Popen:
    """Start ``acova fit`` with one thread."""
    command = [sys.executable, "-m", "acova", "fit", *map(str, arguments)]
    environment = {"OMP_NUM_THREADS": "1", **os.environ}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def _next(first: list[str], run: Path) -> list[str]:
    """Return the arguments that go on: the first ones until there is a command to resume."""
    swapped = run.with_name(f".{run.name}.old")
    return ["--resume", str(run), "--quiet"] if any((p / "command.json").exists() for p in (run, swapped)) else first
