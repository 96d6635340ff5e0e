"""What became of many cases: how many were right, refused in the library's words, and wrong."""

import os
import random
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from acova.base import AcovaError


@dataclass
class Tally:
    """Counts of cases, and what was wrong with those that were."""

    right: int = 0
    refused: int = 0
    undetectable: int = 0
    """Damaged files that are valid files with other values, in formats without a checksum."""
    wrong: list[str] = field(default_factory=list)
    remark: str = ""

    def note(self, answer: str, where: object = "") -> None:
        """Count one answer: "right", "refused", or what was wrong."""
        if answer == "right":
            self.right += 1
        elif answer == "refused":
            self.refused += 1
        else:
            self.wrong.append(f"{where}: {answer}")

    @property
    def cases(self) -> int:
        return self.right + self.refused + self.undetectable + len(self.wrong)


def rounds(seconds: float, most: int, least: int = 1) -> Iterator[int]:
    """Yield 0, 1, … as long as the time lasts, at least `least` and at most `most` numbers."""
    end = time.monotonic() + seconds
    for number in range(most):
        if number >= least and time.monotonic() > end:
            return
        yield number


def forked(act: Callable[[], object], words: str = "", seconds: float = 120) -> str:
    """Run an act in a child process; return "right", "refused" with words that match, or what was wrong."""
    child, answers = _start(act)
    end = time.monotonic() + seconds
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
        time.sleep(0.002)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    answer = _read(answers)
    if not ended[0]:
        return f"gave no answer within {seconds:g} s"
    if os.WIFSIGNALED(ended[1]):
        return f"was ended by signal {os.WTERMSIG(ended[1])}"
    kind, _, text = answer.partition(" ")
    if kind == "refused" and not re.search(words, text):
        return f"the error does not say {words!r}: {text}"
    return kind if kind in ("right", "refused") else answer


def signalled(act: Callable[[], object], seconds: float, number: int = signal.SIGKILL) -> str:
    """Run an act in a child process and send it a signal after so many seconds.

    Returns
    -------
    str
        "killed", "right" if the act was done before, or what it raised.
    """
    child, answers = _start(act)
    time.sleep(seconds)
    os.kill(child, number)
    _, status = os.waitpid(child, 0)
    answer = _read(answers)
    return "killed" if os.WIFSIGNALED(status) else answer


def _start(act: Callable[[], object]) -> tuple[int, int]:
    """Fork; the child acts, writes what came of it to a pipe, and ends without any handler of its parent."""
    answers, ours = os.pipe()
    child = os.fork()
    if child:
        os.close(ours)
        return child, answers
    for stream in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    try:
        act()
        answer = "right"
    except AcovaError as error:
        answer = f"refused {error}"
    except BaseException:
        answer = traceback.format_exc()
    os.write(ours, answer.encode()[-4000:])
    os._exit(0)


def _read(pipe: int) -> str:
    with os.fdopen(pipe, "rb") as stream:
        return stream.read().decode()


def same_bits(one: Any, other: Any) -> bool:
    """Tell whether two arrays, or collections of arrays, are equal bit for bit."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_bits(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same_bits, one, other))
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def flip_a_bit(content: bytes, rng: random.Random) -> bytes:
    """Return the content with one bit flipped."""
    changed = bytearray(content)
    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)
