"""How many parameters the paper's networks have, and how many of them its correlation matrix adds."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from acova import ACOVA
from acova.data import Views
from acova.data.datasets.catalogue import CATALOGUE

PUBLISHED_WIDTHS = (500, 500, 2000)


def rounded_up(width: int) -> int:
    """Widths are stored as multiples of eight; the units added are zero and stay zero."""
    return -(-width // 8) * 8


def count_by_widths(view_sizes, latent_dim, n_clusters, width=int):
    """Count weights and biases of all layers, and the mixture's weights, means and scales, from the widths alone."""
    total = n_clusters + 2 * n_clusters * latent_dim
    for size in view_sizes:
        encoder = (size, *PUBLISHED_WIDTHS, 2 * latent_dim)  # a mean and a standard deviation
        decoder = (latent_dim, *reversed(PUBLISHED_WIDTHS), size)
        for layers in (encoder, decoder):
            total += sum((width(before) + 1) * width(after) for before, after in pairwise(layers))
    return total


def fitted(dataset, **settings):
    """Return the network of the paper's recipe for the shapes of a data set, untrained."""
    sizes = tuple(CATALOGUE[dataset].view_sizes.values())
    rng = np.random.default_rng(0)
    views = Views.of([rng.random((60, size), dtype=np.float32) for size in sizes])
    untrained = {"pretrain_epochs": 0, "epochs": 0, "device": "cpu", "random_state": 0}
    model = ACOVA.preset(dataset, recipe="paper", **untrained, **settings).fit(views)
    return model.network_, sizes, model.latent_dim, model.n_clusters


def size_of(network):
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("dataset", "published", "stored", "of_correlation"),
    [
        ("cub", 6_457_574, 6_560_306, 3),
        ("noisymnist", 6_701_818, 6_802_466, 3),
        ("handwritten", 16_045_979, 16_322_546, 21),
    ],
)
def test_the_correlation_adds_a_handful_of_parameters_to_millions(dataset, published, stored, of_correlation):
    network, sizes, latent_dim, n_clusters = fitted(dataset)
    n_views = len(sizes)
    assert network.correlation_parameter.numel() == n_views * (n_views + 1) // 2 == of_correlation
    assert count_by_widths(sizes, latent_dim, n_clusters) == published
    assert count_by_widths(sizes, latent_dim, n_clusters, rounded_up) == stored
    assert size_of(network) == stored + of_correlation
    # Zeros are the units added, but for the few initial weights that happen to be drawn as zero.
    filled = sum(torch.count_nonzero(part).item() for name, part in network.named_parameters() if "coders" in name)
    of_prior = n_clusters + 2 * n_clusters * latent_dim
    assert 0 <= published - of_prior - filled < 30


def test_without_a_learned_correlation_nothing_else_changes():
    network = fitted("cub")[0]
    independent = fitted("cub", correlation="identity")[0]
    assert size_of(network) - size_of(independent) == 3
    assert not hasattr(independent, "correlation_parameter")


def test_the_count_by_widths_is_that_of_torchs_own_layers():
    sizes, latent_dim, n_clusters = (76, 216, 64, 47, 240, 6), 10, 10
    with torch.device("meta"):
        chains = [
            widths
            for size in sizes
            for widths in (
                (size, *PUBLISHED_WIDTHS, 2 * latent_dim),
                (latent_dim, *reversed(PUBLISHED_WIDTHS), size),
            )
        ]
        layers = nn.ModuleList(nn.Linear(*pair) for widths in chains for pair in pairwise(widths))
    assert size_of(layers) + n_clusters * (1 + 2 * latent_dim) == count_by_widths(sizes, latent_dim, n_clusters)
