"""Run the examples and write the gallery: ``python docs/_site/gallery.py [--again] [name …]``.

An example is a script in jupytext's percent format. It is run as a notebook; its page shows the prose, the code and
what the cells printed and drew. It is run again when it, or the library, has changed since it last ran on this machine.
"""

import ast
import base64
import hashlib
import io
import os
import re
import sys
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
EXAMPLES = ROOT / "examples"
FIGURES = DOCS / "images" / "gallery"
RUNS = ROOT / "build" / "gallery"
"""One file per example, with the digest of what ran."""
NAMES = (
    "multi_omics",
    "missing_assays",
    "messy_tables",
    "image_and_text",
    "sensors_with_outages",
    "choosing_n_clusters",
    "predicting_with_fewer_views",
    "survival_by_cluster",
    "an_assay_added_later",
)
THUMBNAIL = (400, 260)


def notebook(name: str) -> Any:
    """Return an example as a notebook without outputs; its docstring is the first cell."""
    import jupytext
    from nbformat.v4 import new_markdown_cell

    found = jupytext.read(EXAMPLES / f"{name}.py", fmt="py:percent")
    title, _, introduction = (ast.get_docstring(ast.parse(found.cells[0].source)) or "").partition("\n")
    found.cells[0] = new_markdown_cell(f"# {title.rstrip('.')}\n\n{introduction.strip()}")
    for number, cell in enumerate(found.cells):
        cell.id = f"cell-{number}"  # jupytext draws them at random
        cell.source = cell.source.strip("\n")  # of the formatter, before functions
    found.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return found


def page(name: str, run: Any) -> str:
    """Return the page of a notebook that was run, and save its figures."""
    links = f"[Notebook]({name}.ipynb){{ .md-button download }} [Script](../../examples/{name}.py){{ .md-button }}"
    parts = [run.cells[0].source, links]
    for number, cell in enumerate(run.cells[1:]):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts += [f"```py\n{cell.source}\n```", *outputs(cell, f"{name}_{number}")]
    return "\n\n".join(parts) + "\n"


def outputs(cell: Any, figure: str) -> Iterator[str]:
    """Yield what a cell printed, displayed and drew; warnings belong to the reader's machine and are left out."""
    shown = [output for output in cell.outputs if output.get("name") != "stderr"]
    for kind, group in groupby(shown, key=lambda output: output.output_type):
        if kind == "stream":
            text = "".join(output.text for output in group)
            yield f"```text\n{text.rstrip()}\n```"
        else:
            yield from map(partial(_displayed, figure=figure), group)


def _displayed(output: Any, figure: str) -> str:
    """Return what a cell displayed or drew."""
    data = output["data"]
    if "image/png" in data:
        save(base64.b64decode(data["image/png"]), figure)
        return f"![The figure of this cell](../images/gallery/{figure}.png)"
    if "text/html" in data:
        text = re.sub(r"<style scoped>.*?</style>", "", data["text/html"], flags=re.DOTALL)  # of pandas
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        return '<div class="output">\n' + "\n".join(lines) + "\n</div>"
    return f"```text\n{data['text/plain']}\n```"


def save(png: bytes, figure: str) -> None:
    """Save a figure, and the same as the thumbnail of its example."""
    from PIL import Image, ImageOps

    FIGURES.mkdir(parents=True, exist_ok=True)
    (FIGURES / f"{figure}.png").write_bytes(png)
    image = Image.open(io.BytesIO(png)).convert("RGB")
    ImageOps.pad(image, THUMBNAIL, color="white").save(FIGURES / f"{figure.rpartition('_')[0]}_thumbnail.png")


def digest(name: str) -> str:
    """Return the digest of a script and of the library's sources."""
    files = [EXAMPLES / f"{name}.py", Path(__file__), *sorted((ROOT / "src").rglob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def write(name: str) -> None:
    """Run an example and write its page, figures and notebook; without its data, the page stays as it is."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    found = notebook(name)
    nbformat.write(found, DOCS / "gallery" / f"{name}.ipynb")
    try:
        NotebookClient(found, timeout=None, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    except CellExecutionError as error:
        if error.ename != "SystemExit":
            raise
        print(f"{name}: not run, its page stays as it is. {error.evalue}", flush=True)
        return
    for old in FIGURES.glob(f"{name}_*.png"):
        old.unlink()
    (DOCS / "gallery" / f"{name}.md").write_text(page(name, found))
    RUNS.mkdir(parents=True, exist_ok=True)
    (RUNS / name).write_text(digest(name))
    print(f"{name}: written", flush=True)


def main() -> None:
    """Run the examples that were named, or all; of these only the changed ones, unless --again is given."""
    os.environ.pop("ACOVA_QUICK", None)
    again, names = "--again" in sys.argv, [word for word in sys.argv[1:] if word != "--again"]
    for name in names or NAMES:
        stored = RUNS / name
        if again or not stored.is_file() or stored.read_text() != digest(name):
            write(name)


if __name__ == "__main__":
    main()
