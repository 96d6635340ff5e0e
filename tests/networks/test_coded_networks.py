"""The networks of DCP, DSIMVC, CPSPAN and PMIMC."""

import copy

import pytest
import torch
from torch import nn

from acova.networks import DualPrediction, PrototypeAlignment, PrototypeMatching, SafeContrast
from acova.networks.donors import Donors
from acova.networks.safe_contrast import _contrast, _cut
from acova.networks.towers import BatchNorm, Tower

SIZES = (5, 3, 4)


def data(n=24, sizes=SIZES, share=0.6):
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(n, len(sizes), generator=generator) < share
    observed[: n // 3] = True
    observed[:, 0] |= ~observed.any(1)
    views = [torch.randn(n, size, generator=generator) for size in sizes]
    return [torch.where(seen.unsqueeze(-1), view, 0.0) for view, seen in zip(views, observed.T, strict=True)], observed


def dcp(sizes=SIZES, **settings):
    torch.manual_seed(0)
    return DualPrediction(sizes, 6, 3, hidden=(8,), **settings)


def test_a_tower_is_a_sequence_of_torch_layers():
    tower = Tower([5, 8, 8, 3], norm=True)
    first, second, last = (nn.Linear(layer.weight.shape[0], layer.weight.shape[1]) for layer in tower.layers)
    for ours, theirs in zip(tower.layers, (first, second, last), strict=True):
        theirs.weight.data, theirs.bias.data = ours.weight.data.T, ours.bias.data
    plain = nn.Sequential(first, nn.BatchNorm1d(8), nn.ReLU(), second, nn.BatchNorm1d(8), nn.ReLU(), last)
    rows = torch.randn(20, 5)
    torch.testing.assert_close(tower(rows, torch.ones(20)), plain(rows))


def test_batch_normalisation_sees_the_rows_that_count_and_keeps_what_it_is_told_to():
    norm, rows = BatchNorm(4), 3 * torch.randn(20, 4) + 1
    weights = (torch.arange(20) < 12).float()
    expected = nn.functional.batch_norm(rows[:12], None, None, training=True)
    torch.testing.assert_close(norm(rows, weights)[:12], expected)
    torch.testing.assert_close(norm(rows), rows / (1 + 1e-5) ** 0.5)
    norm(rows, weights, keep=True)
    torch.testing.assert_close(norm(rows[:3]), expected[:3], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("graph", ["core", "complete"])
def test_dcp_codes_are_on_the_simplex_and_recovered_along_the_graph(graph):
    network = dcp(graph=graph, core_view=0)
    views, observed = data()
    network.settle([view[observed.all(1)] for view in views])
    codes = network.completed(views, observed)
    assert (codes >= 0).all()
    torch.testing.assert_close(codes.sum(-1), torch.ones(24, 3))
    alone = torch.tensor([[False, False, True]]).expand(24, -1)
    own = network.codes(views)[2]
    codes = network.completed(views, alone)
    core = network.predict(2, 0, own)
    torch.testing.assert_close(codes[:, 0], core)
    torch.testing.assert_close(
        codes[:, 1], network.predict(0, 1, core) if graph == "core" else network.predict(2, 1, own)
    )
    torch.testing.assert_close(codes[:, 2], own)


def test_dcp_predictors_do_not_matter_to_complete_samples():
    network, (views, _) = dcp(), data()
    everything = torch.ones(24, 3, dtype=torch.bool)
    network.settle(views)
    before = network.posterior(views, everything).mean
    for parameter in network.predictors.parameters():
        parameter.data.fill_(torch.nan)
    assert torch.equal(network.posterior(views, everything).mean, before)


def test_dcp_of_two_views_is_the_same_on_both_graphs_up_to_the_number_of_views():
    views, observed = data(sizes=(5, 3))
    core, complete = (dcp((5, 3), graph=graph).loss(views, observed) for graph in ("core", "complete"))
    for name, factor in {"contrast": 2, "prediction": 2, "reconstruction": 1}.items():
        torch.testing.assert_close(core[name], factor * complete[name])


def test_dcp_learns_from_complete_samples_alone():
    network, (views, observed) = dcp(), data()
    complete = observed.all(1)
    alone = network.loss([view[complete] for view in views], observed[complete])["total"][0]
    torch.testing.assert_close(network.loss(views, observed)["total"][0], alone)


def dsimvc(dtype=torch.float64):
    torch.manual_seed(0)
    return SafeContrast(SIZES, 6, 3, hidden=(8,), feature_dim=4, virtual_rate=0.1).to(dtype)


def test_the_weighers_gradient_is_that_of_the_loss_after_the_virtual_step():
    network, (views, observed) = dsimvc(), data()
    views = [view.double() for view in views]
    network.bilevel_loss(views, observed, n_complete=8)["total"].mean().backward()
    name, eps = "weigher.layers.0.bias", 1e-5

    def after(change):
        """Take the virtual step with plain autograd, on a copy with the weigher changed."""
        moved = copy.deepcopy(network)
        moved.get_parameter(name).data[3] += change
        body = list(moved.body.parameters())
        complete, filled = _cut(moved.body(views), 8)
        trust = moved._trust(filled[1].mean(0)).detach()
        slopes = torch.autograd.grad(_contrast(complete) + _contrast(filled, trust=trust), body)
        for parameter, slope in zip(body, slopes, strict=True):
            parameter.data -= moved.virtual_rate * slope
        return float(_contrast(moved.body([view[:8] for view in views])).detach())

    expected = (after(eps) - after(-eps)) / (2 * eps)
    assert abs(expected) > 1e-9
    assert float(network.get_parameter(name).grad[3]) == pytest.approx(expected, rel=1e-3)
    # The other parameters move as if the weights were given.
    complete, filled = _cut(network.body(views), 8)
    trust = network._trust(filled[1].mean(0)).detach()
    plain = torch.autograd.grad(_contrast(complete) + _contrast(filled, trust=trust), list(network.body.parameters()))
    for parameter, gradient in zip(network.body.parameters(), plain, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_equal_trust_is_no_trust_at_all():
    network, (views, _) = dsimvc(), data()
    told = network.body([view.double() for view in views])
    results = [_contrast(told, trust=torch.full((24,), weight, dtype=torch.float64)) for weight in (0.1, 0.9)]
    torch.testing.assert_close(*results)


def test_dsimvc_predicts_by_the_views_a_sample_has():
    network, (views, observed) = dsimvc(torch.float32), data()
    said = network.posterior(views, observed).mean
    shares = network.body(views)[1]
    for row, seen in enumerate(observed):
        torch.testing.assert_close(said[row], shares[seen, row].mean(0))
    dirty = [torch.where(seen.unsqueeze(-1), view, 9.0) for view, seen in zip(views, observed.T, strict=True)]
    torch.testing.assert_close(network.posterior(dirty, observed).mean, said)


def aligned(cls=PrototypeAlignment, **settings):
    torch.manual_seed(0)
    common = {"hidden": (8,), "impute": "cross_view", "instance_weight": 1.0, "prototype_weight": 1.0}
    return cls(SIZES, 4, 3, **{**common, **settings})


@pytest.mark.parametrize("impute", ["cross_view", "zero_code"])
def test_missing_codes_are_those_of_training_samples(impute):
    network, (views, observed) = aligned(prototypes="matched", impute=impute), data()
    codes = network.codes(views, observed).detach()
    network.donors.set(codes, observed)
    completed = network.completed(views, observed)
    for v, seen in enumerate(observed.T):
        assert torch.equal(completed[seen, v], codes[seen, v])
        lent = completed[~seen, v]
        assert (lent.unsqueeze(1) == codes[seen, v]).all(-1).any(1).all()
        if impute == "zero_code":
            assert (lent == lent[0]).all()
    everything = torch.ones_like(observed)
    assert torch.equal(network.completed(views, everything), network.codes(views, everything))


def test_hidden_rows_find_the_donor_when_they_may_be_read():
    network, (views, observed) = aligned(prototypes="matched"), data()
    hidden = [torch.randn(24, size) for size in SIZES]
    network.donors.set(network.codes(views, observed), observed)
    honest = network.completed(views, observed)
    told = network.completed(views, observed, hidden)
    assert not torch.equal(honest, told)
    v, row = 1, int((~observed[:, 1]).nonzero()[0])
    query = network.codes(hidden, torch.ones_like(observed))[row, v]
    cosines = torch.cosine_similarity(query.unsqueeze(0), network.donors.codes[:, v]).masked_fill(~observed[:, v], -2)
    assert torch.equal(told[row, v], network.donors.codes[cosines.argmax(), v])
    unknown = [torch.full_like(view, torch.nan) for view in hidden]
    assert torch.equal(network.completed(views, observed, unknown), honest)


def test_donors_of_any_number_are_read_back():
    donors, other = Donors(2, 3), Donors(2, 3)
    donors.set(torch.randn(7, 2, 3), torch.rand(7, 2) < 0.5)
    other.load_state_dict(donors.state_dict())
    assert torch.equal(other.codes, donors.codes)
    assert torch.equal(other.observed, donors.observed)


def test_cpspan_prototypes_do_not_depend_on_their_numbers():
    network, (views, observed) = aligned(prototypes="matched"), data()
    network.centers.data.copy_(torch.randn(3, 3, 4))
    before = network.loss(views, observed)["prototypes"]
    network.centers.data.copy_(network.centers.data[:, [2, 0, 1]].clone())
    torch.testing.assert_close(network.loss(views, observed)["prototypes"], before)
    network.centers.data[1] = network.centers.data[1, [1, 0, 2]].clone()
    assert not torch.allclose(network.loss(views, observed)["prototypes"], before)


def test_released_prototypes_of_pmimc_are_of_different_samples_where_views_are_missing():
    views, observed = data()
    losses = {}
    for form in ("centers", "released"):
        network = aligned(PrototypeMatching, prototypes=form, prototype_rate=0.3)
        codes = network.codes(views, observed)
        losses[form] = network.loss(views, observed)["prototypes"][0]
    rows = [seen.nonzero().squeeze(-1)[:7] for seen in observed.T]
    total = 0.0
    for v, w in ((0, 1), (0, 2), (1, 2)):
        cosines = torch.cosine_similarity(codes[rows[v], v].unsqueeze(1), codes[rows[w], w].unsqueeze(0), dim=-1)
        missed = 1 - cosines.softmax(-1).diagonal()
        total += (missed + missed**2 / 2).mean()
    torch.testing.assert_close(losses["released"], total)
    assert not torch.allclose(losses["centers"], losses["released"])
