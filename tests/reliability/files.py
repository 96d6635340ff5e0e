"""The table of inputs, the damaged files of `tests/data/test_fuzz.py` and the data sets of `test_adversarial.py`."""

import signal
import tempfile
from collections.abc import Iterable
from pathlib import Path

from reliability.cases import judge
from reliability.inputs import all_cases
from reliability.tally import Tally

SECONDS_PER_INPUT = 60
FILES_PER_ROUND = 40


def inputs(folder: Path, rounds: Iterable[int]) -> Tally:
    """Judge every bad or odd input; one that is not answered in time ends the process."""
    tally = Tally()
    for _ in rounds:
        for case in all_cases():
            signal.alarm(SECONDS_PER_INPUT)
            with tempfile.TemporaryDirectory() as place:
                tally.note(judge(case, Path(place)), case.name)
            signal.alarm(0)
    return tally


def readers(folder: Path, rounds: Iterable[int]) -> Tally:
    """Read damaged files with every reader."""
    from data.test_fuzz import READERS, soak

    tally = Tally()
    for number in rounds:
        counts, wrong = soak(folder, FILES_PER_ROUND, number * FILES_PER_ROUND)
        tally.wrong += wrong
        for name, count in counts.items():
            tally.right += count["same"]
            tally.refused += count["refused"]
            tally.undetectable += 0 if READERS[name][2] else count["different"]
    return tally


def adversarial(folder: Path, rounds: Iterable[int]) -> Tally:
    """Fit every adversarial data set: finite, and sane or with a `ConvergenceWarning`, or refused."""
    from acova import ACOVA, Concat
    from estimators.test_adversarial import SETS, test_an_adversarial_data_set_is_fitted_or_refused

    tally = Tally()
    for _ in rounds:
        for name, (_, outcome) in SETS.items():
            for method in (ACOVA, Concat):
                try:
                    test_an_adversarial_data_set_is_fitted_or_refused(name, method)
                    answer = "refused" if outcome == "refused" else "right"
                except BaseException as error:  # failures of pytest are no exceptions
                    answer = f"{type(error).__name__}: {error}"
                tally.note(answer, f"{name}, {method.__name__}")
    return tally
