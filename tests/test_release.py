"""What a release is checked for, and which versions of dependencies are tested."""

import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "release"))
check = pytest.importorskip("check")
licences, lowest = pytest.importorskip("licences"), pytest.importorskip("lowest")


def test_every_dependency_has_a_lowest_version_and_a_licence():
    names = {line.split("==")[0] for line in lowest.lowest(["test"])}
    assert {"torch", "numpy", "pytest", "pyarrow", "h5py"} <= names
    assert "acova" not in names
    assert licences.missing() == []


def test_the_version_is_the_same_everywhere(tmp_path):
    assert check.version() in (ROOT / "CITATION.cff").read_text()
    for name in ("CITATION.cff", "CHANGELOG.md"):
        (tmp_path / name).write_text((ROOT / name).read_text())
    assert "CITATION.cff has the version 0.1.0, the sources have 9.9.9" in check.problems(tmp_path, "9.9.9")
    assert "the version '9.9' is not like 1.2.3 or 1.2.3rc1" in check.problems(tmp_path, "9.9")


def test_a_changelog_without_the_version_or_with_loose_ends_is_no_release(tmp_path):
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n- new\n\n## 1.2.2\n")
    said = check.problems(tmp_path, "1.2.3")
    assert "CHANGELOG.md has no section '## 1.2.3'" in said
    assert any("entries under 'Unreleased'" in text for text in said)
    (tmp_path / "CHANGELOG.md").write_text("# Changes\n\n## Unreleased\n\n## 1.2.3\n\n- new\n")
    assert not any("CHANGELOG" in text or "CITATION" in text for text in check.problems(tmp_path, "1.2.3"))


def test_archives_must_have_what_they_need(tmp_path):
    assert "dist/acova-1.0.0.tar.gz is missing" in check.packed(tmp_path, "1.0.0")
    with zipfile.ZipFile(tmp_path / "acova-1.0.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("acova/py.typed", "")
    with tarfile.open(tmp_path / "acova-1.0.0.tar.gz", "w:gz") as sdist:
        sdist.add(ROOT / "LICENSE", "acova-1.0.0/LICENSE")
    said = check.packed(tmp_path, "1.0.0")
    assert "acova-1.0.0-py3-none-any.whl lacks acova/report/templates/page.html" in said
    assert "acova-1.0.0.tar.gz lacks pyproject.toml" in said
    assert not any("LICENSE" in text or "py.typed" in text for text in said)
