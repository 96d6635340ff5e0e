"""Run the examples and write the gallery: ``python docs/_site/gallery.py [name …]``.

An example is a script cut by ``# %%`` into cells: comment lines that open a cell are prose, the rest is code. What a
cell prints, and the figures it leaves open, follow it on the page.
"""

import ast
import contextlib
import io
import os
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
EXAMPLES = DOCS.parent / "examples"
NAMES = (
    "multi_omics",
    "messy_tables",
    "image_and_text",
    "sensors_with_outages",
    "choosing_n_clusters",
    "predicting_with_fewer_views",
    "an_assay_added_later",
)


def cells(source: str) -> tuple[str, str, list[tuple[str, str]]]:
    """Return the title, the introduction and the (prose, code) cells of an example."""
    title, _, introduction = (ast.get_docstring(ast.parse(source)) or "").partition("\n")
    parts = []
    for text in source.split("\n# %%\n")[1:]:
        lines = text.splitlines()
        end = next((place for place, line in enumerate(lines) if not line.startswith("#")), len(lines))
        prose = "\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end])
        parts.append((prose, "\n".join(lines[end:]).strip()))
    return title.rstrip("."), introduction.strip(), parts


def written(name: str) -> str:
    """Run one example and return its page; figures are saved beside."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    title, introduction, parts = cells((EXAMPLES / f"{name}.py").read_text())
    page = [f"# {title}", introduction, f"[The script](../../examples/{name}.py)"]
    space = {"__name__": "__main__"}
    for number, (prose, code) in enumerate(parts):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, f"{name}.py, cell {number}", "exec"), space)
        page += [prose, f"```py\n{code}\n```"]
        if printed.getvalue():
            page.append(f"```text\n{printed.getvalue().rstrip()}\n```")
        for figure in map(plt.figure, plt.get_fignums()):
            image = f"images/gallery/{name}_{number}.png"
            figure.savefig(DOCS / image, dpi=110)
            page.append(f"![What this cell draws](../{image})")
        plt.close("all")
    return "\n\n".join(page) + "\n"


if __name__ == "__main__":
    os.environ.pop("ACOVA_QUICK", None)
    for example in sys.argv[1:] or NAMES:
        (DOCS / "gallery" / f"{example}.md").write_text(written(example))
        print(example, flush=True)
