"""Kernels against their twins in torch: on a GPU, or anywhere in Triton's interpreter."""

import os
from contextlib import nullcontext

import pytest
import torch

from acova import kernels
from acova.functional import Batch, fuse, reconstruction, total_reconstruction
from acova.networks.multiview_vae import MultiViewVAE
from acova.networks.perceptrons import Perceptrons

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
if DEVICE == "cpu":
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are first imported
pytest.importorskip("triton", reason="needs Triton (pip install triton)")


@pytest.fixture(autouse=True)
def _chosen_on_a_cpu_too(monkeypatch):
    """In the interpreter kernels take tensors of a CPU: let functions choose them there."""
    if DEVICE == "cpu":
        monkeypatch.setattr(kernels, "usable", lambda _: kernels._mode.get() is not None)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def chance(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def both_ways(function, inputs):
    """Return values and gradients of a function of tensors, by torch's operations and by kernels."""
    found = []
    for fused in (False, True):
        mine = [value.detach().clone().requires_grad_(value.is_floating_point()) for value in inputs]
        if fused:
            with kernels.fused():
                values = function(*mine)
        else:
            values = function(*mine)
        total = sum((value * draw(*value.shape, seed=9 + k)).sum() for k, value in enumerate(values))
        wanted = [value for value in mine if value.requires_grad]
        found.append([*values, *torch.autograd.grad(total, wanted, materialize_grads=True)])
    return found


def assert_same(found, **tolerance):
    for torch_, kernel in zip(*found, strict=True):
        torch.testing.assert_close(kernel, torch_, **tolerance)


def masks(*shape, seed=3):
    observed = chance(*shape, seed=seed) < 0.6
    observed[..., 0, :] = False  # a row without any view
    observed[..., 1:, 0] |= ~observed[..., 1:, :].any(-1)
    return observed


@pytest.mark.parametrize("views", [1, 2, 3, 6, 16])
@pytest.mark.parametrize("runs", [None, 3])
def test_fusion(views, runs):
    lead = () if runs is None else (runs,)
    observed = masks(*lead, 37, views)
    hidden = ~observed.unsqueeze(-1)
    mean = draw(*lead, 37, views, 5).masked_fill(hidden, torch.nan)
    std = (0.1 + chance(*lead, 37, views, 5)).masked_fill(hidden, torch.nan)
    factor = torch.eye(views, device=DEVICE) + 0.5 * draw(*lead, views, views, seed=4)
    matrix = (factor @ factor.mT).double()
    scale = matrix.diagonal(dim1=-2, dim2=-1).rsqrt()
    matrix = matrix * scale.unsqueeze(-1) * scale.unsqueeze(-2)

    def rows(mean, std, observed, matrix):
        fused = fuse(mean, std, observed, matrix)
        some = observed.any(-1)[..., None]
        # A variance without any view is infinite: compared by its reciprocal.
        return fused.mean, torch.where(some, fused.variance, 0.0).square(), fused.weights

    function = rows if runs is None else torch.func.vmap(rows)
    found = both_ways(lambda m, s, r: function(m, s, observed, r), (mean, std, matrix))
    assert_same(found, rtol=1e-5, atol=1e-5)
    with kernels.fused():
        assert (fuse(mean, std, observed, matrix).variance[~observed.any(-1)] == torch.inf).all() if not runs else True


def test_fusion_passes_on_what_comes_to_one_of_its_results():
    mean, std, observed = draw(20, 3, 4), 0.1 + chance(20, 3, 4), chance(20, 3) < 2
    matrix = torch.full((3, 3), 0.4, dtype=torch.float64, device=DEVICE).fill_diagonal_(1.0)
    for field in range(3):
        found = both_ways(lambda m, s, r, field=field: fuse(m, s, observed, r)[field : field + 1], (mean, std, matrix))
        assert_same(found, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "laplace"])
@pytest.mark.parametrize(("runs", "width"), [(None, 7), (3, 40), (2, 1500)])
def test_reconstruction(likelihood, runs, width):
    lead = () if runs is None else (runs,)
    observed = chance(*lead, 11) < 0.7
    view = chance(*lead, 11, width, seed=1).masked_fill(~observed.unsqueeze(-1), torch.nan)
    # A window on wider rows, as a decoder gives it.
    output = 3 * draw(*lead, 11, width + 3, seed=2)
    one = lambda y, x, seen: reconstruction(x, y, seen, likelihood)  # noqa: E731
    mapped = one if runs is None else torch.func.vmap(one)
    assert_same(both_ways(lambda y: (mapped(y, view, observed),), (output,)), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("runs", [None, 2])
def test_layers_of_rounded_rows(runs):
    """Against torch's operations in float32 on what was rounded."""
    from acova.kernels.layers import add_bias_relu, through_bias_relu

    lead = (3,) if runs is None else (runs, 3)
    product, bias = draw(*lead, 70, 140).bfloat16(), draw(*lead, 140, seed=1)
    expected = (product.float() + bias.unsqueeze(-2)).relu()
    out = add_bias_relu(product.clone(), bias)
    rounding = 2**-7 if DEVICE == "cpu" else 0.0  # the interpreter cuts digits off
    torch.testing.assert_close(out, expected.bfloat16(), rtol=rounding, atol=0.0)
    for gradient in (draw(*lead, 70, 140, seed=2), draw(*lead, 70, 140, seed=2).bfloat16()):
        for relu in (True, False):
            narrow, sums = through_bias_relu(gradient, out if relu else None, torch.bfloat16)
            masked = (gradient * (out > 0) if relu else gradient).bfloat16()
            torch.testing.assert_close(narrow, masked, rtol=rounding, atol=0.0)
            torch.testing.assert_close(sums, narrow.float().sum(-2), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("runs", [None, 3])
def test_reconstruction_of_all_views_in_one_tensor(runs):
    lead = () if runs is None else (runs,)
    kinds, widths = ("gaussian", "bernoulli", "laplace"), (7, 12, 16)
    shares = chance(*lead, 11, 3) * (chance(*lead, 11, 3, seed=7) < 0.7)
    views = [chance(*lead, 11, width, seed=width) for width in widths]
    views = [view.masked_fill(shares[..., v : v + 1] == 0, torch.nan) for v, view in enumerate(views)]
    outputs = 3 * draw(*lead, 3, 11, 16, seed=2)
    one = lambda y, share, *x: total_reconstruction(x, y, share, kinds)  # noqa: E731
    function = one if runs is None else torch.func.vmap(one)
    found = both_ways(lambda y: (function(y, shares, *views),), (outputs,))
    assert_same(found, rtol=1e-5, atol=1e-5)
    parts = [outputs[..., v, :, :width] for v, width in enumerate(widths)]
    torch.testing.assert_close(found[0][0], total_reconstruction(views, parts, shares, kinds))


def test_views_with_empty_cells_take_torchs_own_operations():
    views = [chance(11, width, seed=width) for width in (5, 16)]
    shares, empty = chance(11, 2, seed=4), chance(11, 5, seed=6) < 0.4
    views[0] = views[0].masked_fill(empty, torch.nan)
    kinds = ("gaussian", "bernoulli")
    found = both_ways(
        lambda y: (total_reconstruction(views, y, shares, kinds, [empty, None]),), (3 * draw(2, 11, 16, seed=2),)
    )
    assert_same(found, rtol=1e-5, atol=1e-5)
    assert found[1][0].isfinite().all()


def test_not_a_number_stays_one():
    from acova.kernels.layers import add_bias_relu

    product = torch.full((1, 2, 3), torch.nan, device=DEVICE)
    assert add_bias_relu(product, torch.zeros(1, 3, device=DEVICE)).isnan().all()


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a GPU")
def test_perceptrons_in_bfloat16_are_as_near_to_float32_with_kernels_as_without():
    torch.manual_seed(0)
    network = Perceptrons([[20, 12], 64, 64, 6], 2).to(DEVICE)
    rows = [draw(330, 20), draw(330, 12, seed=1)]

    def found(dtype, context):
        network.dtype = dtype
        network.zero_grad()
        with context:
            outputs = network(rows, together=True)
            sum(output.square().sum() for output in outputs).backward()
        return [*outputs, *(parameter.grad for parameter in network.parameters())]

    exact = found(torch.float32, nullcontext())
    without, with_kernels = (found(torch.bfloat16, context) for context in (nullcontext(), kernels.fused()))
    for value, one, other in zip(exact, without, with_kernels, strict=True):
        apart = [torch.linalg.vector_norm(rounded - value) for rounded in (one, other)]
        # The kernel rounds the product before the bias is added, and once more after it.
        assert apart[1] < 2.5 * apart[0]
        assert apart[1] < 0.1 * torch.linalg.vector_norm(value)


@pytest.mark.parametrize("clip", [0.5, 1e6])
def test_clipping_and_adam(clip):
    from acova.kernels.adam import blocks_of, move, shorten, sum_squares

    sizes, rates, betas = (5000, 7), torch.tensor([1e-2, 3e-2]), (0.9, 0.999)
    parameters = [draw(2, size, seed=size) for size in sizes]
    rounded = [torch.zeros_like(parameters[0], dtype=torch.bfloat16), None]
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in parameters]
    theirs = [[p[run].clone().requires_grad_() for p in parameters] for run in range(2)]
    adams = [torch.optim.Adam(mine, lr=rate, betas=betas) for mine, rate in zip(theirs, rates.tolist(), strict=True)]
    starts = [0, blocks_of(sizes[0])]
    squares = torch.zeros(2, sum(map(blocks_of, sizes)), device=DEVICE)
    factors = torch.ones(2, device=DEVICE)
    for number in range(1, 6):
        gradients = [draw(2, size, seed=10 * number + size) * 10.0**number for size in sizes]
        for run, mine in enumerate(theirs):
            for parameter, gradient in zip(mine, gradients, strict=True):
                parameter.grad = gradient[run].clone()
            torch.nn.utils.clip_grad_norm_(mine, clip)
            adams[run].step()
        for gradient, size, start in zip(gradients, sizes, starts, strict=True):
            sum_squares(gradient, squares, size, start)
        shorten(squares, factors, clip)
        steps = torch.tensor(number, dtype=torch.float64, device=DEVICE)
        for parameter, narrow, gradient, moment, size in zip(
            parameters, rounded, gradients, moments, sizes, strict=True
        ):
            move(parameter, narrow, gradient, *moment, factors, rates.to(DEVICE), steps, size, betas, 1e-8)
    for number, parameter in enumerate(parameters):
        torch.testing.assert_close(
            parameter, torch.stack([mine[number].detach() for mine in theirs]), rtol=1e-5, atol=1e-6
        )
    torch.testing.assert_close(rounded[0], parameters[0].bfloat16(), rtol=0 if DEVICE == "cuda" else 2**-7, atol=0)


@pytest.mark.parametrize("runs", [None, 2])
def test_the_whole_objective(runs):
    torch.manual_seed(0)
    network = MultiViewVAE(
        [9, 14],
        4,
        3,
        hidden=(16,),
        likelihoods=["gaussian", "bernoulli"],
        alpha=5.0,
        correlation=torch.tensor([[1.0, 0.3], [0.3, 1.0]]),
    ).to(DEVICE)
    network.mapped = True
    observed = masks(25, 2)
    observed[0] = True
    batch = Batch([draw(25, 9), chance(25, 14)], observed)
    noise = draw(25, 2, 4, seed=5)
    names, values = zip(*network.named_parameters(), strict=True)

    def total(*parameters):
        state = dict(zip(names, parameters, strict=True))
        loss = lambda state: torch.func.functional_call(_Loss(network), state, (batch, noise))  # noqa: E731
        return (loss({f"network.{name}": value for name, value in state.items()}),)

    function = total if runs is None else torch.func.vmap(total)
    inputs = values if runs is None else [torch.stack([value] * runs) for value in values]
    assert_same(both_ways(function, inputs), rtol=1e-4, atol=1e-4)


class _Loss(torch.nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, batch, noise):
        return self.network.loss(batch, noise)["total"]
