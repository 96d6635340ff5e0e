"""Print the lowest version of each dependency that pyproject.toml allows, as constraints for pip.

``python release/lowest.py test`` takes the extra ``test`` too. Used by ``make test-oldest``.
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
_LEAST = re.compile(r"^(?P<name>[\w.-]+)(\[[^]]*\])?>=(?P<version>[\w.]+)$")


def lowest(extras: list[str]) -> list[str]:
    """Return ``name==version`` for every dependency, and for those of the extras."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    wanted, seen = list(project["dependencies"]), set()
    while extras:
        extra = extras.pop()
        seen.add(extra)
        for requirement in project["optional-dependencies"][extra]:
            own = re.fullmatch(r"acova\[([\w,]+)\]", requirement)
            if own:
                extras += [name for name in own[1].split(",") if name not in seen]
            else:
                wanted.append(requirement)
    found = [_LEAST.match(requirement) for requirement in wanted]
    bad = [requirement for requirement, match in zip(wanted, found, strict=True) if match is None]
    if bad:
        msg = f"pyproject.toml: a dependency needs the form name>=version; got {', '.join(bad)}"
        raise SystemExit(msg)
    return sorted({f"{match['name']}=={match['version']}" for match in found if match})


if __name__ == "__main__":
    print("\n".join(lowest(sys.argv[1:])))
