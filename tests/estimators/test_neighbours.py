"""What neighbours have, against scikit-learn and a double loop."""

import numpy as np
import pytest
import torch
from sklearn.impute import KNNImputer
from sklearn.neighbors import NearestNeighbors

from acova.data import Scaling, Views, make_observed
from acova.data.scaling import scaled_moments
from acova.training import neighbours
from acova.training.neighbours import fill_by_nearest, neighbour_means


def draw(widths, n=60, missing=0.6, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 3))
    arrays = [(latent @ rng.normal(size=(3, w)) + 0.3 * rng.normal(size=(n, w))).astype(np.float32) for w in widths]
    return arrays, make_observed(n, len(widths), missing, random_state=seed)


def means(arrays, observed, variances, k):
    found = neighbour_means(list(map(torch.from_numpy, arrays)), torch.from_numpy(observed), list(variances), k)
    return [mean.numpy() for mean in found]


def by_loops(arrays, observed, variances, k):
    found = [np.empty_like(array) for array in arrays]
    for v, array in enumerate(arrays):
        for i in range(len(array)):
            distances = {}
            for j in np.flatnonzero(observed[:, v]):
                common = [u for u in range(len(arrays)) if observed[i, u] and observed[j, u]]
                if common and i != j:
                    parts = [((arrays[u][i] - arrays[u][j]) ** 2).sum() / variances[u] for u in common]
                    distances[j] = np.mean(parts)
            nearest = sorted(distances, key=distances.get)[:k]
            found[v][i] = array[nearest].mean(0) if nearest else array[observed[:, v]].mean(0)
    return found


@pytest.mark.parametrize("block", [2**25, 100])
def test_means_agree_with_a_double_loop(monkeypatch, block):
    monkeypatch.setattr(neighbours, "_BLOCK_CELLS", block)
    arrays, observed = draw((4, 9, 2))
    variances = [1.0, 7.0, 0.5]
    for mine, theirs in zip(
        means(arrays, observed, variances, 3), by_loops(arrays, observed, variances, 3), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_other_values_of_the_same_neighbours_are_averaged():
    """A linear function of the values has the same function of their mean."""
    arrays, observed = draw((4, 9, 2))
    views = list(map(torch.from_numpy, arrays))
    others = [
        (3 * view + 1).masked_fill(~torch.from_numpy(observed[:, [v]]), torch.nan) for v, view in enumerate(views)
    ]
    found = neighbour_means(views, torch.from_numpy(observed), [1.0, 7.0, 0.5], 3, others)
    for mean, own in zip(found, means(arrays, observed, [1.0, 7.0, 0.5], 3), strict=True):
        np.testing.assert_allclose(mean, 3 * own + 1, rtol=1e-5, atol=1e-5)


def test_hidden_rows_get_what_scikit_learns_imputer_gives_with_equal_widths_and_variances():
    arrays, observed = draw((5, 5, 5), n=200, missing=0.5)
    holes = [np.where(observed[:, [v]], array, np.nan) for v, array in enumerate(arrays)]
    theirs = np.split(KNNImputer(n_neighbors=5).fit_transform(np.hstack(holes)), 3, axis=1)
    for v, mine in enumerate(means(arrays, observed, np.ones(3), 5)):
        np.testing.assert_allclose(mine[~observed[:, v]], theirs[v][~observed[:, v]], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("block", [2**25, 100])
def test_filled_views_are_those_of_scikit_learns_imputer(monkeypatch, block):
    monkeypatch.setattr(neighbours, "_BLOCK_CELLS", block)
    arrays, observed = draw((2, 7, 4), n=150, missing=0.8)
    observed[:3] = [[True, False, False], [False, True, False], [False, False, True]]
    holes = np.hstack([np.where(observed[:, [v]], array, np.nan) for v, array in enumerate(arrays)]).astype(float)
    known, new = holes[:100], holes[100:]  # new samples are filled from known ones
    imputer = KNNImputer(n_neighbors=5).fit(known)
    for rows, seen in ((known, observed[:100]), (new, observed[100:])):
        tensors = [torch.from_numpy(part).split([2, 7, 4], dim=1) for part in (rows, known)]
        filled = fill_by_nearest(tensors[0], torch.from_numpy(seen), tensors[1], torch.from_numpy(observed[:100]), 5)
        np.testing.assert_allclose(np.hstack(filled), imputer.transform(rows), rtol=1e-10)


def test_a_hidden_row_without_any_common_view_is_filled_by_the_mean_as_by_scikit_learn():
    rows = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, 3.0], [np.nan, 7.0]])
    views, seen = torch.from_numpy(rows).split(1, dim=1), torch.from_numpy(~np.isnan(rows))
    filled = np.hstack(fill_by_nearest(views, seen, views, seen, 1))
    np.testing.assert_array_equal(filled, KNNImputer(n_neighbors=1).fit_transform(rows))
    np.testing.assert_array_equal(filled, [[1, 5], [2, 5], [1.5, 3], [1.5, 7]])


def test_complete_rows_get_the_mean_of_their_nearest_neighbours():
    arrays, _ = draw((5, 5), n=200)
    everything = np.ones((200, 2), dtype=bool)
    nearest = NearestNeighbors(n_neighbors=4).fit(np.hstack(arrays)).kneighbors(return_distance=False)
    for array, mine in zip(arrays, means(arrays, everything, np.ones(2), 4), strict=True):
        np.testing.assert_allclose(mine, array[nearest].mean(axis=1), rtol=1e-4, atol=1e-5)


def test_with_many_samples_evenly_spread_ones_stand_for_all(monkeypatch):
    arrays, observed = draw((4, 3), n=90, missing=0.4)
    monkeypatch.setattr(neighbours, "MAX_DONORS", 30)
    donors = np.zeros(90, dtype=bool)
    donors[::3] = True
    only_donors = observed & donors[:, None]
    for mine, v in zip(means(arrays, observed, np.ones(2), 2), range(2), strict=True):
        row = 1  # no donor itself: its neighbours are donors, and its own view is observed or not
        expected = by_loops(
            [a.copy() for a in arrays], only_donors | (np.arange(90) == row)[:, None] & observed, np.ones(2), 2
        )
        np.testing.assert_allclose(mine[row], expected[v][row], rtol=1e-4, atol=1e-5)


def test_hidden_cells_are_not_read():
    arrays, observed = draw((4, 6))
    spoiled = [np.where(observed[:, [v]], array, np.nan).astype(np.float32) for v, array in enumerate(arrays)]
    for clean, dirty in zip(
        means(arrays, observed, np.ones(2), 5), means(spoiled, observed, np.ones(2), 5), strict=True
    ):
        np.testing.assert_array_equal(clean, dirty)


def test_a_sample_without_any_common_view_gets_the_mean():
    arrays, _ = draw((3, 4), n=6)
    observed = np.array([[True, False]] * 3 + [[False, True]] * 3)
    found = means(arrays, observed, np.ones(2), 5)
    np.testing.assert_allclose(found[1][0], arrays[1][3:].mean(0), rtol=1e-5)


@pytest.mark.parametrize("kind", ["zscore", "range", "none"])
def test_moments_are_those_of_the_scaled_observed_rows(kind):
    arrays, observed = draw((4, 9))
    views = Views.of(arrays, observed)
    scaling = Scaling.fit(views, (kind,) * 2)
    scaled = scaling.transform(views)
    for v, (mean, variance) in enumerate(scaled_moments(views, scaling)):
        rows = scaled[v][observed[:, v]].astype(float)
        np.testing.assert_allclose(mean, rows.mean(axis=0), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(variance, rows.var(axis=0), rtol=1e-5)
        if kind == "zscore":
            np.testing.assert_allclose(variance, 1, rtol=1e-5)
