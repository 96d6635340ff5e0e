import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from acova.bench import Store

KEYS = [hashlib.sha256(bytes([number])).hexdigest()[:24] for number in range(4)]

posix = pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX systems")

WRITER = """
import sys
from acova.bench.store import Store
store, name, pad = Store(sys.argv[1]), sys.argv[2], "x" * 50_000
print("ready", flush=True)
for number in range(10**6 if sys.argv[3] == "forever" else int(sys.argv[3])):
    store.append([{"key": f"{name}{number:022x}", "pad": pad, "number": number}])
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
    first.append([{"key": KEYS[0], "acc": 0.5, "records": {"history": [1]}}, {"key": KEYS[1], "failed": "no"}])
    assert second.rows == {}
    second.refresh()
    assert second.rows == first.rows == Store(path).rows
    second.append([{"key": KEYS[0], "acc": 0.6, "records": {"correlation": [2]}}, {"key": KEYS[1], "acc": 1.0}])
    second.append([{"key": KEYS[1], "failed": "later"}])
    first.refresh()
    assert first.rows[KEYS[0]] == {"key": KEYS[0], "acc": 0.6, "records": {"history": [1], "correlation": [2]}}
    assert first.rows[KEYS[1]] == {"key": KEYS[1], "acc": 1.0}  # a later failure does not undo a result
    assert path.read_text().count("\n") == 5  # nothing is ever rewritten


def test_a_line_that_was_cut_off_costs_that_line_alone(tmp_path):
    path = tmp_path / "rows.jsonl"
    Store(path).append([{"key": KEYS[0]}, {"key": KEYS[1]}])
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    store = Store(path)
    assert (list(store.rows), store.damaged) == ([KEYS[0]], 0)
    store.append([{"key": KEYS[2]}])
    assert list(store.rows) == [KEYS[0], KEYS[2]]
    assert (list(Store(path).rows), Store(path).damaged) == ([KEYS[0], KEYS[2]], 1)


def test_rows_of_other_stores_count_and_are_not_written_again(tmp_path):
    Store(tmp_path / "one.jsonl").append(
        [{"key": KEYS[0], "acc": 1}, {"key": KEYS[1], "failed": "no"}, {"key": KEYS[2]}]
    )
    (tmp_path / "something.jsonl").write_text('{"else": 1}\n')
    store = Store(tmp_path / "two.jsonl")
    store.append([{"key": KEYS[2], "acc": 3}])
    assert store.borrow(KEYS) == 1
    own = {KEYS[2]: {"key": KEYS[2], "acc": 3}}
    assert store.rows == {**own, KEYS[0]: {"key": KEYS[0], "acc": 1}}
    assert Store(tmp_path / "two.jsonl").rows == own
    assert store.borrow(KEYS) == 0
    store.append([{"key": KEYS[0], "acc": 2}])  # a row of our own counts more
    assert store.rows[KEYS[0]]["acc"] == 2
    assert Store(tmp_path / "two.jsonl").borrow(KEYS) == 0


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_stores_the_one_with_more_of_the_wanted_rows_gives_them(tmp_path, names):
    few, many = (tmp_path / f"{name}.jsonl" for name in names)
    Store(few).append([{"key": KEYS[0], "of": "few"}, {"key": "ff" * 32, "of": "few"}, {"key": "ee" * 32}])
    Store(many).append([{"key": key, "of": "many"} for key in KEYS[:2]])
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
    store = Store(path)
    assert store.damaged <= 3
    for name in ("aa", "bb", "cc"):
        numbers = [row["number"] for key, row in store.rows.items() if key.startswith(name)]
        assert numbers == list(range(len(numbers)))  # the last one at most is lost
        assert numbers
    store.append([{"key": KEYS[0]}])
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
    store.append([{"key": KEYS[2]}])  # writing does not drop claims
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
