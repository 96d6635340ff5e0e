"""Each likelihood against scipy's densities and quantiles, its gradients, and what it does at the edges."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.special import expit, softmax

from acova.data.features import Features
from acova.functional import reconstruction
from acova.networks.likelihoods import LIKELIHOODS

BLOCKS = (3, 2)
SIZE = 5
COUNTS = ("poisson", "negative_binomial", "zero_inflated_negative_binomial")


def likelihood_of(name):
    """Return a likelihood in float64 with parameters of its features that differ."""
    torch.manual_seed(1)
    made = LIKELIHOODS[name](SIZE, BLOCKS if name == "categorical" else ()).double()
    made.start(np.array([0.5, 2.0, 1.0, 7.0, 0.1]), np.array([0.8, 7.0, 1.5, 9.0, 0.3]))
    if made.has_spread:
        made.spread += torch.randn(SIZE, dtype=torch.float64)
    return made


def data_of(name, rng, rows=6):
    if name in COUNTS:
        found = rng.poisson(rng.gamma(1.0, 4.0, (rows, SIZE))).astype(float)
        found[0], found[1, 0] = [0, 0, 1, 40, 0], 0
        return found
    if name == "beta":
        return rng.uniform(0.01, 0.99, (rows, SIZE))
    if name == "bernoulli":
        return rng.integers(0, 2, (rows, SIZE)).astype(float)
    if name == "categorical":
        return np.hstack([np.eye(count)[rng.integers(0, count, rows)] for count in BLOCKS])
    return rng.normal(0, 2, (rows, SIZE))


def outputs_of(name, rng, rows=6):
    return rng.normal(0, 1, (rows, LIKELIHOODS[name].widths * SIZE))


def expected(name, made, output, target):
    """Return scipy's log densities of the cells."""
    spread = made.spread.detach().numpy() if made.has_spread else None
    return by_counts(name, made, output, target, spread) if name in COUNTS else SCIPY[name](output, target, spread)


def by_beta(output, target, spread):
    mean, precision = 1e-3 + (1 - 2e-3) * expit(output), np.exp(7 * np.tanh(spread / 7))
    return stats.beta.logpdf(target, mean * precision, (1 - mean) * precision)


def by_softmax(output, target, spread):
    return target * np.log(np.hstack([softmax(output[:, :3], axis=1), softmax(output[:, 3:], axis=1)]))


def by_counts(name, made, output, target, spread):
    width, total = made.size, target.sum(axis=1, keepdims=True)
    mean = total * softmax(output[:, :width] + made.baseline.numpy(), axis=1)
    if name == "poisson":
        return stats.poisson.logpmf(target, mean)
    dispersion = np.exp(9 * np.tanh(spread / 9))
    cells = stats.nbinom.logpmf(target, dispersion, dispersion / (dispersion + mean))
    if name == "negative_binomial":
        return cells
    lost = expit(output[:, width:] - 2)
    return np.log(lost * (target == 0) + (1 - lost) * np.exp(cells))


SCIPY = {
    "gaussian": lambda output, target, _: stats.norm.logpdf(target, output, math.sqrt(0.5)),
    "gaussian_learned": lambda y, x, spread: stats.norm.logpdf(x, y, np.exp(0.5 * 7 * np.tanh(spread / 7))),
    "laplace": lambda output, target, _: stats.laplace.logpdf(target, output),
    "student_t": lambda y, x, spread: stats.t.logpdf(x, 4, y, np.exp(0.5 * 7 * np.tanh(spread / 7))),
    "bernoulli": lambda output, target, _: stats.bernoulli.logpmf(target, expit(output)),
    "categorical": by_softmax,
    "beta": by_beta,
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_errors_and_constants_are_minus_scipys_log_density(name):
    rng, made = np.random.default_rng(0), likelihood_of(name)
    output, target = outputs_of(name, rng), data_of(name, rng)
    found = made.log_constant(torch.from_numpy(target)) - made.error(torch.from_numpy(output), torch.from_numpy(target))
    np.testing.assert_allclose(found.detach().numpy(), expected(name, made, output, target), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_gradients_of_outputs_and_parameters(name):
    rng, made = np.random.default_rng(1), likelihood_of(name)
    output = torch.from_numpy(outputs_of(name, rng, 3)).requires_grad_()
    target = torch.from_numpy(data_of(name, rng, 3) + (0.3 if name in COUNTS else 0.0))
    seen = torch.tensor([True, True, False])
    assert torch.autograd.gradcheck(lambda at: made.reconstruction(target, at, seen), output)
    if made.has_spread:
        spread = made.spread.clone().requires_grad_()

        def log_density(spread):
            made.spread = spread
            return made.log_constant(target) - made.error(output.detach(), target)

        assert torch.autograd.gradcheck(log_density, spread)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_hidden_cells_have_no_part_in_anything(name):
    """Hidden rows and cells may hold NaN; the sum is that of a view that lacks the cells."""
    rng, made = np.random.default_rng(2), likelihood_of(name)
    output = torch.from_numpy(outputs_of(name, rng)).requires_grad_()
    target = torch.from_numpy(data_of(name, rng))
    seen = torch.tensor([True, False, True, True, False, True])
    cells = seen.unsqueeze(1).expand(6, SIZE).clone()
    whole = made.reconstruction(target, output, seen)
    torch.testing.assert_close(made.reconstruction(target, output, cells), whole)
    assert whole[~seen].tolist() == [0, 0]
    cells[:, 3:] = False
    broken = target.masked_fill(~cells, torch.nan)
    partial = made.reconstruction(broken, output, cells)
    partial.sum().backward()
    assert output.grad.isfinite().all()
    assert not output.grad.unflatten(1, (-1, SIZE)).masked_select(~cells.unsqueeze(1)).any()
    if name not in (*COUNTS, "categorical"):
        errors = made.error(output, target).masked_fill(~cells, 0.0)
        torch.testing.assert_close(partial, errors.sum(1))
    constants = made.constant(broken, cells)
    torch.testing.assert_close(constants, made.log_constant(target).masked_fill(~cells, 0.0).sum(1))


@pytest.mark.parametrize("name", COUNTS)
def test_counts_of_hidden_cells_are_left_out_of_the_rows_sum(name):
    """A view with hidden cells is the view of the other columns."""
    rng, made = np.random.default_rng(3), likelihood_of(name)
    output, target = torch.from_numpy(outputs_of(name, rng)), torch.from_numpy(data_of(name, rng))
    cells = torch.ones(6, SIZE, dtype=torch.bool)
    cells[:, 3:] = False
    narrow = LIKELIHOODS[name](3).double()
    narrow.baseline.copy_(made.baseline[:3])
    if made.has_spread:
        narrow.spread = made.spread[:3]
    outputs = output.unflatten(1, (-1, SIZE))[..., :3].flatten(1)
    alone = narrow.reconstruction(target[:, :3], outputs, torch.ones(6, dtype=torch.bool))
    torch.testing.assert_close(made.reconstruction(target, output, cells), alone)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "bernoulli"])
def test_sums_are_those_of_the_function_with_kernels(name):
    rng, made = np.random.default_rng(4), likelihood_of(name)
    output, target = torch.from_numpy(outputs_of(name, rng)), torch.from_numpy(data_of(name, rng))
    seen = torch.tensor([True, False] * 3)
    torch.testing.assert_close(made.reconstruction(target, output, seen), reconstruction(target, output, seen, name))
    torch.testing.assert_close(
        made.reconstruction(target, output, seen.unsqueeze(1).expand(6, SIZE)),
        reconstruction(target, output, seen, name),
    )


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_draws_have_the_mean_and_quantiles_are_those_of_draws(name):
    rng, made = np.random.default_rng(5), likelihood_of(name)
    output = torch.from_numpy(outputs_of(name, rng, 1)).expand(20_000, -1)
    total = torch.full((20_000,), 30.0, dtype=torch.float64)
    draws = made.sample(output, torch.from_numpy(rng.random((20_000, SIZE))), total).detach()
    mean = made.mean(output[:1], total[:1]).detach()
    error = draws.std(0) / math.sqrt(len(draws)) + 1e-3
    assert ((draws.mean(0) - mean[0]).abs() < 5 * error).all()
    level = torch.full((1, SIZE), 0.8, dtype=torch.float64)
    quantile = made.quantile(output[:1], level, total[:1]).detach()[0]
    assert ((draws <= quantile + 1e-9).double().mean(0) > 0.78).all()
    assert ((draws < quantile - 1e-9).double().mean(0) < 0.82).all()


def test_a_draw_of_categories_is_one_of_each_block():
    rng, made = np.random.default_rng(6), likelihood_of("categorical")
    draws = made.sample(torch.from_numpy(outputs_of("categorical", rng)), torch.from_numpy(rng.random((6, SIZE))))
    assert draws[:, :3].sum(1).tolist() == draws[:, 3:].sum(1).tolist() == [1] * 6


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("size", [1e-30, 1.0, 80.0, 1e4])
def test_extreme_outputs_and_values_stay_finite(name, size):
    made = LIKELIHOODS[name](SIZE, BLOCKS if name == "categorical" else ())
    if made.has_spread:
        made.spread = torch.tensor([-1e4, -20.0, 0.0, 20.0, 1e4])
    signs = torch.tensor([1.0, -1.0, 1.0, -1.0, 0.0]).repeat(made.widths)
    output = torch.stack([size * signs, -size * signs, 0 * signs]).requires_grad_()
    most = {"bernoulli": 1.0, "beta": 1.0, "categorical": 1.0}.get(name, 1e6)
    target = torch.tensor([[0.0, most, 0.0, 1.0, most], [0.0] * SIZE, [most, 0.0, 0.0, 0.0, 0.0]])
    errors = made.error(output, target)
    errors.sum().backward()
    assert errors.isfinite().all()
    assert output.grad.isfinite().all()
    assert made.log_constant(target).isfinite().all()


def test_means_of_neighbours_pull_as_the_neighbours_do():
    """The gradient by the mean is linear in a count, so one error against the mean of counts has that of the counts."""
    made = likelihood_of("negative_binomial")
    target = torch.tensor([[3.0, 0.0, 1.0, 8.0, 0.0], [0.0, 2.0, 4.0, 6.0, 0.0]], dtype=torch.float64)
    output = torch.randn(1, SIZE, dtype=torch.float64, requires_grad=True)
    (each,) = torch.autograd.grad(made.error(output.expand(2, -1), target).sum() / 2, output)
    (of_mean,) = torch.autograd.grad(made.error(output, target.mean(0, keepdim=True)).sum(), output)
    torch.testing.assert_close(of_mean, each)


def test_lost_counts_are_interpolated_between_none_and_one():
    made = likelihood_of("zero_inflated_negative_binomial")
    rng = np.random.default_rng(7)
    output = torch.from_numpy(outputs_of("zero_inflated_negative_binomial", rng, 1))
    base = torch.tensor([[0.0, 2.0, 3.0, 3.0, 2.0]], dtype=torch.float64)

    def first(value):  # the other cells keep the row's sum
        row = base.clone()
        row[0, 0], row[0, 1] = value, 2.0 - value
        return made.error(output, row)[0, 0]

    torch.testing.assert_close(first(0.25), 0.75 * first(0.0) + 0.25 * first(1.0))


@pytest.mark.parametrize("name", COUNTS)
def test_outputs_of_zero_are_the_means_of_training(name):
    made = LIKELIHOODS[name](3).double()
    mean = np.array([4.0, 0.5, 0.25])
    made.start(mean, 2 * mean)
    lost = expit(-2) if made.widths > 1 else 0.0
    found = made.mean(torch.zeros(1, made.widths * 3, dtype=torch.float64))
    np.testing.assert_allclose(found[0], (1 - lost) * mean, rtol=1e-6)
    made.start(np.array([4.0, 0.5, 0.0]), np.zeros(3))
    assert all(buffer.isfinite().all() for buffer in made.buffers())


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_the_cost_of_the_means_is_about_what_they_cost_more_than_the_best(name):
    """By the formula and by decoding made data to their means, with the spreads of the start."""
    rows = _made_rows(name, np.random.default_rng(8))
    mean, variance = LIKELIHOODS[name].moments(rows)
    made = LIKELIHOODS[name](SIZE, BLOCKS if name == "categorical" else ()).double()
    made.start(mean, variance)
    blind, best = (
        made.error(output.expand(len(rows), -1), torch.from_numpy(rows)).sum(1).mean().item()
        for output in _blind_and_best(name, made, torch.from_numpy(rows), torch.from_numpy(mean))
    )
    assert made.blind_cost(mean, variance) == pytest.approx(blind - best, rel=0.25)


def _made_rows(name, rng):
    if name == "poisson":
        return rng.poisson([5.0, 9.0, 20.0, 4.0, 6.0], (4000, SIZE)).astype(float)
    if name in COUNTS:
        return rng.negative_binomial(4, 4 / (4 + 30.0), (4000, SIZE)).astype(float)
    if name == "beta":
        return rng.beta(6, 9, (4000, SIZE))
    if name == "laplace":
        return rng.normal(1, 2, (4000, SIZE))
    return data_of(name, rng, 4000)


def _blind_and_best(name, made, target, mean):
    """Return the outputs of the means, and those that are best for each cell."""
    if name == "bernoulli":
        return mean.logit(), (2 * target - 1) * 40
    if name == "beta":
        return tuple(((share - 1e-3) / (1 - 2e-3)).logit() for share in (mean, target))
    if name == "categorical":
        return mean.log(), target * 40
    if name not in COUNTS:
        return mean, target
    logits = torch.zeros(1, SIZE, dtype=torch.float64), target.clamp(min=1e-9).log() - made.baseline
    return logits if made.widths == 1 else [torch.cat([part, torch.full_like(part, -20)], 1) for part in logits]


def _features(rows):
    found = Features(rows.shape[1])
    found.add(rows)
    return found


@pytest.mark.parametrize(
    ("name", "rows", "words"),
    [
        ("poisson", [[1.0, -2.0]], "column 1 has values down to -2, but the likelihood 'poisson' needs counts"),
        ("negative_binomial", [[1.0, 2.5]], "column 1 has values that are no whole numbers"),
        ("negative_binomial", [[1.0]], "column 0 is the only one of its view"),
        ("beta", [[0.5, 7.0]], "column 1 has values from 7 to 7, but the beta likelihood needs shares"),
        ("bernoulli", [[0.5, -7.0]], "column 1 has values from -7 to -7, but the Bernoulli"),
    ],
)
def test_data_that_a_likelihood_excludes_are_named(name, rows, words):
    kind, column = LIKELIHOODS[name], "column {}".format
    assert words in kind.check(_features(np.array(rows)), column)
    good = [[0.0, 1.0], [1.0, 0.0]]
    assert kind.check(_features(np.array(good)), column) is None


def test_the_page_on_likelihoods_has_a_row_for_each():
    page = (Path(__file__).parents[2] / "docs" / "likelihoods.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1].strip(' `"') for line in page.splitlines() if line.startswith('| `"')]
    assert sorted(rows) == sorted(LIKELIHOODS)
