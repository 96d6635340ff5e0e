import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest

import acova

ROOT = Path(__file__).resolve().parents[1]


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_importing_is_fast_and_loads_no_torch_or_matplotlib():
    start = time.perf_counter()
    loaded = python(
        "import sys, acova; print([m for m in ('torch', 'matplotlib', 'sklearn', 'pandas') if m in sys.modules])"
    )
    assert loaded == "[]"
    assert time.perf_counter() - start < 1


def test_data_and_metrics_load_no_torch():
    assert python("import sys, acova.data, acova.metrics; print('torch' in sys.modules)") == "False"


def test_help_and_completion_load_no_torch():
    code = (
        "import sys; from acova.cli.arguments import method_names; print(method_names('KNN'), 'torch' in sys.modules)"
    )
    assert python(code) == "['KNNImpute'] False"
    code = (
        "import sys; from acova.cli import app; print([m for m in ('torch', 'sklearn', 'pandas') if m in sys.modules])"
    )
    assert python(code) == "[]"


def test_estimators_load_no_matplotlib():
    assert python("import sys, acova.estimators; print('matplotlib' in sys.modules)") == "False"


def test_every_public_name_is_there():
    for name in acova.__all__:
        assert getattr(acova, name) is not None
        assert name in dir(acova)
    with pytest.raises(AttributeError, match="has no attribute 'ACOVAA'"):
        acova.ACOVAA  # noqa: B018


def test_versions_agree():
    changelog = (ROOT / "CHANGELOG.md").read_text()
    citation = (ROOT / "CITATION.cff").read_text()
    assert re.search(rf"^## {re.escape(acova.__version__)}\b", changelog, flags=re.MULTILINE)
    assert f"version: {acova.__version__}" in citation


def test_the_pinned_torch_satisfies_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = re.search(r"^torch==(\d+)\.(\d+)", (ROOT / "constraints.txt").read_text(), flags=re.MULTILINE)
    least = next(re.match(r"torch>=(\d+)\.(\d+)", line) for line in project["dependencies"] if line.startswith("torch"))
    assert tuple(map(int, pinned.groups())) >= tuple(map(int, least.groups()))


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_links_inside_the_documentation_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", (ROOT / page).read_text()):
        if not target.startswith("http"):
            assert ((ROOT / page).parent / target).exists(), target


_HARDLY_TRAINED = """
import warnings
from sklearn.exceptions import ConvergenceWarning
warnings.simplefilter("ignore", ConvergenceWarning)
"""
"""Examples train for a few epochs, and their results are not to be trusted."""


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_python_in_the_documentation_runs(page, tmp_path):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    if not blocks:
        pytest.skip("no Python on this page")
    code = "\n".join([_HARDLY_TRAINED, *blocks])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
