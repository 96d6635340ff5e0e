import base64
import importlib.util
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from acova.functional import Batch, correlation_matrix
from acova.networks import MultiViewVAE

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("acova_in_200_lines", EXAMPLES / "acova_in_200_lines.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_200_lines_give_the_librarys_loss_and_gradient(example):
    torch.manual_seed(0)
    widths, n = [7, 5, 9], 40
    small = example.Acova(widths)
    with torch.no_grad():
        small.centres.normal_()
        small.logits.normal_()
        small.spread.normal_()
    theirs = MultiViewVAE(
        widths,
        example.LATENT,
        example.CLUSTERS,
        hidden=example.HIDDEN,
        likelihoods=["gaussian"] * 3,
        alpha=example.ALPHA,
        correlation=torch.eye(3),
    )
    _copy(small, theirs)
    observed = torch.rand(n, 3) < 0.6
    observed[:, 1] |= ~observed.any(1)
    views = [torch.randn(n, width) for width in widths]
    noise = torch.randn(n, 2, example.LATENT)
    ours = example.loss(small, views, observed.float(), noise)
    batch = Batch(views, observed)
    total = theirs.loss(batch, noise)["total"].mean()
    torch.testing.assert_close(ours, total, rtol=1e-5, atol=1e-5)
    warm = theirs.warmup_loss(batch, noise, kl_weight=0.1)["total"].mean()
    torch.testing.assert_close(example.loss(small, views, observed.float(), noise, warmup=True), warm)
    ours.backward()
    total.backward()
    torch.testing.assert_close(small.theta.grad, theirs.correlation_parameter.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(small.centres.grad, theirs.prior.means.grad, rtol=1e-3, atol=1e-4)
    first, second = small.views[1].body[0].weight.grad, theirs.encoders.layers[0].weights[1].grad
    torch.testing.assert_close(first, second[: widths[1]].T, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(small.correlation(), correlation_matrix(small.theta.double()))


def _copy(small, theirs):
    """Write the example's parameters into the library's network, which stacks views and pads widths."""
    own = {"correlation_parameter": small.theta, "prior.logits": small.logits, "prior.means": small.centres}
    own["prior.scale"] = small.spread
    with torch.no_grad():
        for name, value in own.items():
            theirs.get_parameter(name).copy_(value)
        for v, view in enumerate(small.views):
            head = [torch.cat([getattr(view.mean, kind), getattr(view.scale, kind)]) for kind in ("weight", "bias")]
            body = [(layer.weight, layer.bias) for layer in view.body if hasattr(layer, "weight")]
            back = [(layer.weight, layer.bias) for layer in view.decode if hasattr(layer, "weight")]
            for perceptrons, pairs in ((theirs.encoders, [*body, head]), (theirs.decoders, back)):
                for layer, (weight, bias) in zip(perceptrons.layers, pairs, strict=True):
                    ours = (layer.weight, layer.bias) if layer.stacked else (layer.weights, layer.biases)
                    ours[0][v][: weight.shape[1], : weight.shape[0]] = weight.T
                    ours[1][v][: len(bias)] = bias


def test_the_200_lines_are_at_most_200_and_need_no_library():
    text = (EXAMPLES / "acova_in_200_lines.py").read_text()
    assert len(text.splitlines()) <= 200
    assert "import acova" not in text
    assert "from acova" not in text


def test_the_200_lines_run(tmp_path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / "acova_in_200_lines.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout


def gallery():
    spec = importlib.util.spec_from_file_location("gallery", EXAMPLES.parent / "docs" / "_site" / "gallery.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GALLERY = gallery()


def test_every_example_is_in_the_gallery():
    assert {*GALLERY.NAMES, "acova_in_200_lines", "add_a_method"} == {path.stem for path in EXAMPLES.glob("*.py")}
    index = (EXAMPLES.parent / "docs" / "gallery" / "index.md").read_text()
    for name in GALLERY.NAMES:
        assert f"[![](../images/gallery/{name}_thumbnail.png)]({name}.md)" in index


@pytest.fixture
def breast_tumours(monkeypatch):
    """Stand in for the file that the example downloads."""
    rdata, xarray = pytest.importorskip("rdata"), pytest.importorskip("xarray")
    rng = np.random.default_rng(0)

    def part(first, last, names):
        group, rows = np.arange(first, last) % 3, [f"A{i:03d}" for i in range(first, last)]
        found = {
            name: xarray.DataArray(
                rng.normal(size=(last - first, 6)) + 3 * group[:, None],
                {"r": rows, "c": [f"{name}{i}" for i in range(6)]},
            )
            for name in names
        }
        return found | {"subtype": np.array(["Basal", "Her2", "LumA"])[group]}

    data = {"data.train": part(0, 40, ("mirna", "mrna", "protein")), "data.test": part(40, 60, ("mirna", "mrna"))}
    monkeypatch.setattr("pooch.retrieve", lambda url, **_: url)
    monkeypatch.setattr(rdata, "read_rda", lambda _: {"breast.TCGA": data})


@pytest.mark.parametrize("name", GALLERY.NAMES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained
def test_examples_run_at_reduced_size(name, tmp_path, monkeypatch, request):
    if name == "survival_by_cluster":
        pytest.importorskip("lifelines", reason="survival needs the extra 'survival'")
    plt = pytest.importorskip("matplotlib.pyplot")
    if name == "multi_omics":
        request.getfixturevalue("breast_tumours")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ACOVA_QUICK", "1")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("agg")
    try:
        space = runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        assert len(space["scores"])
        assert len(plt.get_fignums()) == 1
        assert plt.gcf().axes, "the figure is blank"
    finally:
        plt.close("all")
    assert list(tmp_path.iterdir()) == []


def test_an_example_without_its_data_says_what_it_needs(monkeypatch):
    pytest.importorskip("rdata")

    def offline(url, **_):
        raise OSError("no route to host")

    monkeypatch.setattr("pooch.retrieve", offline)
    with pytest.raises(SystemExit, match=r"needs https://github\.com/mixOmicsTeam.* could not be downloaded: no route"):
        runpy.run_path(str(EXAMPLES / "multi_omics.py"), run_name="__main__")


@pytest.mark.parametrize("name", GALLERY.NAMES)
def test_the_gallery_shows_the_examples_as_they_are(name):
    """A page that lags behind is written again by ``make docs``."""
    pytest.importorskip("jupytext")
    docs = EXAMPLES.parent / "docs"
    page, notebook = (docs / "gallery" / f"{name}.md").read_text(), GALLERY.notebook(name)
    stored = json.loads((docs / "gallery" / f"{name}.ipynb").read_text())
    cells = [(cell["cell_type"], "".join(cell["source"])) for cell in stored["cells"]]
    assert cells == [(cell.cell_type, cell.source) for cell in notebook.cells]
    for cell in notebook.cells:
        assert (cell.source if cell.cell_type == "markdown" else f"```py\n{cell.source}\n```") in page
    images = re.findall(r"\]\(\.\./(images/[^)]+)\)", page)
    assert images
    for image in (*images, f"images/gallery/{name}_thumbnail.png"):
        assert (docs / image).stat().st_size > 5_000, f"{image} is blank"


def test_a_page_shows_what_a_notebook_printed_and_drew(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setattr(GALLERY, "FIGURES", tmp_path)
    png = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(png, "png")
    outputs = [
        nbformat.v4.new_output("stream", name="stdout", text="printed\n"),
        nbformat.v4.new_output("stream", name="stderr", text="a warning of this machine"),
        nbformat.v4.new_output(
            "display_data", {"text/html": "<style scoped>a</style>\n\n<b>table</b>", "text/plain": "x"}
        ),
        nbformat.v4.new_output("execute_result", {"text/plain": "3"}),
        nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(png.getvalue()).decode()}),
    ]
    cells = [nbformat.v4.new_markdown_cell("# Title"), nbformat.v4.new_code_cell("f()", outputs=outputs)]
    page = GALLERY.page("mine", nbformat.v4.new_notebook(cells=cells))
    assert page.startswith("# Title\n\n[Notebook](mine.ipynb){")
    body = page.split("```py\nf()\n```\n\n")[1]
    assert body == (
        '```text\nprinted\n```\n\n<div class="output">\n<b>table</b>\n</div>\n\n```text\n3\n```\n\n'
        "![The figure of this cell](../images/gallery/mine_0.png)\n"
    )
    for name, size in {"mine_0": (30, 20), "mine_thumbnail": GALLERY.THUMBNAIL}.items():
        with Image.open(tmp_path / f"{name}.png") as image:
            assert image.size == size


def test_the_added_method_runs():
    command = [sys.executable, "-W", "error", str(EXAMPLES / "add_a_method.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    scores = re.findall(r"^(\w+)\(.*accuracy (\d\.\d+)$", done.stdout, flags=re.MULTILINE)
    assert [name for name, _ in scores] == ["AgreeingCodes", "KNNImpute"]
    assert all(float(score) > 0.7 for _, score in scores)


def test_the_added_method_is_one_of_the_librarys_by_the_line_it_names(tmp_path, toy_file):
    """The entry point as the docstring has it, in a package that is installed beside the example."""
    text = (EXAMPLES / "add_a_method.py").read_text()
    line = re.search(r'\[project\.entry-points\."(acova\.methods)"\]\n    (\w+) = "your_package\.(\S+)"', text)
    information = tmp_path / "your_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: your-package\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[{}]\n{} = {}\n".format(*line.groups()))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(EXAMPLES)])}

    def run(*command):
        done = subprocess.run(
            [sys.executable, *map(str, command)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    name, out = line[2], tmp_path / "run"
    settings = ("--epochs", "30", "--hidden", "32", "--agreement", "0.2", "--n-init", "2", "--consensus", "true")
    run("-m", "acova", "fit", toy_file, "--method", name, "--clusters", "3", "--out", out, "--quiet", *settings)
    code = """
import sys
from acova.estimators import list_methods, load_method
model = load_method(sys.argv[1])
print(model.agreement, model.n_voters_, list_methods()[-1])
"""
    assert run("-c", code, out).split() == ["0.2", "2", name]
