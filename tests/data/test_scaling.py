import numpy as np
import pytest
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from acova.base import DataError, OptionError
from acova.data import SCALINGS, Scaling, StoredViews, Views, make_observed
from acova.data.census import Census
from acova.data.features import features_of
from acova.data.scaling import scaled_moments
from acova.data.stored import BLOCK


def example(dtype=np.float64, seed=0):
    rng = np.random.default_rng(seed)
    arrays = [rng.normal(3.0, 2.0, size=(50, 4)), rng.gamma(2.0, 5.0, size=(50, 3))]
    arrays[0][:, 1] = 0.1  # a constant whose mean is not exact in binary
    return [array.astype(dtype) for array in arrays], make_observed(50, 2, 0.6, random_state=seed)


KINDS = [("zscore", "zscore"), ("range", "none"), ("none", "range"), ("zscore", "none"), ("unit_view", "unit_view")]


def twin(array, seen, kind):
    """Centre and spread from the observed rows, feature by feature, in plain numpy."""
    rows = [row for row, there in zip(array.astype(np.float64), seen, strict=True) if there]
    columns = list(zip(*rows, strict=True))
    if kind == "none":
        return [0.0] * len(columns), [1.0] * len(columns)
    if kind == "range":
        cells = [cell for column in columns for cell in column]
        return [sum(cells) / len(cells)] * len(columns), [max(cells) - min(cells)] * len(columns)
    if kind == "unit_view":
        return [min(map(min, columns))] * len(columns), [max(map(max, columns)) - min(map(min, columns))] * len(columns)
    centers = [sum(column) / len(column) for column in columns]
    spreads = [
        np.sqrt(sum((cell - center) ** 2 for cell in column) / len(column))
        for column, center in zip(columns, centers, strict=True)
    ]
    return centers, [spread if spread > 1e-9 else 1.0 for spread in spreads]


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scaling_is_learned_from_observed_rows_only(kinds, dtype):
    arrays, observed = example(dtype)
    views = Views.of(arrays, observed)
    scaling = Scaling.fit(views, kinds)
    scaled = scaling.transform(views)
    for v, kind in enumerate(kinds):
        seen = observed[:, v]
        center, spread = twin(arrays[v], seen, kind)
        np.testing.assert_allclose(scaling.centers[v], center, rtol=1e-6, atol=1e-12)
        np.testing.assert_allclose(scaling.scales[v], spread, rtol=1e-6)
        expected = (arrays[v][seen].astype(np.float64) - center) / spread
        np.testing.assert_allclose(scaled[v][seen], expected, rtol=1e-5, atol=1e-6)
        assert scaled[v].dtype == np.float32
        assert scaled[v].shape == arrays[v].shape
        assert (scaled[v][~seen] == 0).all()


def test_zscore_gives_mean_zero_and_deviation_one_and_constants_zero():
    arrays, observed = example()
    views = Views.of(arrays, observed)
    first = Scaling.fit(views, ("zscore", "zscore")).transform(views)[0][observed[:, 0]]
    np.testing.assert_allclose(first.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(first.std(axis=0), [1, 0, 1, 1], atol=1e-6)


def test_features_of_one_kind_get_one_scale_and_others_their_own():
    """Pixels (some hardly ever lit), zeros and ones, ratings; against measurements, each with its own bounds."""
    rng = np.random.default_rng(0)
    pixels = 255 * np.clip(rng.normal(0.5, 0.4, size=(200, 20)), 0, 1)
    pixels[:, :8] *= rng.random((200, 8)) < 0.01
    binary = (rng.random((200, 12)) < 0.2).astype(float)
    ratings = rng.integers(1, 6, size=(200, 7)).astype(float)
    measured = rng.normal(size=(200, 15)) * rng.gamma(1.0, size=15)
    views = Views.of([pixels, binary, ratings, measured])
    chosen = Scaling.fit(views, ("auto",) * 4)
    for v, kind in enumerate(("range", "range", "range", "zscore")):
        alone = Scaling.fit(views, (kind,) * 4)
        np.testing.assert_array_equal(chosen.scales[v], alone.scales[v])
        np.testing.assert_array_equal(chosen.centers[v], alone.centers[v])
    assert [features.share_a_scale() for features in features_of(views)] == [True, True, True, False]


@pytest.mark.parametrize(("factor", "shift"), [(1, 0), (255, -40), (1e-3, 7)])
def test_measurements_brought_to_one_range_keep_a_scale_each(factor, shift):
    """Descriptors divided by their own range share bounds with pixels, but their values lie between them."""
    rng = np.random.default_rng(0)
    raw = rng.normal(size=(300, 20)) * rng.gamma(1.0, size=20)
    descriptors = (raw - raw.min(axis=0)) / np.ptp(raw, axis=0)
    descriptors = factor * descriptors + shift
    views = Views.of([descriptors, factor * (rng.random((300, 20)) < 0.5) + shift])
    described, coins = features_of(views)
    np.testing.assert_allclose(described.low, coins.low)
    np.testing.assert_allclose(described.high, coins.high)
    assert not described.share_a_scale()
    assert coins.share_a_scale()
    np.testing.assert_allclose(Scaling.fit(views, ("auto",) * 2).scales[0], descriptors.std(axis=0))


def words(n=120, size=400, seed=0):
    """Counts of words in documents of six topics and very different lengths."""
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(size, 0.1), 6)
    return rng.poisson(rng.gamma(1.0, 30.0, (n, 1)) * topics[rng.integers(0, 6, n)]).astype(float)


def test_cosine_is_the_direction_of_each_row_centred_with_mean_variance_one():
    counts, observed = words(), make_observed(120, 2, 0.5, random_state=0)
    counts[3] = 0  # a document without words has no direction
    views = Views.of([counts, np.ones((120, 1))], observed)
    scaling = Scaling.fit(views, ("cosine", "none"))
    assert scaling.unit_rows == (True, False)
    seen = observed[:, 0]
    lengths = np.array([np.sqrt(sum(cell**2 for cell in row)) for row in counts])
    directions = counts / np.where(lengths > 0, lengths, 1)[:, None]
    centred = directions - directions[seen].mean(axis=0)
    expected = centred / np.sqrt(np.mean([column.var() for column in directions[seen].T]))
    scaled = scaling.transform(views)[0]
    np.testing.assert_allclose(scaled[seen], expected[seen], rtol=1e-5, atol=1e-6)
    assert scaled[seen].var(axis=0).mean() == pytest.approx(1.0, abs=1e-5)
    mean, variance = scaled_moments(views, scaling)[0]
    np.testing.assert_allclose(mean, scaled[seen].mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(variance, scaled[seen].var(axis=0), atol=1e-4)
    assert (scaling.transform(Views.of([counts[:2], np.ones((2, 1))], [[0, 1]] * 2))[0] == 0).all()  # no row to scale
    # The length of a document says nothing: twice the text is the same direction.
    again = scaling.transform(Views.of([2 * counts, np.ones((120, 1))], observed))[0]
    np.testing.assert_allclose(again, scaled, atol=1e-6)


def test_counts_of_words_get_the_cosine_and_a_table_with_rare_categories_does_not():
    rng = np.random.default_rng(1)
    rare = np.eye(60)[rng.integers(0, 60, 120)]
    person = np.hstack([rng.normal(40, 12, (120, 1)), rng.normal(170, 9, (120, 1)), rare])
    views = Views.of([words(), person, rng.normal(size=(120, 50)) ** 2, rare])
    assert (person == 0).mean() > 0.9
    assert Scaling.fit(views, ("auto",) * 4).unit_rows == (True, False, False, False)


def test_range_maps_a_view_into_an_interval_of_length_one_around_its_mean():
    arrays, observed = example()
    views = Views.of(arrays, observed)
    second = Scaling.fit(views, ("none", "range")).transform(views)[1][observed[:, 1]]
    assert np.ptp(second) == pytest.approx(1.0, abs=1e-6)
    assert second.mean() == pytest.approx(0.0, abs=1e-6)
    # One factor for the whole view: the features keep their proportions.
    given = arrays[1][observed[:, 1]]
    np.testing.assert_allclose(second.std(axis=0) / second.std(), given.std(axis=0) / given.std(), rtol=1e-5)


@pytest.mark.parametrize("kind", SCALINGS)
def test_constant_views_stay_finite(kind):
    views = Views.of([np.full((5, 2), 3.0)])
    (scaled,) = Scaling.fit(views, (kind,)).transform(views)
    np.testing.assert_array_equal(scaled, np.full((5, 2), 3.0 if kind == "none" else 0.0))


def test_none_leaves_values_as_they_are():
    arrays, observed = example(np.float32)
    views = Views.of(arrays, observed)
    for array, out, seen in zip(arrays, Scaling.fit(views, ("none",) * 2).transform(views), observed.T, strict=True):
        np.testing.assert_array_equal(out[seen], array[seen])


@pytest.mark.parametrize("kind", SCALINGS)
@pytest.mark.parametrize("junk", [1e6, np.inf, np.nan])
def test_hidden_cells_change_no_bit(kind, junk):
    arrays, observed = example()
    if kind == "counts":
        arrays = [np.abs(array) for array in arrays]
    dirty = [np.where(seen[:, None], array, junk) for array, seen in zip(arrays, observed.T, strict=True)]
    outcomes = []
    for given in (arrays, dirty):
        views = Views.of(given, observed)
        scaling = Scaling.fit(views, (kind, kind))
        outcomes.append([part.tobytes() for part in (*scaling.centers, *scaling.scales, *scaling.transform(views))])
    assert outcomes[0] == outcomes[1]


def test_transform_applies_the_learned_map_to_new_samples():
    arrays, observed = example()
    scaling = Scaling.fit(Views.of(arrays, observed), ("zscore", "range"))
    new = Views.of([array[:3] + 10 for array in arrays], [[1, 1], [1, 0], [0, 1]])
    first, second = scaling.transform(new)
    np.testing.assert_allclose(first[:2], (arrays[0][:2] + 10 - scaling.centers[0]) / scaling.scales[0], rtol=1e-6)
    np.testing.assert_array_equal(first[2], 0)
    np.testing.assert_allclose(second[2], (arrays[1][2] + 10 - scaling.centers[1]) / scaling.scales[1], rtol=1e-6)


def test_an_unknown_scaling_is_refused():
    with pytest.raises(OptionError, match=r"kind must be 'zscore', .* 'unit_view', 'none'; got 'zscor'.*Did you mean"):
        Scaling.fit(Views.of([np.ones((2, 2))]), ("zscor",))


def stored_and_in_memory(folder, dtype, seed=0):
    """Views over several blocks, in files and in memory; the second is missing in one whole block."""
    rng = np.random.default_rng(seed)
    n = 3 * BLOCK + 700
    arrays = [rng.normal(1e4, 2.0, (n, 3)), rng.gamma(2.0, 5.0, (n, 2)), rng.random((n, 4))]
    arrays[0][:, 1] = 0.1  # a constant whose mean is not exact in binary
    observed = make_observed(n, 3, 0.4, random_state=seed)
    observed[BLOCK : 2 * BLOCK] = True, False, True
    arrays = [array.astype(dtype) for array in arrays]
    for v, array in enumerate(arrays):
        np.save(folder / f"{v}.npy", array)
    np.save(folder / "observed.npy", observed)
    return StoredViews.of(folder), Views.of(arrays, observed)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "kinds", [("zscore",) * 3, ("range",) * 3, ("none", "zscore", "range"), ("cosine", "auto", "auto")]
)
def test_stored_views_give_the_scaling_of_views_in_memory(tmp_path, kinds, dtype):
    stored, views = stored_and_in_memory(tmp_path, dtype)
    found, expected = Scaling.fit(stored, kinds), Scaling.fit(views, kinds)
    assert found.unit_rows == expected.unit_rows
    for mine, other in zip((*found.centers, *found.scales), (*expected.centers, *expected.scales), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10)
        assert mine.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_one_block_gives_the_statistics_of_all_rows_at_once_to_the_bit(dtype):
    arrays, observed = example(dtype)
    views = Views.of(arrays, observed)
    for v, array in enumerate(arrays):
        rows = array[observed[:, v]]
        scaler = StandardScaler().fit(rows.astype(np.float64))
        zscore, span = Scaling.fit(views, ("zscore",) * 2), Scaling.fit(views, ("range",) * 2)
        np.testing.assert_array_equal(zscore.centers[v], scaler.mean_)
        np.testing.assert_array_equal(zscore.scales[v], scaler.scale_)
        np.testing.assert_array_equal(span.centers[v], np.full(rows.shape[1], rows.mean(dtype=np.float64)))
        np.testing.assert_array_equal(span.scales[v], np.full(rows.shape[1], float(rows.max()) - float(rows.min())))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bounds_and_counts_are_those_of_the_observed_rows(tmp_path, dtype):
    stored, views = stored_and_in_memory(tmp_path, dtype)
    for given in (stored, views):
        for v, features in enumerate(features_of(given)):
            columns = views.rows(v).T
            np.testing.assert_array_equal(features.low, [min(column) for column in columns])
            np.testing.assert_array_equal(features.high, [max(column) for column in columns])
        np.testing.assert_array_equal(Census.of(given).rows, views.observed.sum(axis=0))
        assert Census.of(given).rows.dtype == np.int64


def test_a_view_seen_nowhere_has_no_bounds_and_teaches_nothing():
    views = Views.of({"a": np.ones((2, 2)), "b": np.ones((2, 1))}, [[1, 0], [1, 0]])
    nowhere = features_of(views)[1]
    assert (nowhere.low, nowhere.high) == (np.inf, -np.inf)
    np.testing.assert_array_equal(Census.of(views).rows, [2, 0])
    for kind in ("zscore", "range", "cosine", "auto"):
        with pytest.raises(DataError, match=r"Scaling: view 'b' is observed for no sample.*leave it out"):
            Scaling.fit(views, (kind, kind))
    assert Scaling.fit(views, ("zscore", "none")).scales[1] == 1


def test_views_that_stay_as_they_are_are_not_read(tmp_path):
    stored, _ = stored_and_in_memory(tmp_path, np.float32)
    for file in tmp_path.iterdir():
        file.unlink()
    assert [scale.tolist() for scale in Scaling.fit(stored, ("none",) * 3).scales] == [[1] * 3, [1] * 2, [1] * 4]


def test_unit_is_the_min_max_scaling_of_observed_rows():
    rng = np.random.default_rng(0)
    view, observed = rng.normal(size=(30, 4)) * [1, 5, 0, 2], rng.random((30, 1)) < 0.7
    seen = observed[:, 0]
    views = Views.of([view, np.ones((30, 1))], np.hstack([observed, np.ones((30, 1), bool)]))
    ours = Scaling.fit(views, ("unit", "none")).transform(views)[0]
    np.testing.assert_allclose(ours[seen], MinMaxScaler().fit_transform(view[seen]), atol=1e-6)
    assert (ours[~seen] == 0).all()


# --- samples of unusual length ------------------------------------------------------------------


def with_outliers(n_outliers=8, n_samples=200, size=30):
    rows = np.random.default_rng(5).normal(2.0, 3.0, size=(n_samples, size))
    rows[:n_outliers] = 2.0 + 10 * (rows[:n_outliers] - 2.0)
    return rows


def test_robust_scaling_is_learned_without_unusual_rows_which_are_shortened():
    rows = with_outliers()
    scaling = Scaling.fit(Views.of([rows]), ("robust",))
    np.testing.assert_allclose(scaling.centers[0], rows[8:].mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(scaling.scales[0], rows[8:].std(axis=0), rtol=1e-9)
    scores = (rows - rows[8:].mean(axis=0)) / rows[8:].std(axis=0)
    limit = 2 * np.median(np.linalg.norm(scores, axis=1))
    assert scaling.limits[0] == pytest.approx(limit)
    (scaled,) = scaling.transform(Views.of([rows]))
    np.testing.assert_allclose(scaled[8:], scores[8:], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(scaled[:8], axis=1), limit, rtol=1e-5)
    directions = scores[:8] / np.linalg.norm(scores[:8], axis=1, keepdims=True)
    np.testing.assert_allclose(scaled[:8] / limit, directions, atol=1e-5)


def test_robust_scaling_is_the_zscore_where_no_row_is_unusual():
    views = Views.of([with_outliers(0)])
    robust, plain = Scaling.fit(views, ("robust",)), Scaling.fit(views, ("zscore",))
    np.testing.assert_array_equal(robust.transform(views)[0], plain.transform(views)[0])
    assert robust.limits == (np.inf,)


def test_moments_of_robust_scaling_are_those_of_the_shortened_rows():
    views = Views.of([with_outliers()])
    scaling = Scaling.fit(views, ("robust",))
    (scaled,) = scaling.transform(views)
    ((mean, variance),) = scaled_moments(views, scaling)
    np.testing.assert_allclose(mean, scaled.astype(np.float64).mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(variance, scaled.astype(np.float64).var(axis=0), rtol=1e-5)


def test_a_feature_that_only_unusual_rows_have_keeps_its_scale():
    rows = with_outliers()
    rows[:, 0] = 0.0
    rows[:8, 0] = 100.0
    scaling = Scaling.fit(Views.of([rows]), ("robust",))
    assert scaling.scales[0][0] == pytest.approx(rows[:, 0].std())
    assert np.isfinite(scaling.transform(Views.of([rows]))[0]).all()
