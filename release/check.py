"""Check what a release needs before it is made: version, changelog, citation, licences, wheel and sdist.

``make release-check`` builds the wheel, the sdist and the documentation first, then calls this.
"""

import re
import sys
import tarfile
import zipfile
from pathlib import Path

from licences import missing

ROOT = Path(__file__).resolve().parents[1]
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_IN_WHEEL = ("acova/py.typed", "acova/report/templates/page.html", "acova/bench/paper/table1.toml")
_IN_SDIST = ("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "src/acova/__init__.py")


def version() -> str:
    """Return the version of the sources."""
    text = (ROOT / "src/acova/base/version.py").read_text()
    return re.search(r"__version__ = \"([^\"]+)\"", text)[1]


def problems(root: Path, found: str) -> list[str]:
    """Return what speaks against a release of a version."""
    said = []
    if not _VERSION.fullmatch(found):
        said.append(f"the version {found!r} is not like 1.2.3 or 1.2.3rc1")
    citation = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(), flags=re.MULTILINE)
    if citation is None or citation[1].strip() != found:
        said.append(f"CITATION.cff has the version {citation[1] if citation else 'none'}, the sources have {found}")
    changes = (root / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(found)}\b", changes, flags=re.MULTILINE):
        said.append(f"CHANGELOG.md has no section '## {found}'")
    unreleased = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changes, flags=re.MULTILINE | re.DOTALL)
    if unreleased and unreleased[1].strip():
        said.append("CHANGELOG.md has entries under 'Unreleased'; move them to the section of the version")
    if missing():
        said.append(f"docs/licences.md lacks {', '.join(missing())}")
    return said + packed(root / "dist", found)


def packed(dist: Path, found: str) -> list[str]:
    """Return what is missing in the wheel and the sdist of a version."""
    said = []
    wheel, sdist = dist / f"acova-{found}-py3-none-any.whl", dist / f"acova-{found}.tar.gz"
    if wheel.is_file():
        names = zipfile.ZipFile(wheel).namelist()
        said += [f"{wheel.name} lacks {name}" for name in _IN_WHEEL if name not in names]
    else:
        said.append(f"dist/{wheel.name} is missing")
    if sdist.is_file():
        with tarfile.open(sdist) as archive:
            names = [name.split("/", 1)[-1] for name in archive.getnames()]
        said += [f"{sdist.name} lacks {name}" for name in _IN_SDIST if name not in names]
    else:
        said.append(f"dist/{sdist.name} is missing")
    if not (ROOT / "site" / "index.html").is_file():
        said.append("site/index.html is missing: make docs")
    return said


if __name__ == "__main__":
    found = problems(ROOT, version())
    for text in found:
        print(f"- {text}")
    print("Ready to release." if not found else f"Not ready: {len(found)} to do.")
    sys.exit(bool(found))
