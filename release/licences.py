"""Write the licences of the installed dependencies to docs/licences.md, or with --check say whether it is complete.

What the core and the extras of users need is listed, with everything that these packages need themselves.
"""

import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "licences.md"
EXTRAS = ("parquet", "zarr", "excel", "hdf5", "omics")
_SHORT = 60
HEAD = """# Licences of dependencies

`acova` itself is BSD-3-Clause. It contains no code of other projects. The table lists what `pip install
'acova[parquet,zarr,excel,hdf5,omics]'` installs from PyPI on Linux with the CPU build of torch, as the packages
state it themselves. `python release/licences.py` writes this page; `make release-check` says when it is incomplete.

| package | licence |
|---|---|
"""


def direct() -> list[str]:
    """Return the names of the packages that pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    return [name_of(one) for one in wanted]


def name_of(requirement: str) -> str:
    """Return the normalised name of a package in a requirement."""
    return re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", requirement)[0]).lower()


def installed() -> dict[str, str]:
    """Return package → licence for what the direct dependencies need, on this machine and without extras."""
    found, left = {}, direct()
    while left:
        name = left.pop()
        if name in found:
            continue
        try:
            found[name] = licence_of(name)
        except PackageNotFoundError:
            continue  # another platform's
        left += [name_of(one) for one in requires(name) or () if "extra ==" not in one]
    return dict(sorted(found.items()))


def licence_of(name: str) -> str:
    """Return the licence that an installed package states: its expression, its classifiers, or its first line."""
    about = distribution(name).metadata
    if about.get("License-Expression"):
        return str(about["License-Expression"])
    kinds = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or () if line.startswith("License ::")]
    stated = (about.get("License") or "").strip().splitlines()
    if kinds and kinds != ["OSI Approved"]:
        return ", ".join(kinds)
    return stated[0][:_SHORT] if stated else "see the package"


def missing() -> list[str]:
    """Return the direct dependencies that the page does not list."""
    listed = re.findall(r"^\| ([\w.-]+) \|", PAGE.read_text(), flags=re.MULTILINE) if PAGE.is_file() else []
    return sorted(set(direct()) - set(listed))


def main() -> None:
    """Write the page, or check it."""
    if "--check" in sys.argv:
        if missing():
            msg = f"docs/licences.md lacks {', '.join(missing())}; run python release/licences.py"
            raise SystemExit(msg)
        return
    rows = [f"| {name} | {licence} |" for name, licence in installed().items()]
    PAGE.write_text(HEAD + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
