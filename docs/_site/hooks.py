"""What MkDocs does not do by itself: pages that come and go, and links that leave ``docs/``."""

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
_LINK = re.compile(r"(\]\()(\.\./[^)#\s]+)")


def on_config(config: Any) -> Any:
    """Keep the pages that exist, and add those that nobody listed."""
    config.nav = _existing(config.nav)
    listed = set(re.findall(r"[\w/]+\.md", str(config.nav)))
    more = [page.name for page in sorted(DOCS.glob("*.md")) if page.name not in listed]
    if more:
        config.nav.append({"More": more})
    return config


def _existing(entry: Any) -> Any:
    if isinstance(entry, list):
        return [page for page in map(_existing, entry) if page]
    if isinstance(entry, dict):
        pages = {title: _existing(page) for title, page in entry.items()}
        return {title: page for title, page in pages.items() if page}
    return entry if (DOCS / entry).is_file() else None


def on_files(files: Files, config: Any) -> Files:
    """Take along what pages link to outside ``docs/``: results, examples, figures of benchmarks."""
    for page in files.documentation_pages():
        for match in _LINK.finditer(page.content_string):
            inside = _elsewhere(page.src_uri, match[2])
            if inside and files.get_file_from_path(f"files/{inside}") is None:
                files.append(File.generated(config, f"files/{inside}", abs_src_path=str(ROOT / inside)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point such links to where their files now are."""

    def moved(match: re.Match[str]) -> str:
        inside = _elsewhere(page.file.src_uri, match[2])
        if not inside:
            return match[0]
        return match[1] + os.path.relpath(f"files/{inside}", os.path.dirname(page.file.src_uri) or ".")

    return _LINK.sub(moved, markdown)


def _elsewhere(page: str, link: str) -> str | None:
    """Return the place of a linked file in the repository, if it exists and is not one of the pages."""
    target = (DOCS / page).parent.joinpath(link).resolve()
    outside = target.is_file() and target.is_relative_to(ROOT) and not target.is_relative_to(DOCS)
    return target.relative_to(ROOT).as_posix() if outside else None
