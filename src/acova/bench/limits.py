"""A fit that may take only so long."""

import multiprocessing
from collections.abc import Sequence
from typing import Any

from acova.bench.fitting import failure, run_group
from acova.bench.spec import Job


def run_limited(jobs: Sequence[Job], device: str, limit: float) -> list[dict[str, Any]]:
    """Fit jobs in a process of their own, which is ended after `limit` seconds for each of them."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, jobs, device))
    process.start()
    theirs.close()
    seconds = limit * len(jobs)
    try:
        rows: list[dict[str, Any]] | None = mine.recv() if mine.poll(seconds) else None
        reason = f"not done after {limit:g} s"
    except EOFError:
        rows, reason = None, "the process was ended (out of memory?)"
    process.kill()
    process.join()
    return rows or [failure(job, reason, limit) for job in jobs]


def _send(pipe: Any, jobs: Sequence[Job], device: str) -> None:
    pipe.send(run_group(jobs, device))
