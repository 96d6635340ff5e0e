import signal
from collections.abc import Iterator

import pytest

from reliability.cases import Case, judge
from reliability.inputs import all_cases

CASES = all_cases()
_SECONDS = 60
"""A reader that waits for a pipe would wait for ever."""


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    def give_up(number: int, frame: object) -> None:
        msg = f"no answer within {_SECONDS} s"
        raise TimeoutError(msg)

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(_SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_input_is_right_or_refused_in_the_librarys_words(case: Case, tmp_path):
    assert judge(case, tmp_path) == ("refused" if isinstance(case.expects, str) else "right")


def test_there_are_enough_cases_and_no_name_twice():
    names = [case.name for case in CASES]
    assert len(names) >= 150
    assert len(set(names)) == len(names)
