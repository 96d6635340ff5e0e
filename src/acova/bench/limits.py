"""A fit that may take only so long."""

import multiprocessing
from collections.abc import Sequence
from typing import Any

from acova.bench.entries import Fit
from acova.bench.fitting import failure, run_group


def run_limited(fits: Sequence[Fit], device: str, limit: float) -> list[dict[str, Any]]:
    """Do fits in a process of their own, which is ended after `limit` seconds for each of them."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, fits, device))
    process.start()
    sender.close()
    seconds = limit * len(fits)
    try:
        rows: list[dict[str, Any]] | None = receiver.recv() if receiver.poll(seconds) else None
        reason = f"not done after {limit:g} s"
    except EOFError:
        rows, reason = None, "the process was ended (out of memory?)"
    process.kill()
    process.join()
    return rows or [failure(fit, reason, limit) for fit in fits]


def _send(pipe: Any, fits: Sequence[Fit], device: str) -> None:
    pipe.send(run_group(fits, device))
