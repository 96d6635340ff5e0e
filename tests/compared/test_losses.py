"""Losses of DSIMVC, CPSPAN and PMIMC against loops written after the papers, and their known values."""

import math

import numpy as np
import pytest
import torch

from acova.compared.cpspan import column_misfit, partner_misfit
from acova.compared.dsimvc_network import label_contrast, shortened, spectral_contrast
from acova.compared.pmimc import neighbourhood_divergence, robust_matching

N, D = 7, 4
ROWS = torch.tensor([1, 1, 0, 1, 1, 0, 1], dtype=torch.float64)
SEEN = ROWS.bool().numpy()


def codes(seed, positive=False):
    drawn = torch.randn(N, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.softmax(-1) if positive else drawn


def cosine(a, b):
    return a @ b / np.linalg.norm(a) / np.linalg.norm(b)


def slow_spectral(a, b):
    n = len(a)
    apart = sum((a[i] @ b[j]) ** 2 for i in range(n) for j in range(n) if i != j)
    return -2 / n * sum(a[i] @ b[i] for i in range(n)) + apart / (n * (n - 1))


def slow_label(a, b):
    total = 0.0
    for mine, other in ((a, b), (b, a)):
        for k in range(D):
            same = cosine(mine[:, k], other[:, k])
            unlike = [cosine(mine[:, k], mine[:, m]) for m in range(D) if m != k]
            total += (np.log(np.exp([same, *unlike]).sum()) - same) / (2 * D)
        full = mine.sum(0) / mine.sum()
        total += np.log(D) + (full * np.log(full)).sum()
    return total


def slow_divergence(a, b):
    n = len(a)

    def shares(x, y):
        sums = [sum(np.exp(cosine(x[i], y[j])) + np.exp(cosine(x[i], x[j])) for j in range(n)) for i in range(n)]
        return np.array([np.exp(cosine(x[i], y[i])) / sums[i] for i in range(n)])

    p, q = shares(a, b), shares(b, a)
    return 0.5 * (p * np.log(p / q) + q * np.log(q / p)).sum()


def slow_matching(a, b):
    n = len(a)
    missed = [1 - np.exp(cosine(a[k], b[k])) / sum(np.exp(cosine(a[k], b[m])) for m in range(n)) for k in range(n)]
    return np.mean([m + m**2 / 2 for m in missed])


LOSSES = {
    "spectral": (lambda a, b, r: spectral_contrast(a, b, r).sum(), slow_spectral, False),
    "label": (label_contrast, slow_label, True),
    "partners": (
        partner_misfit,
        lambda a, b: np.mean([(1 - cosine(x, y)) ** 2 for x, y in zip(a, b, strict=True)]),
        False,
    ),
    "columns": (
        column_misfit,
        lambda a, b: np.mean([(1 - cosine(a[:, k], b[:, m])) ** 2 for k in range(D) for m in range(D)]),
        False,
    ),
    "divergence": (neighbourhood_divergence, slow_divergence, False),
    "matching": (robust_matching, slow_matching, False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_is_the_loop_over_the_rows_that_take_part(name):
    loss, slow, positive = LOSSES[name]
    first, second = codes(0, positive), codes(1, positive)
    expected = slow(first.numpy()[SEEN], second.numpy()[SEEN])
    assert float(loss(first, second, ROWS)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name", LOSSES)
def test_rows_that_take_no_part_change_neither_value_nor_gradient(name):
    loss, _, positive = LOSSES[name]
    results = []
    for seed in (5, 6):
        first, second = codes(0, positive), codes(1, positive)
        first[~ROWS.bool()] = codes(seed, positive)[~ROWS.bool()]
        inputs = [first.requires_grad_(), second.requires_grad_()]
        value = loss(*inputs, ROWS)
        results.append([value.detach(), *(g[ROWS.bool()] for g in torch.autograd.grad(value, inputs))])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)
    none = loss(*inputs, torch.zeros_like(ROWS))
    assert all(torch.isfinite(g).all() for g in torch.autograd.grad(none, inputs, allow_unused=True) if g is not None)


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_twice(name):
    loss, _, positive = LOSSES[name]
    inputs = [codes(0, positive).requires_grad_(), codes(1, positive).requires_grad_()]
    assert torch.autograd.gradcheck(lambda a, b: loss(a, b, ROWS), inputs)
    if name in ("spectral", "label"):
        assert torch.autograd.gradgradcheck(lambda a, b: loss(a, b, ROWS), inputs)


def test_contrasts_of_perfect_views():
    every = torch.ones(4, dtype=torch.float64)
    axes = torch.eye(4, dtype=torch.float64)
    for length in (0.5, 1.5):
        assert float(spectral_contrast(length * axes, length * axes, every).sum()) == pytest.approx(-2 * length**2)
    assert torch.linalg.vector_norm(shortened(5 * axes), dim=1).tolist() == pytest.approx([3**0.5] * 4)
    torch.testing.assert_close(shortened(axes), axes)
    balanced = axes.repeat(3, 1)
    expected = math.log(1 + 3 * math.exp(-1))
    assert float(label_contrast(balanced, balanced, torch.ones(12, dtype=torch.float64))) == pytest.approx(expected)


def test_alignment_is_zero_for_collinear_codes_only():
    first = codes(0)
    assert float(partner_misfit(first, 3 * first, ROWS)) == pytest.approx(0, abs=1e-12)
    assert float(partner_misfit(first, -first, ROWS)) == pytest.approx(4)
    assert float(neighbourhood_divergence(first, first, ROWS)) == pytest.approx(0, abs=1e-12)
    assert float(neighbourhood_divergence(first, codes(1), ROWS)) > 0
    rank_one = torch.outer(codes(2)[:, 0], torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64))
    assert float(column_misfit(rank_one, 2 * rank_one, ROWS)) == pytest.approx(0, abs=1e-12)
    assert float(column_misfit(first, first, ROWS)) > 0.1


def test_matching_of_equal_and_of_orthogonal_prototypes():
    every = torch.ones(4, dtype=torch.float64)
    missed = 1 - 1 / 4
    same = torch.ones(4, 4, dtype=torch.float64)
    assert float(robust_matching(same, same, every)) == pytest.approx(missed + missed**2 / 2)
    missed = 1 - math.e / (math.e + 3)
    axes = torch.eye(4, dtype=torch.float64)
    assert float(robust_matching(axes, axes, every)) == pytest.approx(missed + missed**2 / 2)
