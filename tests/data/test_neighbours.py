"""Views filled from neighbours, against scikit-learn and a double loop."""

import numpy as np
import pytest
from sklearn.impute import KNNImputer

from acova.data import Scaling, Views, fill_from_neighbours, make_observed, neighbours, total_variances


def draw(widths, n=60, missing=0.6, seed=0):
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n, 3))
    arrays = [(latent @ rng.normal(size=(3, w)) + 0.3 * rng.normal(size=(n, w))).astype(np.float32) for w in widths]
    return arrays, make_observed(n, len(widths), missing, random_state=seed)


def by_loops(arrays, observed, variances, k):
    filled = [array.copy() for array in arrays]
    for v, array in enumerate(arrays):
        for i in np.flatnonzero(~observed[:, v]):
            distances = {}
            for j in np.flatnonzero(observed[:, v]):
                common = [u for u in range(len(arrays)) if observed[i, u] and observed[j, u]]
                if common:
                    parts = [((arrays[u][i] - arrays[u][j]) ** 2).sum() / variances[u] for u in common]
                    distances[j] = np.mean(parts)
            nearest = sorted(distances, key=distances.get)[:k]
            filled[v][i] = array[nearest].mean(0) if nearest else array[observed[:, v]].mean(0)
    return filled


@pytest.mark.parametrize("block", [2**25, 100])
def test_filling_agrees_with_a_double_loop(monkeypatch, block):
    monkeypatch.setattr(neighbours, "_BLOCK_CELLS", block)
    arrays, observed = draw((4, 9, 2))
    variances = np.array([1.0, 7.0, 0.5])
    for mine, theirs in zip(
        fill_from_neighbours(arrays, observed, variances, 3), by_loops(arrays, observed, variances, 3), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_with_equal_widths_and_variances_it_is_scikit_learns_imputer():
    arrays, observed = draw((5, 5, 5), n=200, missing=0.5)
    holes = [np.where(observed[:, [v]], array, np.nan) for v, array in enumerate(arrays)]
    theirs = KNNImputer(n_neighbors=5).fit_transform(np.hstack(holes))
    mine = fill_from_neighbours(arrays, observed, np.ones(3))
    np.testing.assert_allclose(np.hstack(mine), theirs, rtol=1e-3, atol=1e-4)


def test_hidden_cells_are_not_read_and_observed_ones_stay():
    arrays, observed = draw((4, 6))
    spoiled = [np.where(observed[:, [v]], array, np.nan).astype(np.float32) for v, array in enumerate(arrays)]
    for v, (clean, dirty) in enumerate(
        zip(
            fill_from_neighbours(arrays, observed, np.ones(2)),
            fill_from_neighbours(spoiled, observed, np.ones(2)),
            strict=True,
        )
    ):
        np.testing.assert_array_equal(clean, dirty)
        np.testing.assert_array_equal(clean[observed[:, v]], arrays[v][observed[:, v]])


def test_a_sample_without_any_common_view_gets_the_mean():
    arrays, _ = draw((3, 4), n=6)
    observed = np.array([[True, False]] * 3 + [[False, True]] * 3)
    filled = fill_from_neighbours(arrays, observed, np.ones(2))
    np.testing.assert_allclose(filled[1][0], arrays[1][3:].mean(0), rtol=1e-5)


@pytest.mark.parametrize("kind", ["zscore", "range", "none"])
def test_total_variances_are_those_of_the_scaled_observed_rows(kind):
    arrays, observed = draw((4, 9))
    views = Views.of(arrays, observed)
    scaling = Scaling.fit(views, (kind,) * 2)
    scaled = scaling.transform(views)
    expected = [array[observed[:, v]].astype(float).var(axis=0).sum() for v, array in enumerate(scaled)]
    np.testing.assert_allclose(total_variances(views, scaling), expected, rtol=1e-5)
    if kind == "zscore":
        np.testing.assert_allclose(expected, [4, 9], rtol=1e-5)
