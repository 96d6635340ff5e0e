import math
from collections import Counter

import pytest
import torch

from acova.compared.mvp_network import exchange, random_cycles


@pytest.mark.parametrize("observed", [[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1], [0, 1, 0, 1, 0]])
def test_every_cycle_is_one_ring_through_the_observed_views_and_all_are_equally_likely(observed):
    seen = torch.tensor(observed, dtype=torch.bool)
    draws = 20_000
    noise = torch.randn(draws, 5, generator=torch.Generator().manual_seed(0))
    cycles = random_cycles(noise, seen.expand(draws, -1))
    for v in (~seen).nonzero().squeeze(-1):
        assert (cycles[:, v] == v).all()
    counts = Counter(tuple(cycle) for cycle in cycles.tolist())
    size = int(seen.sum())
    assert len(counts) == math.factorial(size - 1)
    start = int(seen.nonzero()[0])
    for cycle in counts:
        visited, at = [start], cycle[start]
        while at != start:
            visited.append(at)
            at = cycle[at]
        assert sorted(visited) == seen.nonzero().squeeze(-1).tolist()
    expected = draws / len(counts)
    assert all(abs(count - expected) < 6 * math.sqrt(expected) for count in counts.values())


def test_a_view_alone_stays_and_noise_of_hidden_views_is_not_read():
    alone = torch.tensor([[False, True, False]])
    assert random_cycles(torch.randn(1, 3), alone).tolist() == [[0, 1, 2]]
    seen = torch.tensor([[True, True, False, True]])
    noise = torch.tensor([[0.3, -1.0, 0.0, 2.0]])
    other = torch.tensor([[0.3, -1.0, float("nan"), 2.0]])
    assert random_cycles(noise, seen).tolist() == random_cycles(other, seen).tolist() == [[3, 0, 2, 1]]


def test_estimates_move_along_the_cycle_of_their_target():
    torch.manual_seed(0)
    grid = torch.randn(6, 4, 4, 3)
    cycles = random_cycles(torch.randn(6, 4, 4), torch.ones(6, 4, 4, dtype=torch.bool))
    moved = exchange(grid, cycles)
    for n in range(6):
        for s in range(4):
            for t in range(4):
                assert torch.equal(moved[n, s, t], grid[n, cycles[n, t, s], t])


def test_two_complete_views_swap_in_every_column():
    torch.manual_seed(0)
    grid = torch.randn(5, 2, 2, 3)
    cycles = random_cycles(torch.randn(5, 2, 2), torch.ones(5, 2, 2, dtype=torch.bool))
    assert torch.equal(exchange(grid, cycles), grid.flip(1))
