"""The short form of `make soak`: every section with a few cases, each section in a process of its own."""

import json
import os
import subprocess
import sys
import time
import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

import soak

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes, limits and mounts as on Linux")

GROUPS = {
    "processes": {"saves": 12, "terminations": 1, "benchmarks": 1},
    "disks": {"limits": 6, "folders": 6, "devices": 100},
    "bits and threads": {"stores": 100, "flips": 40, "predictions": 2},
}
"""Sections that no other test tries, and how many rounds take a few seconds."""
REFUSING = ("limits", "disks", "folders", "devices", "flips", "stores")


@pytest.mark.parametrize("group", GROUPS)
def test_sections_of_the_soak_in_short(group):
    jobs = {name: {"seconds": 600, "most": most} for name, most in GROUPS[group].items()}
    for name, found in soak.run(jobs).items():
        assert found["wrong"] == [], name
        if "left out" not in found["remark"]:
            assert found["right"] + found["refused"] >= min(GROUPS[group][name], 20), name
            assert found["refused"] or name not in REFUSING, name


def test_memory_open_files_and_threads_stay_over_many_fits(tmp_path):
    from reliability.crowds import fitting_in_a_row

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # two epochs are few
        tally = fitting_in_a_row(tmp_path, range(30), warm=15)
    assert tally.wrong == []
    assert tally.right == 30 + 3


def test_odd_inputs_without_asserts():
    """`PYTHONOPTIMIZE=1`: every check of settings, files and commands is still there."""
    command = [sys.executable, "-O", str(soak.HERE / "reliability" / "inputs.py"), "a negative"]
    done = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["refused"] >= 13


# --- the soak finds what is wrong -----------------------------------------------------------------


def test_what_is_wrong_is_counted_and_named(tmp_path):
    from acova.base import DataError
    from reliability.cases import Case, judge
    from reliability.tally import Tally, forked, same_bits, signalled

    def refuse():
        raise DataError("view 'a' is bad")

    tally = Tally()
    for case in (
        Case("refused", lambda folder: refuse(), "view 'a'"),
        Case("right", lambda folder: 1, lambda found: found == 1),
        Case("other words", lambda folder: refuse(), "view 'b'"),
        Case("a foreign error", lambda folder: 1 / 0, "zero"),
        Case("not refused", lambda folder: 1, "one"),
        Case("another result", lambda folder: 1, lambda found: found == 2),
    ):
        tally.note(judge(case, tmp_path), case.name)
    assert (tally.right, tally.refused, len(tally.wrong)) == (1, 1, 4)
    assert "ZeroDivisionError, which is not the library's" in tally.wrong[1]
    assert forked(refuse, "is bad") == "refused"
    assert "the error does not say" in forked(refuse, "is good")
    assert "ZeroDivisionError" in forked(lambda: 1 / 0)
    assert forked(lambda: sys.exit(3)).rstrip().endswith("SystemExit: 3")
    assert "signal 9" in forked(lambda: os.kill(os.getpid(), 9))
    assert "no answer" in forked(lambda: time.sleep(60), seconds=0.1)
    assert signalled(lambda: time.sleep(60), 0.05) == "killed"
    assert same_bits([1.0, {"a": 2}], [1.0, {"a": 2}])
    assert not same_bits([0.0], [-0.0])
    assert not same_bits({"a": 1}, {"b": 1})


def test_a_section_that_dies_is_wrong(monkeypatch):
    monkeypatch.setattr(soak, "HERE", soak.HERE / "nowhere")
    (text,) = soak.run({"kills": {"seconds": 1, "most": 1}})["kills"]["wrong"]
    assert "the section ended with 2" in text


def test_the_page_shows_the_figures_that_were_kept(tmp_path):
    kept = json.loads(soak.RESULTS.read_text())
    assert soak.table(kept) in soak.PAGE.read_text()
    assert not any(one["wrong"] for one in kept.values())
    page = tmp_path / "page.md"
    page.write_text(f"above\n{soak.START}\nold\n{soak.END}\nbelow\n")
    counts = {"right": 1200, "refused": 0, "undetectable": 3, "wrong": ["x"], "remark": "slow"}
    text = soak.put({"kills": counts}, page.read_text())
    assert text.startswith("above\n")
    assert text.endswith("below\n")
    assert "old" not in text
    assert "| 1,204 | 1,200 | 0 | 3 | 1 | slow |" in text
