"""Specs and stores that are damaged or made to do harm: each gives an error of this package with a useful text."""

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from acova.base import DataWarning, FileError, OptionError, ProcessError
from acova.bench import BenchSpec, Store, run_bench
from acova.bench.cells import Results
from acova.bench.figures import FIGURES, write_figures
from acova.bench.rows import row_line
from acova.bench.score_tables import show_tables, write_tables
from acova.bench.spec import FIGURES as FIGURE_NAMES
from acova.cli.bench import spread
from acova.console import csv_safe
from conftest import make_toy

ROOT = Path(__file__).resolve().parents[2]
SPEC = 'data = ["digits"]\nmethods = ["Concat"]\n'
posix = pytest.mark.skipif(os.name != "posix", reason="FIFOs, devices and signals of POSIX systems")


def method(text):
    return f'data = ["digits"]\nmethods = [{{ name = "Concat", {text} }}]\n'


SPECS = {
    "no TOML": ("data = [", r"spec\.toml is not the TOML file it should be"),
    "not UTF-8": (b'data = ["\xff\xfe"]', r"spec\.toml is not the TOML file it should be: 'utf-8' codec"),
    "binary": (bytes(range(256)), r"spec\.toml is not the TOML file it should be"),
    "deep lists": (SPEC + "x = " + "[" * 5000 + "]" * 5000, r"spec\.toml is not the TOML file.*nested too deeply"),
    "deep tables": (
        SPEC + "[quick.settings]\n" + ".".join("a" * 500) + " = 1",
        "quick.settings.a.a.*is nested deeper than 20 levels",
    ),
    "deep setting": (method("settings = { a = " + "[" * 60 + "]" * 60 + " }"), "is nested deeper than 20 levels"),
    "a huge integer": (SPEC + "runs = " + "9" * 5000, r"spec\.toml is not the TOML file.*Exceeds the limit"),
    "key twice": (SPEC + "runs = 1\nruns = 2", "Cannot overwrite a value"),
    "empty": ("", "missing required field data"),
    "no methods": ('data = ["digits"]', "missing required field methods"),
    "data is a text": ('data = "digits"\nmethods = ["Concat"]', "data: must be a list; got a text"),
    "data is a table": ('methods = ["Concat"]\n[data]\nname = "x"', "data: must be a list; got a table"),
    "data are numbers": ('data = [1]\nmethods = ["Concat"]', r"data\[0\]: must be a text or table; got a integer"),
    "data without a name": (
        'data = [{ source = "x" }]\nmethods = ["Concat"]',
        r"data\[0\]: .*missing required field name",
    ),
    "a name that is a number": ('data = [{ name = 1 }]\nmethods = ["Concat"]', r"data\[0\].name: must be a text"),
    "views is a text": (
        'data = [{ name = "x", views = "image" }]\nmethods = ["Concat"]',
        r"data\[0\].views: must be a list; got a text",
    ),
    "views twice": ('data = [{ name = "x", views = ["a", "a"] }]\nmethods = ["Concat"]', "views must have different"),
    "options is a list": ('data = [{ name = "x", options = [1] }]\nmethods = ["Concat"]', "options: must be a table"),
    "methods in lists": ('data = ["digits"]\nmethods = [["Concat"]]', r"methods\[0\]: must be a text or table"),
    "settings is a list": (method("settings = [1]"), r"methods\[0\].settings: must be a table; got a list"),
    "a date as a setting": (method("settings = { alpha = 2020-01-01 }"), "settings.alpha must be a number, text"),
    "NaN as a setting": (method("settings = { alpha = nan }"), "settings.alpha must be a number, text.*got nan"),
    "preset is a number": (method("preset = 1"), r"methods\[0\].preset: must be a true/false; got a integer"),
    "on is a text": (method('on = "cub"'), r"methods\[0\].on: must be a table"),
    "on is flat": (method("on = { cub = 1 }"), r"methods\[0\].on: must be a table; got a integer"),
    "on names no data": (method("on = { digitz = { balance = true } }"), "on must be .*Did you mean 'digits'"),
    "sweep is a number": (method("sweep = { alpha = 1 }"), r"methods\[0\].sweep: must be a list; got a integer"),
    "sweep is a text": (method('sweep = { alpha = "abc" }'), r"methods\[0\].sweep: must be a list; got a text"),
    "sweep is empty": (method("sweep = { alpha = [] }"), r"methods\[0\].sweep.alpha is empty"),
    "sweep is a bomb": (
        method("sweep = { " + ", ".join(f"{x} = [{', '.join(map(str, range(50)))}]" for x in "abcdefgh") + " }"),
        "more than 10,000 combinations",
    ),
    "an unknown scale": (method('scale = "z"'), "scale must be 'none', 'zscore', 'balanced', 'auto'; got 'z'"),
    "an unknown field": (method('label = "x"'), "unknown entry 'label'.*Did you mean 'labels'"),
    "an unknown entry": (SPEC + "mising = [1]", "unknown entry 'mising'.*Did you mean 'missing'"),
    "missing is a number": (SPEC + "missing = 10", "missing: must be a list; got a integer"),
    "missing is empty": (SPEC + "missing = []", "missing is empty; name at least one"),
    "missing twice": (SPEC + "missing = [10, 10.0]", "missing must have different entries"),
    "missing is NaN": (SPEC + "missing = [nan]", "missing must be a number at least 0 and at most 100; got nan"),
    "missing is negative": (SPEC + "missing = [-1]", "missing must be .*got -1"),
    "missing is huge": (SPEC + "missing = [inf]", "missing must be .*got inf"),
    "missing is true": (SPEC + "missing = [true]", r"missing\[0\]: must be a integer or number; got a true/false"),
    "runs is zero": (SPEC + "runs = 0", "runs must be an integer at least 1"),
    "runs is half": (SPEC + "runs = 1.5", "runs: must be a integer; got a number"),
    "runs without end": (SPEC + "runs = 1000000000000", "runs must be an integer at least 1 and at most 10000"),
    "fits without end": (
        SPEC + "runs = 10000\nmissing = [" + ", ".join(map(str, range(101))) + "]",
        "would be 1,010,000 fits; at most 1,000,000",
    ),
    "metrics is empty": (SPEC + "metrics = []", "metrics is empty; name at least one"),
    "an unknown metric": (SPEC + 'metrics = ["accuracy"]', "metrics must be 'acc'"),
    "metrics twice": (SPEC + 'metrics = ["acc", "acc"]', "metrics must have different entries"),
    "an unknown figure": (SPEC + 'figure = "rank"', "figure must be .*Did you mean 'ranks'"),
    "a sweep without x": (SPEC + 'figure = "sweep"', "figure 'sweep' needs x"),
    "a date as title": (SPEC + "title = 2020-01-01", "title: must be a text"),
    "alone is a text": (SPEC + 'alone = "yes"', "alone: must be a true/false; got a text"),
    "quick is a list": (SPEC + "quick = [1]", "quick must be a table; got"),
    "quick has no such field": (SPEC + "[quick]\nrun = 1", "unknown entry 'run'.*Did you mean 'runs'"),
    "quick runs zero": (SPEC + "[quick]\nruns = 0", "quick.runs must be an integer at least 1"),
    "quick missing is a text": (SPEC + '[quick]\nmissing = "10"', "quick.missing: must be a list"),
    "an empty method": ('data = ["digits"]\nmethods = [""]', "method: name must be a text that is not empty"),
    "a name in two lines": ('data = ["a\\nb"]\nmethods = ["Concat"]', "name must be a text without control characters"),
    "a name for terminals": ('data = ["\\u001b[31m"]\nmethods = ["Concat"]', "without control characters"),
    "a long name": (f'data = ["{"x" * 300}"]\nmethods = ["Concat"]', "name must be at most 200 characters long"),
    "NUL in a source": (
        'data = [{ name = "x", source = "a\\u0000b" }]\nmethods = ["Concat"]',
        "source must be a text wi",
    ),
    "a method twice": ('data = ["digits"]\nmethods = ["BSV", "BSV"]', "methods must have different names"),
    "a dangling reference": (SPEC + 'reference = "Concate"', "reference must be 'Concat'.*Did you mean"),
}


@pytest.mark.parametrize("case", SPECS)
def test_a_crafted_spec_is_refused_with_its_field(case, tmp_path):
    content, text = SPECS[case]
    path = tmp_path / "spec.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises((FileError, OptionError), match=r"(?s)spec\.toml.*" + text.replace(r"spec\.toml", "")):
        BenchSpec.from_toml(path)


NAMES = ["../esc", "a/b", "/abs", "..", ".", "a\\b", "", " ", "a\0b", "a\nb", "\x1b[0m", "nul", "COM1.x", "x" * 151]
NAMES += ["é" * 80, ".hidden", "-rf", "a:b", "a?", "trailing.", "trailing ", "C:\\x", "a*b", "<b>"]


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_has_a_name_that_files_can_have(name):
    with pytest.raises(OptionError, match=r"benchmark.*: name must"):
        BenchSpec.from_dict({"name": name, "data": ["digits"], "methods": ["Concat"]})


def test_a_scale_may_be_given_as_none():
    """The word stands for no value in settings alone."""
    (one,) = BenchSpec.from_dict(
        {"name": "x", "data": ["none"], "methods": [{"name": "none", "use": "BSV", "scale": "none"}]}
    ).methods
    assert (one.name, one.scale) == ("none", "none")


# --- stores -------------------------------------------------------------------------------------


def row(number, **more):
    scores = {"acc": 0.7375, "nmi": 0.5, "ari": 0.5, "purity": 0.5, "seconds": 1.0}
    place = {"dataset": "toy", "missing_percent": 50, "method": "Concat", "run": number}
    return {"key": f"{number:024x}", **place, **({} if "failed" in more else scores), **more}


LINES = [row_line(row(number)) for number in range(3)]
STORE = b"".join(LINES)


def changed(number=1, **more):
    """Return a store with a row of an earlier version, which has no checksum, that says something else."""
    content = {name: value for name, value in {**row(number), **more}.items() if value is not None}
    return b"".join([LINES[0], json.dumps(content).encode() + b"\n", LINES[2]])


def middle(line):
    return LINES[0] + line + b"\n" + LINES[2]


NOT_A_STORE = r"is not a store of benchmark rows: its first line is not a row in JSON\. Give --store a new file"
STORES = {
    "an npz file": (b"PK\x03\x04" + bytes(200), NOT_A_STORE),
    "a csv file": (b"a,b\n1,2\n", NOT_A_STORE),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), NOT_A_STORE),
    "words": (b"hello", NOT_A_STORE),
    "zeros": (bytes(5000), NOT_A_STORE),
    "a JSON list": (b"[1, 2]\n", NOT_A_STORE),
    "a JSON file": (b'{\n  "key": 1\n}\n', NOT_A_STORE),
    "other rows": (b'{"else": 1}\n', NOT_A_STORE),
    "other rows without an end": (b'{"else": 1}', NOT_A_STORE),
    "UTF-16": (STORE.decode().encode("utf-16"), NOT_A_STORE),
    "a flipped digit": (STORE.replace(b"0.7375", b"0.7975", 1), "line 1 was changed after it was written"),
    "a flipped digit later": (middle(LINES[1][:-1].replace(b"0.7375", b"0.7374")), "line 2 was changed after it was"),
    "a flipped checksum": (
        middle(LINES[1][:-4] + b'0"}' if LINES[1][-4:-3] != b"0" else LINES[1]),
        "line 2 was changed",
    ),
    "a foreign line": (
        middle(b"<<<<<<< HEAD"),
        r"line 2 is not a row of JSON.*Delete line 2; its fit is then run again",
    ),
    "a line cut in the middle": (middle(LINES[1][:40]), "line 2 is not a row of JSON"),
    "two rows in a line": (LINES[0] + LINES[1][:-1] + LINES[2], "line 2 is not a row of JSON: Extra data"),
    "a number": (middle(b"5"), "line 2 is not a row: expected an object with a key, got 5"),
    "null": (middle(b"null"), "line 2 is not a row: expected an object"),
    "a list": (middle(b"[]"), "line 2 is not a row: expected an object"),
    "deep": (middle(b'{"key": ' + b"[" * 100_000), "line 2 is not a row of JSON: nested too deeply"),
    "not UTF-8": (middle(b'{"key": "\xff"}'), "line 2 is not a row of JSON: 'utf-8' codec"),
    "a huge integer": (middle(b'{"key": ' + b"9" * 5000 + b"}"), "line 2 is not a row of JSON: Exceeds the limit"),
    "zeros at the end": (STORE + bytes(100), "line 4 is neither a row nor the beginning of one"),
    "words at the end": (STORE + b"done", "line 4 is neither a row nor the beginning of one.*Delete line 4"),
    "no key": (changed(key=None), "line 2 is not a valid row: .*missing required field key"),
    "a key that is a number": (changed(key=5), "line 2 is not a valid row: Expected str, got int - at key"),
    "a key that is a path": (changed(key="../../etc/passwd"), "line 2 is not a valid row: .*key"),
    "no data set": (changed(dataset=None), "missing required field dataset"),
    "no score": (changed(acc=None), "line 2 is not a valid row: missing required field acc"),
    "a score that is a text": (changed(acc="0.9"), "Expected float.*got str - at acc"),
    "a score above one": (changed(acc=9.3), "Expected float <= 1.0 - at acc"),
    "a score below zero": (changed(nmi=-0.1), "Expected float >= 0.0 - at nmi"),
    "a score that is NaN": (changed(acc=float("nan")), "Expected float >= 0.0 - at acc"),
    "a score that is true": (changed(purity=True), "got bool - at purity"),
    "endless seconds": (changed(seconds=float("inf")), "at seconds"),
    "negative seconds": (changed(seconds=-1), "at seconds"),
    "a rate above 100": (changed(missing_percent=500), "at missing_percent"),
    "a negative run": (changed(run=-1), "at run"),
    "a run that is a text": (changed(run="0"), "at run"),
    "epochs that are a text": (changed(epochs="9"), "at epochs"),
    "failed without a text": (changed(failed=1), "at failed"),
    "settings in a list": (changed(settings=[1]), "at settings"),
    "guards that are words": (changed(guards={"clipped": "many"}), r"at guards"),
    "records in a list": (changed(records=[]), "at records"),
    "a matrix that is not square": (
        changed(records={"correlation": {"views": ["a", "b"], "matrix": [[1.0]]}}),
        "matrix must have one row and one column per view - at records.correlation",
    ),
    "a map without classes": (changed(records={"embedding": {"points": [[0, 1]], "classes": []}}), "the same length"),
    "a history of words": (changed(records={"history": {"total": ["x"]}}), "at records.history"),
}


@pytest.mark.parametrize("case", STORES)
def test_a_crafted_store_is_refused_and_left_as_it_is(case, tmp_path):
    content, text = STORES[case]
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(FileError, match=rf"(?s)rows\.jsonl.*{text}"):
        Store(path)
    assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["rows.jsonl"]


def test_a_score_that_a_bit_changed_is_found():
    """Of all single flips in a line each is found, or changes nothing that the row says."""
    from acova.bench.rows import row_of

    line, content, silent = LINES[1][:-1], row(1), 0
    for place in range(len(line)):
        for bit in (0, 4):
            flipped = bytearray(line)
            flipped[place] ^= 1 << bit
            try:
                found = row_of(bytes(flipped), "line")
            except FileError:
                continue
            silent += 1
            assert {name: found[name] for name in content} == content
    assert silent < 10  # in the name of the checksum


def test_rows_without_a_checksum_and_unfinished_stores_are_read(tmp_path):
    path = tmp_path / "rows.jsonl"
    old = b"".join(json.dumps(row(number)).encode() + b"\n" for number in range(3))
    path.write_bytes(old)
    assert list(Store(path).rows.values()) == [row(number) for number in range(3)]
    for cut in range(2, len(LINES[2])):
        path.write_bytes(STORE[:-cut])
        with pytest.warns(DataWarning, match="line 3 is unfinished"):
            store = Store(path)
        store.append([row(2)])
        assert Store(path).rows == {f"{n:024x}": row(n) for n in range(3)}
        assert path.read_bytes() == STORE
    path.write_bytes(b"")
    assert Store(path).rows == {}


@pytest.mark.parametrize("name", sorted(path.name for path in (ROOT / "results").glob("*.jsonl")))
def test_stored_results_are_read(name):
    if name in ("plain_loop.jsonl", "quality.jsonl", "seeds.jsonl"):  # of other programs
        with pytest.raises(FileError, match="is not a store of benchmark rows"):
            Store(ROOT / "results" / name)
        return
    rows = [json.loads(line) for line in (ROOT / "results" / name).read_text().splitlines()]
    content = [{field: value for field, value in one.items() if field != "crc"} for one in rows]
    assert Store(ROOT / "results" / name).rows == {one["key"]: one for one in content}


@posix
def test_a_store_is_a_file(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, text in (
        (tmp_path / "pipe", "is a device, pipe or socket, not a store"),
        (tmp_path / "empty", "is a folder, not a store of benchmark rows"),
        ("/dev/null", "is a device, pipe or socket"),
        ("/dev/full", "is a device, pipe or socket"),
        (tmp_path / "loop", "failed: Too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "failed: File name too long"),
        (tmp_path / "a\0b", "contains a NUL character"),
    ):
        with pytest.raises(FileError, match=text):
            Store(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"cannot be opened|Not a directory"):
        Store(tmp_path / "file" / "rows.jsonl").append([row(0)])
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


FULL = """
import resource, sys
from acova.base import FileError
from acova.bench import Store
store, size = Store(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
place = dict(dataset="toy", missing_percent=50, method="A", acc=0.5, nmi=0.5, ari=0.5, purity=0.5, seconds=1.0)
try:
    store.append([{**place, "key": f"{n:024x}", "run": n} for n in range(50)])
except FileError as error:
    print(error)
"""


@posix
def test_rows_that_do_not_fit_on_the_disk_leave_the_store_as_it_was(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(STORE)
    command = [sys.executable, "-c", FULL, path, str(len(STORE) + 1000)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert re.search(r"writing .*rows\.jsonl failed: File too large\. Check .* free space", done.stdout)
    assert path.read_bytes() == STORE


def test_a_damaged_store_of_the_folder_is_named_and_gives_no_rows(tmp_path):
    (tmp_path / "other.jsonl").write_bytes(changed(acc=7))
    with pytest.warns(DataWarning, match=r"No rows are taken from another store.*other\.jsonl, line 2"):
        assert Store(tmp_path / "mine.jsonl").borrow([row(0)["key"]]) == 0


# --- the command line ---------------------------------------------------------------------------


SPY = """
from pathlib import Path
Path(__file__).with_name("imported").touch()
class Own:
    def __init__(self, n_clusters):
        self.n_clusters = n_clusters
    def fit_predict(self, views):
        return [0 if view[0] > 0 else 1 for view in views[0]]
def data(**options):
    raise AssertionError("data are not loaded")
"""


@pytest.fixture
def folder(tmp_path):
    """A spec with a module beside it that leaves a file when it is imported."""
    views, labels = make_toy(missing=0.0)
    np.savez(tmp_path / "toy.npz", labels=labels, **dict(zip(views.names, views.arrays, strict=True)))
    (tmp_path / f"spy_{tmp_path.name}.py").write_text(SPY)
    (tmp_path / "spec.toml").write_text(
        f'runs = 2\nmissing = [50]\nmethods = ["Concat", {{ name = "own", use = "spy_{tmp_path.name}:Own" }}]\n'
        f'data = [{{ name = "toy", source = "toy.npz" }}, {{ name = "made", source = "spy_{tmp_path.name}:data" }}]\n'
        "[quick]\nruns = 1\nsettings = { epochs = 5 }\n"
    )
    return tmp_path


def test_showing_runs_no_code_of_the_spec(acova, folder):
    for more in ((), ("--quick",), ("--runs", 100), ("--set", "epochs=1"), ("--methods", "mine:Other")):
        code, shown, said = acova("bench", folder / "spec.toml", "--out", folder / "out", "--show", *more)
        assert (code, said) == (0, ""), said
        assert "No results yet: toy, made" in shown
    assert not (folder / "imported").exists()
    before = list(sys.path)
    code, _, said = acova("bench", folder / "spec.toml", "--out", folder / "out", "--jobs", 1, "--quiet")
    assert (folder / "imported").exists()
    assert "made takes no part: its source fails with AssertionError: data are not loaded" in said
    assert sys.path == before


OPTIONS = {
    "--jobs 0": "--jobs must be an integer at least 1; got 0. Or give -1 for all cores",
    "--jobs -5": "--jobs must be an integer at least 1; got -5",
    "--runs 0": "--runs must be an integer at least 1 and at most 10000; got 0",
    "--runs -3": "--runs must be an integer at least 1 and at most 10000; got -3",
    "--runs 100000000": "--runs must be an integer at least 1 and at most 10000",
    "--missing 200": "--missing must be a number at least 0 and at most 100; got 200",
    "--missing nan": "--missing must be a number at least 0 and at most 100; got nan",
    "--missing -1": "--missing must be a number at least 0 and at most 100; got -1",
    "--group-size 0": "--group-size must be an integer at least 1; got 0",
    "--limit 0s": "--limit must be a number above 0; got 0",
    "--budget -3s": "--budget must be a time such as 90s, 20m or 2h; got '-3s'",
    "--backend spark": "--backend must be 'local', 'dask', 'ray'; got 'spark'",
    "--set epochs": "--set takes NAME=VALUE",
    "--store /": "/ is a folder, not a store of benchmark rows",
    "--out FILE": "failed: File exists",
    "--out FILE/x": "failed: Not a directory",
    "--store FILE": "is not a store of benchmark rows",
}


@pytest.mark.parametrize("words", OPTIONS)
def test_an_option_is_named_as_it_was_typed(words, acova, folder):
    precious = folder / "precious.npz"
    shutil.copy(folder / "toy.npz", precious)
    arguments = words.replace("FILE", str(precious)).split(" ")
    arguments += [] if "--out" in words else ["--out", folder / "out"]
    code, _, said = acova("bench", folder / "spec.toml", *arguments)
    assert (code, said.count("\n")) == (2, 1), said
    assert OPTIONS[words] in said
    assert precious.read_bytes() == (folder / "toy.npz").read_bytes()
    assert not (folder / "imported").exists()


def test_a_list_option_without_a_value_is_said(acova, folder):
    assert spread(["x.toml", "--methods", "--quick"]) == ["x.toml", "--methods", "--quick"]
    code, _, said = acova("bench", folder / "spec.toml", "--out", folder / "out", "--methods")
    assert code == 2
    assert "--methods" in said


def test_more_runs_than_the_spec_has_are_in_the_files_too(acova, folder):
    arguments = ["--out", folder / "out", "--methods", "Concat", "--datasets", "toy", "--jobs", 1, "--quiet"]
    assert acova("bench", folder / "spec.toml", *arguments, "--runs", 4)[0] == 0
    table = pd.read_csv(folder / "out" / "spec.csv")
    assert table.query("dataset == 'toy' and method == 'Concat'")["runs"].tolist() == [4] * 4


@pytest.mark.parametrize("given", [{"n_jobs": 0}, {"budget": -1}, {"budget": float("nan")}, {"limit": 0}])
def test_options_of_a_run_in_python(given, tmp_path):
    spec = BenchSpec.from_dict({"name": "x", "data": ["digits"], "methods": ["Concat"]})
    with pytest.raises(OptionError, match=f"run_bench: {next(iter(given))} must be"):
        run_bench(spec, Store(tmp_path / "rows.jsonl"), **given)


def test_published_values_are_checked_before_anything_runs(acova, folder):
    text = (folder / "spec.toml").read_text()
    (folder / "spec.toml").write_text(f'published = "known.csv"\n{text}')
    for content, expected in (
        (None, "failed: No such file"),
        (b"a,b\n1,2\n", "columns dataset"),
        (b"\xff", "failed: "),
    ):
        if content is not None:
            (folder / "known.csv").write_bytes(content)
        code, _, said = acova("bench", folder / "spec.toml", "--out", folder / "out")
        assert (code, said.count("\n")) == (2, 1), said
        assert "known.csv" in said
        assert expected in said
    assert not (folder / "imported").exists()


# --- modules ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "use", "text"),
    [
        ("raise ValueError('a\\x1bb')", "Own", "its code fails with ValueError: a.b"),
        ("import sys; sys.exit(3)", "Own", "its code fails with SystemExit: 3"),
        ("def broken(:", "Own", "its code fails with SyntaxError"),
        ("x = 1", "Own", "has no 'Own' that can be called"),
        ("Own = 1", "Own", "has no 'Own' that can be called"),
        ("class Own:\n    def __init__(self, depth=1): ...", "Own", "has no setting 'dept'.*Did you mean 'depth'"),
    ],
)
def test_a_module_that_cannot_be_used_takes_no_part(code, use, text, tmp_path, request):
    name = f"bad_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(code)
    settings = {"dept": 1} if "depth" in code else {}
    content = {"name": "own", "use": f"{name}:{use}", "settings": settings}
    spec = BenchSpec.from_dict({"name": "x", "data": ["digits"], "methods": [content]}, folder=str(tmp_path))
    outcome = run_bench(spec, Store(tmp_path / "rows.jsonl"), n_jobs=1)
    assert re.search(text, outcome.problems["own"])
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_module_of_the_same_name_elsewhere_is_not_taken_for_it(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / f"same_{tmp_path.name}.py").write_text("class Own: ...")
    content = {"name": "x", "data": ["digits"], "methods": [{"name": "own", "use": f"same_{tmp_path.name}:Own"}]}
    problems = [
        run_bench(
            BenchSpec.from_dict(content, folder=str(tmp_path / place)), Store(tmp_path / "x.jsonl"), budget=0
        ).problems
        for place in ("one", "two")
    ]
    assert problems[0] == {}
    assert "is loaded. Give the file another name" in problems[1]["own"]


def test_a_benchmark_changes_nothing_of_the_process(folder):
    import random

    import torch

    spec = BenchSpec.from_toml(folder / "spec.toml")

    def state():
        numpy_state = np.random.get_state()  # noqa: NPY002
        return [
            torch.get_num_threads(),
            torch.get_rng_state().tolist(),
            str(numpy_state),
            random.getstate(),
            sys.path[:],
        ]

    before = state()
    run_bench(spec, Store(folder / "rows.jsonl"), n_jobs=1)
    assert state() == before


# --- kills --------------------------------------------------------------------------------------

RUNNER = """
import sys, time
from acova.bench import BenchSpec, Store, run_bench
append = Store.append
def slowly(self, rows):
    append(self, rows)
    print("row", flush=True)
    time.sleep(float(sys.argv[3]))
Store.append = slowly
run_bench(BenchSpec.from_toml(sys.argv[1]), Store(sys.argv[2]), n_jobs=1)
"""


@posix
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_benchmark_goes_on_to_the_same_store(how, folder):
    (folder / "spec.toml").write_text(
        'runs = 6\nmissing = [50]\ndata = [{ name = "toy", source = "toy.npz" }]\n'
        f'methods = [{{ name = "own", use = "spy_{folder.name}:Own" }}]\n'  # no wait for torch
    )
    spec = BenchSpec.from_toml(folder / "spec.toml")
    path = folder / "rows.jsonl"
    command = [sys.executable, "-c", RUNNER, folder / "spec.toml", path, "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "row\n"
        process.send_signal(how)
        assert process.wait(timeout=30) == -how
    assert len(Store(path).rows) == 1
    outcome = run_bench(spec, Store(path), n_jobs=1)
    assert (outcome.found, outcome.done, outcome.elsewhere) == (1, 5, 0)
    whole = Store(folder / "whole.jsonl")
    run_bench(spec, whole, n_jobs=1)
    kept = [{key: one for key, one in row.items() if key not in ("seconds", "time")} for row in whole.rows.values()]
    found = Store(path).rows
    for one in kept:
        assert {key: found[one["key"]][key] for key in one} == one
    assert len(found) == len(kept) == 6


@posix
def test_a_worker_that_is_ended_from_outside_is_said(tmp_path):
    name = f"dying_{tmp_path.name}"
    code = "import os\nclass Own:\n    def fit_predict(self, views):\n        os.kill(os.getpid(), 9)\n"
    (tmp_path / f"{name}.py").write_text(code)
    content = {"name": "x", "data": ["digits"], "methods": [{"name": "own", "use": f"{name}:Own"}], "missing": [50]}
    spec = BenchSpec.from_dict({**content, "runs": 2}, folder=str(tmp_path))
    with pytest.raises(ProcessError, match=r"Finished fits are in the store\. Use fewer --jobs, or --limit"):
        run_bench(spec, Store(tmp_path / "rows.jsonl"), n_jobs=2)


# --- names in tables ----------------------------------------------------------------------------

HARMFUL = [
    "[/red]",
    "a[b]",
    "=cmd|' /C calc'!A0",
    "+1-x",
    "@SUM(A1)",
    "<script>|*x*",
    "$\\frac{",
    "_x_ \\ ~^#%{}",
    ":heart:",
]


def test_names_mean_nothing_to_terminals_spreadsheets_markdown_latex_and_figures(tmp_path, capsys):
    content = {"data": ["cub", "[/red]"], "missing": [10, 30], "runs": 2, "metrics": ["acc"], "reference": "[/red]"}
    spec = BenchSpec.from_dict(
        {"name": "names", "title": "=1 [/b] <i>", **content, "methods": [{"name": n, "use": "BSV"} for n in HARMFUL]}
    )
    fits = {}
    for number, fit in enumerate(spec.fits()):
        fits.setdefault(fit.key, {**row(fit.run), "key": fit.key, "acc": 0.5 + number % 7 / 20})
    store = Store(tmp_path / "rows.jsonl")
    store.append(fits.values())
    results = Results.of(spec, store)
    show_tables(results, ["acc"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in HARMFUL)
    table, markdown, latex = (path.read_text() for path in write_tables(results, tmp_path))
    cells = pd.read_csv(tmp_path / "names.csv")
    assert set(cells["method"]) == {csv_safe(name) for name in HARMFUL}
    assert not any(str(cell).startswith(("=", "+", "-", "@")) for cell in cells.to_numpy().ravel())
    assert "'=cmd|" in table
    assert "<script>" not in markdown
    assert "&lt;script&gt;\\|\\*x\\*" in markdown
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in markdown.splitlines() if line.startswith("|")} <= {4, 5, 6}
    assert r"\_x\_ \textbackslash{} \textasciitilde{}\textasciicircum{}\#\%\{\}" in latex
    for figure in FIGURES:
        object.__setattr__(spec, "figure", figure)
        object.__setattr__(spec, "x", "alpha")
        write_figures(results, tmp_path)  # whatever it is drawn of, no name is a formula and nothing fails


def test_csv_cells():
    cells = ["a", "=1+1", "-0.5", "+3", "-x", "\tx", "\rx", "@x", 1.5, "1e5", "-"]
    assert list(map(csv_safe, cells)) == ["a", "'=1+1", "-0.5", "+3", "'-x", "'\tx", "'\rx", "'@x", 1.5, "1e5", "'-"]
    assert tuple(FIGURES) == FIGURE_NAMES
