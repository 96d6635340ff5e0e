import hashlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

from acova.base import DataWarning
from acova.bench import Store

KEYS = [hashlib.sha256(bytes([number])).hexdigest()[:24] for number in range(4)]

posix = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX systems")

SCORES = {"acc": 0.5, "nmi": 0.5, "ari": 0.5, "purity": 0.5, "seconds": 1.0}
MATRIX = {"views": ["a"], "matrix": [[1.0]]}


def row(key, **more):
    """Return a row as the runner makes it."""
    place = {"dataset": "toy", "method": "Concat", "missing_percent": 50, "run": 0}
    return {"key": key, **place, **({} if "failed" in more else SCORES), **more}


WRITER = f"""
import sys
place = {row("00", run=1)}
from acova.bench.store import Store
store, name, pad = Store(sys.argv[1]), sys.argv[2], "x" * 50_000
print("ready", flush=True)
for number in range(10**6 if sys.argv[3] == "forever" else int(sys.argv[3])):
    store.append([{{**place, "key": f"{{name}}{{number:022x}}", "pad": pad, "number": number}}])
"""

HOLDER = """
import sys, time
from acova.bench.store import Store
store = Store(sys.argv[1])
print([store.claim(key) for key in sys.argv[2:]], flush=True)
time.sleep(600)
"""


def start(program, *arguments):
    """Start a process; return it and its first line."""
    process = subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def kill(process):
    process.send_signal(signal.SIGKILL)
    process.communicate()


def test_rows_come_back_and_the_latest_of_a_key_counts(tmp_path):
    path = tmp_path / "deep" / "rows.jsonl"
    first, second = Store(path), Store(path)
    first.append([row(KEYS[0], acc=0.5, records={"history": {"total": [1.0]}}), row(KEYS[1], failed="no")])
    assert second.rows == {}
    second.refresh()
    assert second.rows == first.rows == Store(path).rows
    second.append([row(KEYS[0], acc=0.6, records={"correlation": MATRIX}), row(KEYS[1], acc=1.0)])
    second.append([row(KEYS[1], failed="later")])
    first.refresh()
    assert first.rows[KEYS[0]] == row(KEYS[0], acc=0.6, records={"history": {"total": [1.0]}, "correlation": MATRIX})
    assert first.rows[KEYS[1]] == row(KEYS[1], acc=1.0)  # a later failure does not undo a result
    assert path.read_text().count("\n") == 5  # nothing is ever rewritten


def test_a_line_that_was_cut_off_costs_that_line_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    Store(path).append([row(KEYS[0]), row(KEYS[1])])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.warns(DataWarning, match=r"rows\.jsonl, line 2 is unfinished.*its fit is run again"):
        store = Store(path)
    assert list(store.rows) == [KEYS[0]]
    store.append([row(KEYS[2])])
    assert list(store.rows) == list(Store(path).rows) == [KEYS[0], KEYS[2]]
    assert path.read_bytes().startswith(whole.splitlines(keepends=True)[0])
    path.write_bytes(whole[:-1])  # whole but for the end of its line
    assert list(Store(path).rows) == KEYS[:2]
    Store(path).append([row(KEYS[2])])
    assert list(Store(path).rows) == KEYS[:3]
    assert path.read_bytes().count(b"\n") == 3


def test_rows_of_other_stores_count_and_are_not_written_again(tmp_path):
    Store(tmp_path / "one.jsonl").append([row(KEYS[0], acc=1), row(KEYS[1], failed="no"), row(KEYS[2])])
    (tmp_path / "something.jsonl").write_text('{"else": 1}\n')
    store = Store(tmp_path / "two.jsonl")
    store.append([row(KEYS[2], acc=0.3)])
    assert store.borrow(KEYS) == 1
    own = {KEYS[2]: row(KEYS[2], acc=0.3)}
    assert store.rows == {**own, KEYS[0]: row(KEYS[0], acc=1)}
    assert Store(tmp_path / "two.jsonl").rows == own
    assert store.borrow(KEYS) == 0
    store.append([row(KEYS[0], acc=0.2)])  # a row of our own counts more
    assert store.rows[KEYS[0]]["acc"] == 0.2
    assert Store(tmp_path / "two.jsonl").borrow(KEYS) == 0


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_stores_the_one_with_more_of_the_wanted_rows_gives_them(tmp_path, names):
    few, many = (tmp_path / f"{name}.jsonl" for name in names)
    Store(few).append([row(KEYS[0], of="few"), row("ff" * 32, of="few"), row("ee" * 32)])
    Store(many).append([row(key, of="many") for key in KEYS[:2]])
    store = Store(tmp_path / "mine.jsonl")
    assert store.borrow(KEYS) == 2
    assert {row["of"] for row in store.rows.values()} == {"many"}


def test_two_processes_that_write_at_once_do_not_mix_their_lines(tmp_path):
    path = tmp_path / "rows.jsonl"
    processes = [start(WRITER, path, name, 60)[0] for name in ("aa", "bb")]
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == 120
    for name in ("aa", "bb"):
        assert [row["number"] for row in rows if row["key"].startswith(name)] == list(range(60))


@posix
def test_killed_writers_leave_whole_rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    for name in ("aa", "bb", "cc"):
        process, _ = start(WRITER, path, name, "forever")
        while not path.exists() or f'"{name}' not in path.read_text():
            time.sleep(0.01)
        kill(process)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the last line may be unfinished
        store = Store(path)
    for name in ("aa", "bb", "cc"):
        numbers = [row["number"] for key, row in store.rows.items() if key.startswith(name)]
        assert numbers
        assert numbers == list(range(len(numbers)))  # the last one at most is lost
    store.append([row(KEYS[0])])
    assert KEYS[0] in Store(path).rows


@posix
def test_a_job_belongs_to_one_runner_until_it_ends(tmp_path):
    path = tmp_path / "rows.jsonl"
    store = Store(path)
    assert store.claim(KEYS[0])
    assert not store.claim(KEYS[0])  # not twice in one process either
    assert not Store(path).claim(KEYS[0])
    holder, said = start(HOLDER, path, KEYS[0], KEYS[1])
    assert said == "[False, True]"
    assert not store.claim(KEYS[1])
    assert store.claim(KEYS[2])
    store.append([row(KEYS[2])])  # writing does not drop claims
    _, said = other = start(HOLDER, path, KEYS[0], KEYS[2], KEYS[3])
    assert said == "[False, False, True]"
    kill(holder)  # nothing is cleaned up by the holder
    assert store.claim(KEYS[1])
    store.release([KEYS[0]])
    _, said = third = start(HOLDER, path, KEYS[0])
    assert said == "[True]"
    for process, _ in (other, third):
        kill(process)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_place_where_nothing_can_be_written(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(Exception, match="put the store where you may write"):
        Store(tmp_path / "rows.jsonl").claim(KEYS[0])
