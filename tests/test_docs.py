import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


class Loaded(HTMLParser):
    """Collects what a page loads, as opposed to what it links to."""

    def __init__(self):
        super().__init__()
        self.addresses = []

    def handle_starttag(self, tag, attrs):
        held = dict(attrs)
        if tag in ("script", "img"):
            self.addresses.append(held.get("src") or "")
        if tag == "link" and held.get("rel") == "stylesheet":
            self.addresses.append(held.get("href") or "")


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


def test_files_that_pages_link_to_come_along(site):
    speed = (site / "speed.html").read_text()
    image = re.search(r'src="(files/[^"]+\.png)"', speed)[1]
    assert (site / image).stat().st_size == (ROOT / image.removeprefix("files/")).stat().st_size


def test_pages_load_nothing_from_elsewhere(site):
    for page in site.rglob("*.html"):
        loaded = Loaded()
        loaded.feed(page.read_text())
        assert not [address for address in loaded.addresses if address.startswith(("http", "//"))], page
