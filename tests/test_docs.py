import ast
import doctest
import inspect
import os
import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path

import pytest

import acova
from acova import ACOVA, Training
from acova.estimators.recipes import OTHERWISE, RECIPES
from acova.estimators.registry import HOMES

ROOT = Path(__file__).resolve().parents[1]
PUBLIC = (
    *("acova", "acova.estimators", "acova.estimators.rules", "acova.data", "acova.plots", "acova.report"),
    *("acova.metrics", "acova.bench", "acova.functional", "acova.networks"),
)
"""Modules whose public classes and functions have an entry in the reference."""
SLOW = ("fit_many", "ClusterNumberDisplay", "select_n_clusters")
"""Whose examples train or search for more than a second; their own tests do the same."""
FOR_AUTHORS = (
    "acova.functional.Batch",
    "acova.functional.Fused",
    "acova.networks.base.ClusteringNetwork",
    "acova.training.method.Method",
    "acova.training.method.Group",
    "acova.training.job.Job",
    "acova.training.job.Settings",
    "acova.training.job.FitData",
    "acova.engine.Phase",
    "acova.engine.ParameterGroup",
    "acova.estimators.DeepClusterer",
)
"""What a method is written with."""


class Page(HTMLParser):
    """Collects what a page loads, as opposed to what it links to."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in ("script", "img"):
            self.addresses.append(attributes.get("src") or "")
        if tag == "link" and attributes.get("rel") == "stylesheet":
            self.addresses.append(attributes.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder


@pytest.fixture(scope="module")
def entries(site):
    """Return the entries of the reference: the text of each, by the path in its heading."""
    found = {}
    for page in sorted((site / "api").glob("*.html")):
        _, *parts = re.split(r'<h\d id="(acova\.[\w.]+)"', page.read_text())
        found |= dict(zip(parts[::2], parts[1::2], strict=True))
    return found


def test_every_page_is_in_the_site_and_in_its_navigation(site):
    start = (site / "index.html").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        built = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert (site / built).is_file(), built
        if page.name != "index.md":
            assert f'href="{built}"' in start, f"{built} is not in the navigation"
    assert not (site / "_site").exists()


def test_the_reference_tells_parameters_and_methods(site):
    page = (site / "api" / "estimators.html").read_text()
    for name in ("n_clusters", "predict_proba", "annotate", "consensus", "make_method"):
        assert name in page


@pytest.mark.parametrize("module", PUBLIC)
def test_every_public_class_and_function_is_in_the_reference(entries, module):
    home = import_module(module)
    for name in home.__all__:
        value = getattr(home, name)
        if inspect.isclass(value) or inspect.isfunction(value):
            paths = {f"acova.{name}", f"{module}.{name}", f"{value.__module__}.{name}"}
            assert paths & set(entries), f"{module}.{name} has no entry in docs/api"


@pytest.mark.parametrize("module", [name for name in PUBLIC if name not in ("acova.bench", "acova.functional")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained
def test_the_examples_of_docstrings_give_what_they_say(module):
    home = import_module(module)
    finder, runner = (
        doctest.DocTestFinder(recurse=False),
        doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE),
    )
    for name in home.__all__:
        value = getattr(home, name)
        known = inspect.isclass(value) or inspect.isfunction(value)
        if known and name not in SLOW and (module == "acova" or not hasattr(acova, name)):
            for example in finder.find(value, name, globs={}):
                runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_what_authors_of_methods_need_is_in_the_reference(entries):
    assert set(FOR_AUTHORS) <= set(entries)


@pytest.mark.parametrize("method", [*HOMES, "Training"])
def test_the_reference_has_every_setting_of_a_method_with_its_default(entries, method):
    rows = re.findall(r'<tr class="doc-section-item">(.*?)</tr>', entries[f"acova.{method}"], flags=re.DOTALL)
    cells = [[unescape(re.sub("<[^>]+>", "", cell)).strip() for cell in row.split("</td>")[:-1]] for row in rows]
    stated = {name: ast.literal_eval(default) for name, *_, default in (row for row in cells if len(row) == 4)}
    signature = inspect.signature(getattr(acova, method))
    assert stated == {name: parameter.default for name, parameter in signature.parameters.items()}


def test_the_reference_names_paths_that_can_be_imported(entries):
    private = [path for path in entries if "._" in path]
    assert not private
    for home in map(import_module, PUBLIC):
        for name in getattr(home, "__all__", ()):
            value = getattr(home, name)
            long = f"{getattr(value, '__module__', '')}.{name}"
            assert long not in entries or long == f"{home.__name__}.{name}", f"{long} has a shorter path"


@pytest.mark.parametrize(("method", "setting"), [("ACOVA", "n_init"), ("ACOVA", "hidden"), ("Training", "temperature")])
def test_the_reference_says_what_a_default_of_none_stands_for(entries, method, setting):
    rows = re.findall(r'<tr class="doc-section-item">(.*?)</tr>', entries[f"acova.{method}"], flags=re.DOTALL)
    text = next(unescape(re.sub("<[^>]+>", "", row)) for row in rows if f"<code>{setting}</code>" in row)
    for recipe in RECIPES:
        value = (OTHERWISE | RECIPES[recipe])[setting]
        assert re.search(rf"{re.escape(repr(value))} \([\w, ]*{recipe}[\w, ]*\)", text), text


def rows_of(heading):
    """Return the cells of the table under a heading of the page on settings, by the name in the first one."""
    section = (ROOT / "docs" / "settings.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return {cells[0].strip("`"): [cell.strip("`") for cell in cells[1:]] for cells in lines}


@pytest.mark.parametrize(("heading", "cls"), [("Keywords of ACOVA", ACOVA), ("Expert settings", Training)])
def test_the_page_on_settings_lists_every_keyword_with_its_default(heading, cls):
    defaults = {name: parameter.default for name, parameter in inspect.signature(cls).parameters.items()}
    assert {name: ast.literal_eval(cells[0]) for name, cells in rows_of(heading).items()} == defaults


def test_the_page_on_settings_tells_what_recipes_stand_for():
    columns = zip(*rows_of("Recipes").values(), strict=True)
    stated = {
        recipe: dict(zip(rows_of("Recipes"), map(ast.literal_eval, column), strict=True))
        for recipe, column in zip(("shared", "robust", "paper"), columns, strict=True)
    }
    assert stated == {recipe: OTHERWISE | RECIPES[recipe] for recipe in stated}


def test_files_that_pages_link_to_come_along(site):
    speed = (site / "speed.html").read_text()
    image = re.search(r'src="(files/[^"]+\.png)"', speed)[1]
    assert (site / image).stat().st_size == (ROOT / image.removeprefix("files/")).stat().st_size


def test_pages_load_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        parser = Page()
        parser.feed(page.read_text())
        assert not [address for address in parser.addresses if address.startswith(("http", "//"))], page
