"""Marks of empty cells in the network: they are encoded, and what they mark is not reconstructed."""

import pytest
import torch
from torch.distributions import Bernoulli, Independent, Laplace, Normal

from acova.functional import Batch, reconstruction_of_cells, total_reconstruction
from acova.networks import MultiViewVAE

N, SIZES = 40, (7, 5)


def draw(*shape, seed=0, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def chance(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def network(marks=(), likelihoods=("gaussian", "gaussian")):
    return MultiViewVAE(
        SIZES, 3, 2, hidden=(8,), likelihoods=likelihoods, alpha=5.0, correlation=torch.eye(2), marks=marks,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip


def batches():
    """Return the same samples with marks in the first view, and without."""
    values, observed = [draw(N, size, seed=v) for v, size in enumerate(SIZES)], chance(N, 2) < 0.8
    observed[:, 1] |= ~observed[:, 0]
    empty = (chance(N, SIZES[0], seed=3) < 0.4) & observed[:, :1]
    marked = Batch([torch.cat([values[0], empty.float()], dim=1), values[1]], observed)
    return marked, Batch(values, observed), empty


DENSITIES = {
    "gaussian": lambda output: Normal(output, 0.5**0.5),
    "laplace": lambda output: Laplace(output, 1.0),
    "bernoulli": lambda output: Bernoulli(logits=output),
}


@pytest.mark.parametrize("likelihood", DENSITIES)
def test_the_cells_that_count_are_those_of_a_narrower_view(likelihood):
    view, output = (chance(N, 6) < 0.5).double(), draw(N, 9, seed=1, dtype=torch.float64)
    empty, observed = chance(N, 6, seed=2) < 0.5, chance(N, seed=4) < 0.8
    density = DENSITIES[likelihood](output[:, :6])
    nothing = DENSITIES[likelihood](torch.zeros(())).log_prob(torch.zeros(())) if likelihood != "bernoulli" else 0.0
    expected = torch.where(observed, (nothing - density.log_prob(view)).masked_fill(empty, 0.0).sum(1), 0.0)
    torch.testing.assert_close(reconstruction_of_cells(view, output, observed, likelihood, empty), expected)


def test_neither_loss_nor_gradient_reads_an_empty_cell():
    view, output = draw(N, 6), draw(N, 6, seed=1)
    empty, observed = chance(N, 6, seed=2) < 0.5, torch.ones(N, dtype=torch.bool)
    found = []
    for held in (0.0, torch.nan, torch.inf):
        outputs = output.clone().requires_grad_()
        loss = reconstruction_of_cells(view.masked_fill(empty, held), outputs, observed, "gaussian", empty)
        found.append((loss, *torch.autograd.grad(loss.sum(), outputs)))
    for other in found[1:]:
        assert all(map(torch.equal, other, found[0]))
    assert (found[0][1][empty] == 0).all()


def test_gradients_are_those_of_finite_differences():
    view, empty = draw(4, 3, dtype=torch.float64), chance(4, 3) < 0.5
    seen = torch.tensor([True, True, False, True])
    for likelihood in DENSITIES:
        assert torch.autograd.gradcheck(
            lambda y, kind=likelihood: reconstruction_of_cells(view, y, seen, kind, empty),
            draw(4, 3, seed=1, dtype=torch.float64).requires_grad_(),
        )


def test_several_runs_at_once_are_the_same_as_one_after_the_other():
    views, outputs = [draw(2, N, size, seed=size) for size in SIZES], [draw(2, N, size, seed=9) for size in SIZES]
    empty, shares = chance(2, N, SIZES[0]) < 0.3, chance(2, N, 2, seed=5)

    def one(first, second, y, z, share, cells):
        return total_reconstruction([first, second], [y, z], share, ("gaussian", "laplace"), [cells, None])

    inputs = (*views, *outputs, shares, empty)
    together = torch.func.vmap(one)(*inputs)
    for run in range(2):
        torch.testing.assert_close(together[run], one(*(part[run] for part in inputs)))


def test_marks_start_without_weight_and_the_rest_as_without_marks():
    marked, plain = network((True, False)), network()
    for name, weights in plain.state_dict().items():
        if not name.startswith("encoders.layers.0."):
            assert torch.equal(marked.state_dict()[name], weights), name
    with_marks, without, _ = batches()
    assert torch.equal(marked.codes(with_marks.views, with_marks.observed), plain.codes(*without[:2]))


@pytest.mark.parametrize("loss", ["loss", "autoencoding_loss", "score"])
def test_samples_without_empty_cells_have_the_loss_of_a_network_without_marks(loss):
    with_marks, without, _ = batches()
    views = [with_marks.views[0].clone(), with_marks.views[1]]
    views[0][:, SIZES[0] :] = 0
    noise = draw(N, 2, 3, seed=8)
    mine = getattr(network((True, False)), loss)(Batch(views, with_marks.observed), noise)
    theirs = getattr(network(), loss)(without, noise)
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name])


def test_the_score_is_less_the_density_of_empty_cells():
    with_marks, without, empty = batches()
    noise = draw(N, 2, 3, seed=8)
    plain = network()
    scores = [net.score(b, noise)["score"] for net, b in ((network((True, False)), with_marks), (plain, without))]
    fused = plain.posterior(*without[:2])
    latent = fused.mean + fused.variance.sqrt() * noise[:, 0]
    output = plain.decode([latent, latent], torch.ones(N, 2, dtype=torch.bool))[0]
    densities = Independent(Normal(output, 0.5**0.5), 0).log_prob(without.views[0]).masked_fill(~empty, 0.0)
    torch.testing.assert_close(scores[0], scores[1] - densities.sum(1), rtol=1e-4, atol=1e-4)


def test_the_encoder_learns_of_marks():
    with_marks, _, _ = batches()
    net = network((True, False))
    net.loss(with_marks, draw(N, 2, 3, seed=8))["total"].sum().backward()
    gradient = net.encoders.layers[0].weights[0].grad[SIZES[0] : 2 * SIZES[0]]
    assert (gradient.abs().sum(1) > 0).all()
