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
    _copy(small, theirs)
    observed = torch.rand(n, 3) < 0.6
    observed[:, 1] |= ~observed.any(1)
    views = [torch.randn(n, width) for width in widths]
    noise = torch.randn(n, 2, example.LATENT)
    ours = example.loss(small, views, observed.float(), noise)
    total = theirs.loss(views, observed, noise)["total"].mean()
    torch.testing.assert_close(ours, total, rtol=1e-5, atol=1e-5)
    warm = theirs.warmup_loss(views, observed, noise, kl_weight=0.1)["total"].mean()
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


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_every_example_runs(script, tmp_path):
    command = [sys.executable, "-W", "error", str(EXAMPLES / script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "accuracy" in done.stdout
