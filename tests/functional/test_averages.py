import numpy as np
import pytest
import torch

from acova.functional import group_means, mean_errors, mean_over, nearest_centers

ROWS = torch.tensor([1, 1, 0, 1, 1, 0, 1], dtype=torch.float64)


def codes(seed, count=7):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_groups_and_their_means():
    points, centers = codes(3), codes(4)[:3]
    nearest = nearest_centers(points, centers)
    np.testing.assert_array_equal(nearest, torch.cdist(points, centers).argmin(1))
    means, sizes = group_means(points, nearest, ROWS, 3)
    for k in range(3):
        mine = points[(nearest == k) & ROWS.bool()]
        assert sizes[k] == len(mine)
        torch.testing.assert_close(means[k], mine.mean(0) if len(mine) else torch.zeros(4, dtype=torch.float64))


def test_means_are_those_of_the_rows_that_take_part():
    values, (view, output) = codes(0)[:, 0], (codes(1), codes(2))
    assert float(mean_over(values, ROWS)) == pytest.approx(float(values[ROWS.bool()].mean()))
    errors = torch.nn.functional.mse_loss(output[ROWS.bool()], view[ROWS.bool()])
    assert float(mean_errors(view, output, ROWS)) == pytest.approx(float(errors))
    assert float(mean_over(values, torch.zeros_like(ROWS))) == 0
