"""What acova writes is data, whatever the names in it are; what it reads is never run."""

import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import torch

from acova import ACOVA, Concat
from acova.base import AcovaError, OptionError
from acova.bench import BenchSpec, Store
from acova.data import StoredViews, make_observed, read_views
from acova.data.files.exports import write_table
from acova.estimators import load_method
from conftest import SMALL, make_toy
from reliability.cases import command

TINY = {**SMALL, "pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 1, "hidden": (8,)}
NAMES = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "@SUM(A1:A9)",
    "<script>window.hacked = 1</script>",
    "</script><img src=x onerror=alert(1)>",
    "../../../outside",
    "/etc/passwd",
    "two\nlines",
    "comma, \"quote\" and 'apostrophe'",
    "{{ 7 * 7 }}",
    "[/red]",
    "\x1b[31mred",
    "007",
    "NA",
    " blank ",
    "ünïcode 名",
]


@pytest.fixture(scope="module")
def odd():
    """Frames whose samples, columns and views all have names that a careless program would act on."""
    views, _ = make_toy(n_samples=4 * len(NAMES), missing=0.3)
    index = [f"{name}{'.' * (n // len(NAMES))}" for n, name in enumerate(NAMES * 4)]
    columns = {
        view: [NAMES[(v + c) % len(NAMES)] for c in range(views.sizes[v])] for v, view in enumerate(NAMES[1:7:2])
    }
    arrays = zip(columns, views.arrays, strict=False)
    return {view: pd.DataFrame(array, index, columns[view]) for view, array in arrays}


def everything(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def written(odd, tmp_path_factory):
    """All that a model writes, in a folder below others that must stay empty."""
    folder = tmp_path_factory.mktemp("outside") / "a" / "b" / "c"
    folder.mkdir(parents=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ACOVA.from_settings(3, **TINY).fit(odd)
    model.save(folder / "run")
    model.report(folder / "report.html", method="PCA")
    return model, folder


def test_names_never_lead_to_other_places(written):
    _, folder = written
    run = [f"run/{name}" for name in ("config.json", "history.csv", "labels.csv", "model.safetensors")]
    assert everything(folder) == ["report.html", "run", *run]
    assert everything(folder.parents[2]) == ["a", "a/b", "a/b/c", *(f"a/b/c/{name}" for name in everything(folder))]


def test_names_come_back_from_labels_csv_as_they_were(written, odd):
    model, folder = written
    index = next(iter(odd.values())).index
    found = pd.read_csv(folder / "run" / "labels.csv", index_col=0, dtype=str, keep_default_na=False)
    assert list(found.index) == list(index)
    assert list(found["label"].astype(int)) == list(model.labels_)
    loaded = load_method(folder / "run")
    assert list(loaded.assignments().index) == list(index)
    assert loaded.view_names_ == list(odd)


def test_the_report_holds_names_as_text(written):
    _, folder = written
    page = (folder / "report.html").read_text()
    assert "<img src=x" not in page
    assert "<script>window.hacked" not in page
    assert "{{ 7 * 7 }}" in page  # a template that ran it would have written 49


def test_a_workbook_holds_names_as_text(written, odd, tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    model, _ = written
    index = [name for name in next(iter(odd.values())).index if "\x1b" not in name]  # which Excel cannot hold
    write_table(tmp_path / "labels.xlsx", [model.assignments().loc[index]])
    cells = next(iter(openpyxl.load_workbook(tmp_path / "labels.xlsx").active.columns))[1:]
    assert [cell.value for cell in cells] == index
    assert {cell.data_type for cell in cells} <= {"s", "inlineStr"}  # "f" would be a formula


class Malicious:
    def __init__(self, place):
        self._place = place

    def __reduce__(self):
        return Path.mkdir, (self._place,)


def _pickled(path, attack):
    path.write_bytes(pickle.dumps(attack))


def _joblib(path, attack):
    joblib.dump(attack, path)


def _torch(path, attack):
    torch.save(attack, path)


ENDINGS = (
    "csv",
    "tsv",
    "csv.gz",
    "xlsx",
    "parquet",
    "feather",
    "npz",
    "mat",
    "h5",
    "h5ad",
    "h5mu",
    "npy",
    "zarr",
    "pkl",
)


def _resuming(folder):
    return ACOVA.from_settings(3, **TINY, checkpoint=folder)


OTHERS = {
    "model.safetensors of a run": ("run/model.safetensors", lambda folder: load_method(folder / "run")),
    "config.json of a run": ("run/config.json", lambda folder: load_method(folder / "run")),
    "history.csv of a run": ("run/history.csv", lambda folder: load_method(folder / "run")),
    "a checkpoint": ("state/checkpoint.json", lambda folder: _resuming(folder / "state").fit([[[0.0]] * 9])),
    "rows of a benchmark": ("rows.jsonl", lambda folder: Store(folder / "rows.jsonl")),
    "a spec": ("spec.toml", lambda folder: BenchSpec.from_toml(folder / "spec.toml")),
    "command.json of a run": ("new/command.json", lambda folder: command("fit", "--resume", folder / "new")),
}  # fmt: skip


@pytest.mark.parametrize("write", [_pickled, _joblib, _torch])
def test_no_reader_runs_a_pickle(write, tmp_path):
    attack = Malicious(tmp_path / "attacked")
    for ending in ENDINGS:
        (tmp_path / ending).mkdir()
        path = tmp_path / ending / f"a.{ending}"
        write(path, attack)
        for read in (read_views, StoredViews.of):
            for place in (path, path.parent):
                with pytest.raises(AcovaError):
                    read(place)
    Concat(3).fit(make_toy(n_samples=60)[0]).save(tmp_path / "whole")
    for name, (file, read) in OTHERS.items():
        folder = tmp_path / name
        folder.mkdir()
        if file.startswith("run/"):
            (tmp_path / "whole").rename(folder / "run")
        (folder / file).parent.mkdir(exist_ok=True)
        kept = (folder / file).read_bytes() if (folder / file).exists() else b""
        write(folder / file, attack)
        with pytest.raises(AcovaError):
            read(folder)
        (folder / file).write_bytes(kept)
        if file.startswith("run/"):
            (folder / "run").rename(tmp_path / "whole")
    assert not (tmp_path / "attacked").exists()
    write(tmp_path / "own", attack)
    if write is not _torch:
        joblib.load(tmp_path / "own")  # the attack works
    else:
        torch.load(tmp_path / "own", weights_only=False)
    assert (tmp_path / "attacked").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full, as on Linux")
@pytest.mark.parametrize("words", [["--version"], ["datasets"]])
def test_a_standard_output_that_is_full_is_an_error_of_one_line(words):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "acova", *words], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().startswith("error: writing to standard output failed: No space left on device.")
    assert done.stderr.count(b"\n") == 1


def test_a_reader_of_the_output_that_went_away_is_no_error():
    command_line = [sys.executable, "-m", "acova", "datasets"]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""


def test_seeds_of_masks_are_those_of_fits():
    state = np.random.RandomState(3)
    masks = [make_observed(30, 3, 0.5, random_state=state) for _ in range(2)]
    assert (masks[0] != masks[1]).any()
    assert (make_observed(30, 3, 0.5, random_state=np.random.RandomState(3)) == masks[0]).all()
    for value in ("x", 1.5, True, [1]):
        with pytest.raises(OptionError, match=r"make_observed: random_state must be an integer from 0"):
            make_observed(30, 3, 0.5, random_state=value)
