import math

import numpy as np
import pytest
import torch

from acova.compared.mvp_network import CyclicVAE, Grid, divergence, random_cycles
from acova.data import make_observed
from acova.engine import Runs
from acova.functional import Batch

SIZES = (7, 5, 9)


def network_of(n_views=3, **settings):
    torch.manual_seed(0)
    likelihoods = ("gaussian", "laplace", "gaussian")[:n_views]
    network = CyclicVAE(SIZES[:n_views], 4, 5, hidden=(16, 8), likelihoods=likelihoods, **settings)
    return network.double()


def data(network, n=30, missing=0.6):
    generator = torch.Generator().manual_seed(1)
    views = [torch.randn(n, size, dtype=torch.float64, generator=generator) for size in SIZES[: network.n_views]]
    observed = torch.from_numpy(make_observed(n, network.n_views, missing, random_state=0))
    noise = torch.randn(n, *network.noise_shape, dtype=torch.float64, generator=generator)
    return Batch(views, observed), noise


def kl(m, g, m2, g2):
    return 0.5 * np.sum(g2 - g + (np.exp(g) + (m - m2) ** 2) / np.exp(g2) - 1)


def between(first, second, mutual):
    return np.mean([kl(*first, *second), kl(*second, *first)]) if mutual else kl(*first, *second)


def common(m, g):
    precision = np.exp(-g).sum(0)
    return (np.exp(-g) * m).sum(0) / precision, -np.log(precision)


def correspond(network, number, row):
    """One correspondence network on one row, in numpy."""
    layers = zip(network.correspondences.weights, network.correspondences.biases, strict=True)
    for i, (weight, bias) in enumerate(layers):
        row = row @ weight[number].detach().numpy() + bias[number, 0].detach().numpy()
        row = row if i == 3 else np.where(row > 0, row, 0.01 * row)
    return row


def slow_grid(network, own):
    """Means and log-variances (V, V, D) from every view's own (2D,)."""
    V, d = network.n_views, network.latent_dim
    m, g = np.zeros((V, V, d)), np.zeros((V, V, d))
    for s in range(V):
        m[s, s], g[s, s] = own[s][:d], own[s][d:]
        for t in range(V):
            pair = s * (V - 1) + (t if t < s else t - 1)
            if t != s:
                m[s, t] = correspond(network, pair, m[s, s])
                g[s, t] = correspond(network, V * (V - 1) + pair, g[s, s])
    return m, g


def slow_misfit(network, view, s, grid, noise):
    m, g = grid
    c, gc = common(m[s], g[s])
    code = np.concatenate([c + np.exp(gc / 2) * noise[0, s], m[s, s] + np.exp(g[s, s] / 2) * noise[1, s]])
    rows = [torch.from_numpy(code)[None]] * network.n_views
    gap = view - torch.tanh(network.decoders(rows, together=True)[s][0]).detach().numpy()
    return (np.abs(gap) if network.likelihoods[s] == "laplace" else gap**2).sum()


def slow_loss(network, batch, noise, mutual):
    """The definition, a sample, a source and a target at a time."""
    views, observed = batch.views, batch.observed
    n, V = len(observed), network.n_views
    at = noise.shape[1] - V * V
    draws = noise[:, :at].reshape(n, 2, 2, V, network.latent_dim).numpy()
    cycles = random_cycles(noise[:, at:].reshape(n, V, V), observed.unsqueeze(1).expand(-1, V, -1)).numpy()
    own = [torch.tanh(part).detach().numpy() for part in network.encoders(views, together=True)]
    totals = []
    for i in range(n):
        m, g = slow_grid(network, [part[i] for part in own])
        moved = [np.array([[part[cycles[i, t, s], t] for t in range(V)] for s in range(V)]) for part in (m, g)]
        rec = at_views = at_common = 0.0
        for s in np.flatnonzero(observed[i]):
            x = views[s][i].numpy()
            passes = [slow_misfit(network, x, s, (m, g), draws[i, 0]), slow_misfit(network, x, s, moved, draws[i, 1])]
            rec += np.mean(passes) if mutual else passes[0]
            pairs = [between((m[s, t], g[s, t]), (moved[0][s, t], moved[1][s, t]), mutual) for t in range(V)]
            at_views += np.mean(pairs)
            at_common += between(common(m[s], g[s]), common(moved[0][s], moved[1][s]), mutual)
        total = network.reconstruction_weight * rec + network.permutation_weight * (5 * at_views + 2.5 * at_common)
        totals.append([total, rec, at_views, at_common])
    return np.array(totals).T


@pytest.mark.parametrize("mutual", [False, True])
@pytest.mark.parametrize("n_views", [2, 3])
def test_the_loss_is_its_definition(n_views, mutual):
    network = network_of(n_views, reconstruction_weight=1.5, permutation_weight=0.7)
    batch, noise = data(network, n=12)
    with torch.no_grad():
        ours = network.loss(batch, noise, mutual=mutual)
        expected = slow_loss(network, batch, noise, mutual)
    for name, value in zip(("total", "reconstruction", "view_exchange", "common_exchange"), expected, strict=True):
        np.testing.assert_allclose(ours[name].numpy(), value, rtol=1e-9, atol=1e-9, err_msg=name)


def test_with_one_view_nothing_is_exchanged_and_its_common_variable_is_the_result():
    network = network_of()
    batch, noise = data(network, missing=1.0)
    views, observed = batch.views, batch.observed
    single = observed.sum(1) == 1
    with torch.no_grad():
        parts = network.loss(batch, noise)
        mean, log_variance = network.grid(views, observed).common()
        fused = network.posterior(views, observed)
    for name in ("view_exchange", "common_exchange"):
        torch.testing.assert_close(parts[name][single], torch.zeros(int(single.sum())).double(), rtol=0, atol=1e-12)
        assert (parts[name][~single] > 1e-6).all()
    torch.testing.assert_close(fused.mean[single], mean[observed & single[:, None]])
    torch.testing.assert_close(fused.variance[single], log_variance.exp()[observed & single[:, None]])


def test_views_that_agree_lose_nothing_whatever_is_exchanged():
    network = network_of()
    batch, noise = data(network)
    mean, log_variance = (torch.randn(30, 1, 3, 4).double().expand(-1, 3, -1, -1) for _ in range(2))
    network.grid = lambda *_: Grid(mean, log_variance)
    with torch.no_grad():
        parts = network.loss(batch, noise)
    torch.testing.assert_close(parts["view_exchange"], torch.zeros(30).double())
    torch.testing.assert_close(parts["common_exchange"], torch.zeros(30).double())


def test_exchanging_two_views_does_not_depend_on_their_order():
    torch.manual_seed(0)
    mean, log_variance = torch.randn(10, 2, 2, 3).double(), torch.randn(10, 2, 2, 3).double()
    grid, swapped = Grid(mean, log_variance), Grid(mean.flip(1), log_variance.flip(1))
    ours = divergence(grid, swapped, mutual=True)
    torch.testing.assert_close(ours, ours.flip(1))
    one_way = divergence(grid, swapped, mutual=False)
    torch.testing.assert_close(one_way.sum(1), ours.sum(1))


@pytest.mark.parametrize("junk", [1e6, math.nan])
def test_hidden_cells_touch_neither_loss_nor_gradient(junk):
    network = network_of()
    (views, observed, *_), noise = data(network)
    results = []
    for value in (0.0, junk):
        cells = [view.masked_fill(~seen.unsqueeze(-1), value) for view, seen in zip(views, observed.T, strict=True)]
        network.zero_grad()
        total = network.loss(Batch(cells, observed), noise)["total"]
        total.sum().backward()
        gradients = [p.grad.clone() for n, p in network.named_parameters() if not n.startswith("prior.")]
        results.append((total.detach(), gradients))
    assert torch.equal(results[0][0], results[1][0])
    assert all(torch.equal(a, b) for a, b in zip(*(gradients for _, gradients in results), strict=True))


def test_stacked_runs_are_the_single_runs():
    networks = [network_of().float() for _ in range(2)]
    with torch.no_grad():
        for parameter in networks[1].parameters():
            parameter.mul_(1.2)
    (views, observed, *_), noise = data(networks[0])
    views, noise = [view.float() for view in views], noise.float()
    with torch.no_grad():
        expected = [network.loss(Batch(views, observed), noise)["total"] for network in networks]
    twice = lambda x: torch.stack([x, x])  # noqa: E731
    stacked = Batch([twice(view) for view in views], twice(observed))
    losses = Runs(networks).losses(CyclicVAE.loss, stacked, twice(noise))
    torch.testing.assert_close(losses["total"].detach(), torch.stack(expected), rtol=1e-4, atol=1e-3)
    losses["total"].sum().backward()
