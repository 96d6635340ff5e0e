import torch
from torch import nn

from acova.networks.towers import BatchNorm, Tower


def test_a_tower_is_a_sequence_of_torch_layers():
    tower = Tower([5, 8, 8, 3], norm=True)
    first, second, last = (nn.Linear(layer.weight.shape[0], layer.weight.shape[1]) for layer in tower.layers)
    for ours, theirs in zip(tower.layers, (first, second, last), strict=True):
        theirs.weight.data, theirs.bias.data = ours.weight.data.T, ours.bias.data
    plain = nn.Sequential(first, nn.BatchNorm1d(8), nn.ReLU(), second, nn.BatchNorm1d(8), nn.ReLU(), last)
    rows = torch.randn(20, 5)
    torch.testing.assert_close(tower(rows, torch.ones(20)), plain(rows))


def test_batch_normalisation_sees_the_rows_that_count_and_keeps_what_it_should():
    norm, rows = BatchNorm(4), 3 * torch.randn(20, 4) + 1
    weights = (torch.arange(20) < 12).float()
    expected = nn.functional.batch_norm(rows[:12], None, None, training=True)
    torch.testing.assert_close(norm(rows, weights)[:12], expected)
    torch.testing.assert_close(norm(rows), rows / (1 + 1e-5) ** 0.5)
    norm(rows, weights, keep=True)
    torch.testing.assert_close(norm(rows[:3]), expected[:3], rtol=1e-4, atol=1e-5)
