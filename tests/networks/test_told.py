"""A network that is told covariates: its decoders take them beside the latent vector, and by choice its encoders."""

import numpy as np
import pytest
import torch

from acova.functional import Batch
from acova.networks import MultiViewVAE

N, SIZES, TOLD = 30, (7, 5), 3


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def network(n_covariates=TOLD, marks=(), **more):
    return MultiViewVAE(
        SIZES, 4, 2, hidden=(8,), likelihoods=("gaussian", "gaussian"), alpha=5.0, correlation=torch.eye(2),
        n_covariates=n_covariates, marks=marks, generator=torch.Generator().manual_seed(0), **more,
    )  # fmt: skip


def batch(marked=False):
    values, told = [draw(N, size, seed=v) for v, size in enumerate(SIZES)], draw(N, TOLD, seed=5)
    observed = torch.ones(N, 2, dtype=torch.bool)
    observed[:9, 0] = False
    marks = [(draw(N, SIZES[0], seed=7) > 1).float()] if marked else []
    return Batch([torch.cat([values[0], *marks, told], 1), torch.cat([values[1], told], 1)], observed), values, told


def test_a_decoder_is_a_perceptron_of_latent_vector_and_covariates():
    net, latent, told = network(), draw(N, 4, seed=1), draw(N, TOLD, seed=2)
    (first, second), rows = net.decoders.layers, torch.cat([latent, told], 1).numpy()
    found = net.decode([latent] * 2, torch.ones(N, 2, dtype=torch.bool), told)[0].detach().numpy()
    pad = np.pad(rows, ((0, 0), (0, first.weight.shape[1] - rows.shape[1])))
    hidden = np.maximum(pad @ first.weight[0].detach().numpy() + first.bias[0].detach().numpy(), 0)
    weight, bias = second.weight[0], second.bias[0]
    expected = hidden @ weight.detach().numpy() + bias.detach().numpy()
    np.testing.assert_allclose(found, expected[:, : SIZES[0]], rtol=1e-5, atol=1e-6)


def test_without_covariates_a_sample_has_their_mean():
    net, latent, everything = network(), draw(N, 4, seed=1), torch.ones(N, 2, dtype=torch.bool)
    for one, other in zip(
        net.decode([latent] * 2, everything), net.decode([latent] * 2, everything, torch.zeros(N, TOLD)), strict=True
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("encodes", [False, True])
@pytest.mark.parametrize("marked", [False, True])
def test_only_told_encoders_look_at_covariates_and_all_start_as_if_they_did_not(encodes, marked):
    samples, _, _ = batch(marked)
    net = network(marks=(marked, False), encodes_covariates=encodes)
    plain = network(0, marks=(marked, False))
    bare = [view[:, :-TOLD] for view in samples.views]
    torch.testing.assert_close(net.codes(samples.views, samples.observed), plain.codes(bare, samples.observed))
    net.loss(samples, draw(N, 2, 4, seed=8))["total"].sum().backward()
    first = net.encoders.layers[0]
    weights = first.weight.grad if first.stacked else first.weights[0].grad
    width = SIZES[0] * (2 if marked else 1)
    rows = (weights[0] if first.stacked else weights)[width : width + TOLD]
    assert bool(rows.abs().sum() > 0) == encodes


def test_objective_and_score_are_those_of_what_is_decoded_with_the_covariates():
    samples, values, told = batch()
    net, noise = network(), draw(N, 2, 4, seed=8)
    posterior = net.posterior(samples.views, samples.observed)
    latent = posterior.mean + posterior.variance.sqrt() * noise[:, 0]
    outputs = net.decode([latent] * 2, samples.observed, told)
    errors = [((view - output) ** 2).sum(1) for view, output in zip(values, outputs, strict=True)]
    expected = (torch.stack(errors, 1) * samples.observed).sum(1)
    torch.testing.assert_close(net.loss(samples, noise)["reconstruction"], expected)
    other = Batch([torch.cat([v, told.flip(0)], 1) for v in values], samples.observed)
    assert not torch.allclose(net.score(other, noise)["score"], net.score(samples, noise)["score"])


def test_what_kernels_are_given_is_what_is_decoded_on_a_cpu():
    """On a GPU the decoders give one tensor of all views; the same numbers as view by view."""
    net, latent, told = network(), draw(N, 4, seed=1), draw(N, TOLD, seed=2)
    rows = net._told([latent], told)
    whole = net.decoders.whole(list(rows) * 2, together=True)
    parts = net.decode([latent] * 2, torch.ones(N, 2, dtype=torch.bool), told)
    for v, (one, size) in enumerate(zip(parts, SIZES, strict=True)):
        torch.testing.assert_close(whole[v][..., :size], one)
