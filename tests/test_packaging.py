"""What is installed works without the source tree and without any extra."""

import json
import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pandas as pd
import pytest

from conftest import make_toy

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = {
    "parquet": ("pyarrow",),
    "zarr": ("zarr",),
    "excel": ("openpyxl",),
    "hdf5": ("h5py",),
    "omics": ("anndata", "mudata"),
    "umap": ("umap",),
    "survival": ("lifelines",),
    "bench": ("imml",),
    "dask": ("distributed",),
    "docs": ("mkdocs", "jupytext", "nbclient", "rdata"),
}
HIDE = """
import json, sys
OPTIONAL = json.loads(sys.argv.pop())
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in OPTIONAL:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hide())
"""
CORE = """
import sys, acova, acova.data, acova.plots
from pathlib import Path
from acova.cli import app
from acova.data import inspect_data, read_views

folder = Path(sys.argv[1])
assert inspect_data(folder).refusal is None
views = read_views(folder).views
settings = dict(hidden=(16,), latent_dim=3, pretrain_epochs=1, warmup_epochs=1, epochs=1, random_state=0)
model = acova.ACOVA.from_settings(3, **settings).fit(views)
model.save(folder / "run")
assert (acova.ACOVA.load(folder / "run").predict(views) == model.labels_).all()
acova.plots.save_figures(model, views, folder / "figures")
assert not any(sys.modules.get(name) for name in OPTIONAL)
"""
READ = """
import sys
from acova.base import MissingExtraError
from acova.data import StoredViews, read_views
file, core = sys.argv[1:]
assert len(read_views(core).views) == 2
try:
    StoredViews.of({"own": file}) if file.endswith("zarr") else read_views(file)
except MissingExtraError as error:
    print(error)
"""
DEMO = """
import acova, acova.demo, sys
assert acova.__file__.startswith(sys.argv[1]), acova.__file__
digits = acova.demo.load_dataset("digits")
few = acova.demo.Dataset("digits", digits.views.take(range(200)), digits.labels[:200])
acova.demo.load_dataset = lambda name: few
acova.demo.SETTINGS.update(hidden=(16,), pretrain_epochs=1, warmup_epochs=1, epochs=1)
sys.argv = ["acova", "demo", "--quiet"]
from acova.cli import main
main()
"""


def python(code, *arguments, cwd, **environment):
    command = [sys.executable, "-W", "error", "-W", "ignore:ACOVA", "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel, built as ``python -m build`` builds it but without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    code = f"import sys; from hatchling.build import build_wheel; build_wheel({str(folder)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("*.whl"))


def test_the_wheel_is_small_and_holds_the_package_alone(wheel):
    assert wheel.stat().st_size < 2**20
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        told = next(name for name in names if name.endswith("METADATA"))
        metadata = file.read(told).decode()
        scripts = file.read(told.replace("METADATA", "entry_points.txt")).decode()
    assert "acova/py.typed" in names
    assert {name.split("/")[0] for name in names} == {"acova", told.split("/")[0]}
    sources = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src/acova").rglob("*.py")}
    assert sources <= names
    assert "acova = acova.cli:main" in scripts
    for extra in ("parquet", "zarr", "excel", "hdf5", "omics", "docs"):
        assert f"Provides-Extra: {extra}" in metadata


def test_the_demonstration_runs_from_the_wheel_alone(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path / "site")
    (tmp_path / "empty").mkdir()
    done = python(DEMO, tmp_path / "site", cwd=tmp_path / "empty", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 0, done.stderr
    assert "mean-filled k-means" in done.stdout
    assert (tmp_path / "empty" / "acova-demo" / "labels.csv").is_file()


def test_the_core_works_without_any_extra(tmp_path):
    views, _ = make_toy(n_samples=60)
    for v, name in enumerate(views.names):
        pd.DataFrame(views.arrays[v]).dropna().to_csv(tmp_path / f"{name}.csv")
    every = [package for packages in EXTRAS.values() for package in packages]
    done = python(HIDE + CORE, tmp_path, json.dumps(every), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("extra", "file"),
    [
        ("parquet", "a.parquet"),
        ("parquet", "a.feather"),
        ("excel", "a.xlsx"),
        ("hdf5", "a.h5"),
        ("omics", "a.h5mu"),
        ("omics", "a.h5ad"),
        ("zarr", "a.zarr"),
    ],
)
def test_without_one_extra_its_formats_say_so_and_the_others_are_read(extra, file, tmp_path):
    """An extra brings no other's formats with it: those of the core are read with this one hidden alone."""
    (tmp_path / file).write_bytes(b"")
    rows = pd.DataFrame({"x": [1.0, 2.0], "y": [0.5, 0.1]}, index=pd.Index(["a", "b"], name="id"))
    (tmp_path / "core").mkdir()
    rows.to_csv(tmp_path / "core" / "b.csv")
    done = python(HIDE + READ, tmp_path / file, tmp_path / "core", json.dumps(EXTRAS[extra]), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"pip install 'acova[{extra}]'" in done.stdout


def test_every_extra_of_the_project_is_known_here():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == {*EXTRAS, "test", "dev"}


def test_the_module_is_the_command_and_tells_its_version(tmp_path):
    import acova

    done = subprocess.run(
        [sys.executable, "-m", "acova", "--version"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"acova {acova.__version__}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("acova ", {"demo", "fit", "predict", "inspect", "datasets", "options"}),
        ("acova fit --method KNN", {"KNNImpute"}),
        ("acova fit --method DV", {"DVIMC"}),
        ("acova inspect dig", {"digits"}),
    ],
)
def test_the_shell_completes_commands_methods_and_data_sets(words, expected, tmp_path):
    place = str(len(words.split(" ")) - 1)
    told = {"_ACOVA_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}
    done = python("from acova.cli import main; main()", cwd=tmp_path, **told)
    assert expected <= set(done.stdout.split()), done.stderr
    if expected != {"digits"} and len(expected) == 1:
        assert set(done.stdout.split()) == expected
