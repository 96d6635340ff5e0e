import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from acova.functional import correlation_matrix
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
    theirs.load_state_dict(_translated(small.state_dict()))
    observed = torch.rand(n, 3) < 0.6
    observed[:, 1] |= ~observed.any(1)
    views = [torch.randn(n, width) for width in widths]
    noise = torch.randn(n, 2, example.LATENT)
    ours = example.loss(small, views, observed.float(), noise)
    parts = theirs.loss(views, observed, noise)
    torch.testing.assert_close(ours, parts["total"], rtol=1e-5, atol=1e-5)
    warm = theirs.warmup_loss(views, observed, noise, kl_weight=0.1)["total"]
    torch.testing.assert_close(example.loss(small, views, observed.float(), noise, warmup=True), warm)
    ours.backward()
    parts["total"].backward()
    torch.testing.assert_close(small.theta.grad, theirs.correlation_parameter.grad, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(small.centres.grad, theirs.prior.means.grad, rtol=1e-3, atol=1e-4)
    first, second = small.views[1].body[0].weight.grad, theirs.encoders[1].body[0].weight.grad
    torch.testing.assert_close(first, second.T, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(small.correlation(), correlation_matrix(small.theta.double()))


def _translated(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """From the example's parameter names to the library's."""
    names = {"theta": "correlation_parameter", "logits": "prior.logits", "centres": "prior.means"}
    names["spread"] = "prior.scale"
    renamed = {}
    for name, value in state.items():
        if name in names:
            renamed[names[name]] = value
            continue
        _, view, rest = name.split(".", 2)
        kind, rest = ("decoders", rest.removeprefix("decode.")) if rest.startswith("decode") else ("encoders", rest)
        renamed[f"{kind}.{view}.{rest}"] = (
            value.mT if value.ndim == 2 else value
        )  # the library stores (inputs, outputs)
    return renamed


def test_the_200_lines_are_at_most_200_and_need_no_library():
    text = (EXAMPLES / "acova_in_200_lines.py").read_text()
    assert len(text.splitlines()) <= 200
    assert "import acova" not in text
    assert "from acova" not in text


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_runs(script, tmp_path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
