import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from acova.engine import Runs
from acova.functional import Batch
from acova.networks import Perceptrons
from acova.networks.perceptrons import Packed, _Affine, decode_wanted, encode_observed

SIZES = [7, 12, 5]


def plain(perceptrons, view, inputs, outputs):
    """The same perceptron in torch's own layers, from the unpadded part of the weights."""
    layers, width = [], inputs
    for number, layer in enumerate(perceptrons.layers):
        weight = (layer.weight if layer.stacked else layer.weights)[view]
        bias = (layer.bias if layer.stacked else layer.biases)[view]
        last = number == len(perceptrons.layers) - 1
        after = outputs if last else HIDDEN[number]
        linear = nn.Linear(width, after, dtype=weight.dtype)
        with torch.no_grad():
            linear.weight.copy_(weight[:width, :after].T)
            linear.bias.copy_(bias[:after])
        layers += [linear] if last else [linear, nn.ReLU()]
        width = after
    return nn.Sequential(*layers)


HIDDEN = [10, 6]


@pytest.fixture
def perceptrons():
    torch.manual_seed(0)
    return Perceptrons([SIZES, *HIDDEN, 4], 3).double()


def test_views_of_different_widths_that_pad_to_the_same_are_taken_together():
    torch.manual_seed(0)
    perceptrons = Perceptrons([[7, 5], *HIDDEN, 4], 2).double()
    rows = [torch.randn(9, size, dtype=torch.float64) for size in (7, 5)]
    for v, (out, size) in enumerate(zip(perceptrons(rows, together=True), (7, 5), strict=True)):
        torch.testing.assert_close(out, plain(perceptrons, v, size, 4)(rows[v]))


def test_weights_start_with_the_variance_that_is_asked_for():
    torch.manual_seed(0)
    for xavier, variance in ((False, 1 / (3 * 250)), (True, 2 / (250 + 300))):
        layer = Perceptrons([250, 300], 2, xavier=xavier).layers[0]
        assert layer.weight[:, :250, :300].var().item() == pytest.approx(variance, rel=0.02)
        assert (layer.weight[:, 250:] == 0).all()
        assert (layer.weight[:, :, 300:] == 0).all()


@pytest.mark.parametrize("together", [False, True])
def test_values_and_gradients_are_those_of_plain_layers(perceptrons, together):
    counts = [9, 9, 9] if together else [9, 4, 0]
    rows = [
        torch.randn(n, size, dtype=torch.float64, requires_grad=True) for n, size in zip(counts, SIZES, strict=True)
    ]
    outs = perceptrons(rows, together=together)
    sum(out.sin().sum() for out in outs).backward()
    for v, size in enumerate(SIZES):
        twin = plain(perceptrons, v, size, 4)
        copy = rows[v].detach().clone().requires_grad_()
        expected = twin(copy)
        torch.testing.assert_close(outs[v], expected)
        expected.sin().sum().backward()
        torch.testing.assert_close(rows[v].grad, copy.grad)
        gradient = perceptrons.layers[1].weight.grad[v]
        torch.testing.assert_close(gradient[:10, :6], twin[2].weight.grad.T)
        torch.testing.assert_close(perceptrons.layers[0].biases[v].grad[:10], twin[0].bias.grad)


@pytest.mark.parametrize("together", [False, True])
def test_gradients_are_those_of_finite_differences(perceptrons, together):
    rows = [torch.randn(3, size, dtype=torch.float64) for size in SIZES]
    names = [name for name, _ in perceptrons.named_parameters()]

    def outputs(*values):
        state = dict(zip(names, values, strict=True))
        return torch.cat(functional_call(perceptrons, state, (rows,), {"together": together}))

    values = tuple(p.detach().clone().requires_grad_() for p in perceptrons.parameters())
    assert torch.autograd.gradcheck(outputs, values)


def test_mapped_over_runs_it_is_each_run(perceptrons):
    torch.manual_seed(1)
    others = [perceptrons, *(Perceptrons([SIZES, *HIDDEN, 4], 3).double() for _ in range(2))]
    parameters, _ = stack_module_state(others)
    rows = [torch.randn(3, 5, size, dtype=torch.float64) for size in SIZES]
    call = lambda state, mine: functional_call(perceptrons, state, (mine,), {"together": True})  # noqa: E731
    outs = vmap(call)(parameters, rows)
    sum(out.square().sum() for out in outs).backward()
    for run, network in enumerate(others):
        expected = network([part[run] for part in rows], together=True)
        network.zero_grad()
        sum(out.square().sum() for out in expected).backward()
        for mine, theirs in zip(outs, expected, strict=True):
            torch.testing.assert_close(mine[run], theirs)
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(parameters[name].grad[run], parameter.grad)


def test_added_units_stay_zero_through_training(perceptrons):
    optimiser = torch.optim.Adam(perceptrons.parameters(), lr=0.1)
    for _ in range(5):
        optimiser.zero_grad()
        outs = perceptrons([torch.randn(8, size, dtype=torch.float64) for size in SIZES], together=False)
        sum((out - 1).square().sum() for out in outs).backward()
        optimiser.step()
    inner = perceptrons.layers[1].weight
    assert inner.shape == (3, 16, 8)
    assert (inner[:, :10, :6] != 0).all()
    assert (inner[:, 10:] == 0).all()
    assert (inner[:, :, 6:] == 0).all()
    assert (perceptrons.layers[1].bias[:, 6:] == 0).all()


def test_equal_widths_are_stacked_and_no_hidden_layer_is_fine():
    torch.manual_seed(0)
    alike = Perceptrons([[6, 6], 4], 2)
    assert [name for name, _ in alike.named_parameters()] == ["layers.0.weight", "layers.0.bias"]
    rows = [torch.randn(3, 6), torch.randn(3, 6)]
    for mine, other in zip(alike(rows, together=True), alike(rows, together=False), strict=True):
        torch.testing.assert_close(mine, other)
    expected = rows[1] @ alike.layers[0].weight[1, :6, :4] + alike.layers[0].bias[1, :4]
    torch.testing.assert_close(alike(rows, together=True)[1], expected)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("leading", [(), (3,)])
def test_the_layer_with_its_own_gradients_is_torchs(leading, relu):
    """As GPUs and rounded products have it; the mapped axis is that of runs."""
    torch.manual_seed(0)
    shapes = (*leading, 7, 4), (*leading, 4, 6), (*leading, 6)
    inputs = [torch.randn(2, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def own(rows, weight, bias):
        return _Affine.apply(rows, weight, bias, weight.detach(), relu)

    def torchs(rows, weight, bias):
        out = rows @ weight + bias.unsqueeze(-2)
        return out.relu() if relu else out

    found = []
    for function in (own, torchs):
        each = torch.stack([function(*one) for one in zip(*inputs, strict=True)])
        for out in (each, vmap(function)(*inputs)):
            found.append([out, *torch.autograd.grad(out.sin().sum(), inputs)])
    for other in found[:-1]:
        torch.testing.assert_close(other, found[-1])


@pytest.mark.parametrize("rates", [(0.8, 0.8, 0.8), (1.0, 0.9, 0.05), (0.0, 0.5, 1.0), (0.0, 0.0, 0.0)])
def test_packed_rows_are_those_of_a_batch_computed_whole(perceptrons, rates):
    torch.manual_seed(1)
    observed = torch.rand(50, 3) < torch.tensor(rates)
    views = [torch.randn(50, size, dtype=torch.float64) for size in SIZES]
    decoders = Perceptrons([4, *HIDDEN, SIZES], 3).double()
    found = []
    for mapped in (False, True):  # mapped: all rows are computed
        estimates = encode_observed(perceptrons, views, observed, mapped=mapped).masked_fill(~observed.unsqueeze(-1), 0)
        outputs = decode_wanted(decoders, estimates.unbind(1), observed, mapped=mapped)
        seen = [out[mine] for out, mine in zip(outputs, observed.T, strict=True)]
        parameters = [*perceptrons.parameters(), *decoders.parameters()]
        found.append([*seen, *torch.autograd.grad(sum(part.sin().sum() for part in seen), parameters)])
    for packed, whole in zip(*found, strict=True):
        torch.testing.assert_close(packed, whole)


def test_views_are_one_product_unless_one_of_them_is_mostly_hidden():
    observed = torch.zeros(64, 2, dtype=torch.bool)
    observed[:40, 0] = observed[20:64, 1] = True
    packed = Packed(observed)
    assert packed.together
    assert [len(part) for part in packed.take([torch.zeros(64, 1)] * 2)] == [48, 48]
    observed[:20, 0] = False
    packed = Packed(observed)
    assert not packed.together
    assert [len(part) for part in packed.take([torch.zeros(64, 1)] * 2)] == [20, 44]


@pytest.mark.parametrize("together", [False, True])
def test_rounded_on_a_cpu_outputs_are_sums_of_rounded_factors_and_gradients_near(together):
    torch.manual_seed(0)
    perceptrons = Perceptrons([SIZES, 64, 32, 4], 3)
    rows = [torch.randn(200, size) for size in SIZES]
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        perceptrons.dtype = dtype
        outs = perceptrons(rows, together=together)
        assert all(out.dtype == torch.float32 for out in outs)
        gradients = torch.autograd.grad(sum(out.sin().sum() for out in outs), perceptrons.parameters())
        assert all(gradient.dtype == torch.float32 for gradient in gradients)
        found[dtype] = [*outs, *gradients]
    for exact, rounded in zip(*found.values(), strict=True):
        error = torch.linalg.vector_norm(rounded - exact) / torch.linalg.vector_norm(exact)
        assert 1e-4 < error < 0.06
    # An output layer alone: factors are rounded, their sums are not.
    layer = Perceptrons([8, 4], 2)
    layer.dtype = torch.bfloat16
    rows = [torch.randn(50, 8) for _ in range(2)]
    (weight, bias), narrow = layer.parameters(), [part.bfloat16().double() for part in rows]
    for v, out in enumerate(layer(rows, together=together)):
        expected = narrow[v] @ weight[v].bfloat16().double() + bias[v].double()
        torch.testing.assert_close(out.double(), expected[:, :4], rtol=1e-6, atol=1e-6)


class Squares(Perceptrons):
    """Perceptrons with a loss, as the engine trains them."""

    def loss(self, batch, noise):
        return {"total": sum(out.square().sum(-1) for out in self(batch.views, together=True))}


@pytest.mark.parametrize("n_runs", [1, 2])
def test_weights_kept_rounded_are_those_rounded_anew(n_runs):
    torch.manual_seed(0)
    networks = [Squares([SIZES, 16, 8, 4], 3) for _ in range(n_runs)]
    for network in networks:
        network.dtype = torch.bfloat16
    runs = Runs(networks)
    views = [torch.randn(n_runs, 20, size) for size in SIZES]
    batch = Batch(views, torch.ones(n_runs, 20, 3, dtype=torch.bool))

    def found():
        total = runs.losses(Squares.loss, batch, torch.zeros(n_runs, 20, 0))["total"]
        return total, *torch.autograd.grad(total.sum(), runs.parameters.values())

    before = found()
    runs.keep_rounded()
    assert set(runs.rounded) == {"layers.1.weight", "layers.2.weight"}  # the inputs' widths differ
    assert all(map(torch.equal, before, found()))
    with torch.no_grad():
        runs.parameters["layers.1.weight"].mul_(2)
    assert all(map(torch.equal, before[:1], found()[:1]))  # who writes must say so
    runs.round_again()
    after = found()
    assert not torch.equal(before[0], after[0])
    runs.release()
    assert not runs.rounded
    alone = sum(out.square().sum(-1) for out in networks[0]([view[0] for view in views], together=True))
    torch.testing.assert_close(alone, after[0][0], rtol=1e-2, atol=1e-3)
