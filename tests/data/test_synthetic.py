import numpy as np
import pytest
from scipy import stats

from acova.base import AcovaError, OptionError
from acova.data import Views, make_views
from acova.data.datasets import synthetic

NOISE = {"n_features": 6, "n_informative": 0}
CATEGORY = {"kind": "category", "n_features": 2, "n_informative": 0, "n_levels": 3}


def residuals(data, view):
    """Errors of a view: values less the mean of each cluster."""
    array = np.array(data.views.arrays[list(data.useful).index(view)])
    for label in np.unique(data.labels):
        array[data.labels == label] -= array[data.labels == label].mean(axis=0)
    return array


def test_the_default_is_an_rna_like_and_a_protein_like_view():
    data = make_views(random_state=0)
    assert data.views.names == ("rna", "protein")
    assert data.views.sizes == (300, 40)
    assert data.views.complete.all()
    assert np.bincount(data.labels).tolist() == [100] * 4
    assert {name: int(columns.sum()) for name, columns in data.informative.items()} == {"rna": 60, "protein": 10}


def test_columns_are_cluster_means_plus_normal_errors():
    spec = {"n_features": 60, "n_informative": 40, "separation": 2.0, "noise": 0.5}
    data = make_views(6000, 3, {"one": spec}, random_state=1)
    array = data.views.arrays[0]
    means = np.array([array[data.labels == label].mean(axis=0) for label in range(3)])
    np.testing.assert_array_equal(data.informative["one"], np.arange(60) < 40)
    assert np.abs(means[:, 40:]).max() < 5 * 0.5 / np.sqrt(2000)
    assert means[:, :40].std() == pytest.approx(2.0, rel=4 / np.sqrt(2 * 120))
    errors = residuals(data, "one")
    assert errors.std() == pytest.approx(0.5, rel=0.01)
    assert stats.kurtosis(errors.ravel()) == pytest.approx(0, abs=0.05)


@pytest.mark.parametrize("rho", [0.0, 0.7, -0.4])
def test_errors_in_columns_of_the_same_number_have_the_correlation(rho):
    views = {"a": {"n_features": 40, "n_informative": 5}, "b": {"n_features": 25}, "c": CATEGORY}
    data = make_views(2000, 2, views, error_correlation=rho, random_state=0)
    np.testing.assert_allclose(data.error_correlation, [[1, rho, 0], [rho, 1, 0], [0, 0, 1]])
    first, second = residuals(data, "a"), residuals(data, "b")
    found = np.corrcoef(first[:, :25].ravel(), second.ravel())[0, 1]
    assert found == pytest.approx(rho, abs=5 / np.sqrt(2000 * 25))
    shifted = np.corrcoef(first[:, 1:26].ravel(), second.ravel())[0, 1]
    assert shifted == pytest.approx(0, abs=5 / np.sqrt(2000 * 25))


def test_a_whole_correlation_matrix_and_a_perfect_one():
    matrix = np.array([[1, 0.9, 0.2], [0.9, 1, -0.1], [0.2, -0.1, 1]])
    data = make_views(4000, 2, dict.fromkeys("abc", NOISE), error_correlation=matrix, random_state=0)
    found = np.corrcoef([array.ravel() for array in data.views.arrays])
    np.testing.assert_allclose(found, matrix, atol=5 / np.sqrt(4000 * 6))
    same = make_views(50, 2, dict.fromkeys("ab", NOISE), error_correlation=1.0, random_state=0)
    np.testing.assert_allclose(*same.views.arrays, atol=1e-12)


def test_sizes_of_clusters_are_exact():
    counts = np.bincount(make_views(360, 4, {"a": {}}, proportions=(20, 10, 5, 1), random_state=0).labels)
    assert counts.tolist() == [200, 100, 50, 10]
    counts = np.bincount(make_views(11, 3, {"a": {}}, random_state=0).labels)
    assert sorted(counts.tolist()) == [3, 4, 4]
    counts = np.bincount(make_views(5, 3, {"a": {}}, proportions=(1000, 1, 1), random_state=0).labels)
    assert counts.tolist() == [3, 1, 1]


def test_the_other_partition_is_independent_and_known():
    data = make_views(4000, 4, {"one": {}, "batch": {"partition": "other"}}, random_state=0)
    assert data.useful == {"one": True, "batch": False}
    assert np.bincount(data.other_labels).tolist() == [1000] * 4
    table = stats.contingency.crosstab(data.labels, data.other_labels).count
    assert stats.chi2_contingency(table).pvalue > 1e-3
    batch = data.views.arrays[1]
    means = np.array([batch[data.other_labels == label].mean(axis=0) for label in range(4)])
    assert means.std() == pytest.approx(1.0, rel=0.5)
    assert np.abs([batch[data.labels == label].mean(axis=0) - batch.mean(axis=0) for label in range(4)]).max() < 0.25


def test_random_categories_are_uniform_and_informative_ones_follow_the_scores():
    data = make_views(6000, 3, {"site": CATEGORY, "stage": {**CATEGORY, "n_informative": 1}}, random_state=0)
    site, stage = data.views.arrays
    assert site.shape == (6000, 6)
    np.testing.assert_array_equal(site.reshape(-1, 2, 3).sum(axis=2), 1)
    np.testing.assert_allclose(site.mean(axis=0), 1 / 3, atol=0.03)
    assert data.views.columns[0][:2] == ("site_0=level 0", "site_0=level 1")
    p = [
        stats.chi2_contingency(stats.contingency.crosstab(data.labels, column.argmax(axis=1)).count).pvalue
        for column in stage.reshape(-1, 2, 3).transpose(1, 0, 2)
    ]
    assert p[0] < 1e-10
    assert p[1] > 1e-3
    assert data.informative["stage"].tolist() == [True] * 3 + [False] * 3
    assert data.useful == {"site": False, "stage": True}


def test_gumbel_errors_make_the_levels_of_a_category_a_softmax():
    spec = {"kind": "category", "n_features": 1, "n_levels": 3, "separation": 0.75, "noise": 0.5}
    data = make_views(40000, 1, {"stage": spec}, random_state=3)
    odds = np.log(data.views.arrays[0].mean(axis=0))
    stream = synthetic.Streams(synthetic.draw_seed(3, "make_views")).child("view", "stage").numpy("means")
    scores = 0.75 * stream.normal(size=3) / 0.5
    np.testing.assert_allclose(odds - odds[0], scores - scores[0], atol=0.1)


def test_a_level_that_does_not_occur_is_no_feature():
    spec = {"kind": "category", "n_features": 3, "n_informative": 1, "n_levels": 20}
    data = make_views(12, 2, {"stage": spec}, random_state=0)
    assert data.views.sizes[0] < 36
    assert [column.startswith("stage_0=") for column in data.views.columns[0]] == data.informative["stage"].tolist()


def test_heavy_tails_are_those_of_student():
    data = make_views(5000, 2, {"one": {**NOISE, "kind": "heavy_tails"}}, random_state=0)
    assert stats.kstest(data.views.arrays[0].ravel(), stats.t(2).cdf).pvalue > 1e-3


def test_constant_columns_and_copies():
    views = {"again": {"kind": "copy", "of": "one"}, "one": {}, "almost": {"kind": "constant", "n_features": 3}}
    data = make_views(50, 2, views, random_state=0)
    again, one, almost = data.views.arrays
    np.testing.assert_array_equal(again, one)
    assert almost.sum(axis=0).tolist() == [1, 1, 1]
    assert set(np.unique(almost)) == {0, 1}
    assert data.useful == {"again": True, "one": True, "almost": False}


def test_outliers_have_errors_ten_times_as_large_in_one_view():
    plain = make_views(200, 3, random_state=0)
    data = make_views(200, 3, outliers=0.1, random_state=0)
    assert data.outliers.sum() == 20
    assert data.outliers.sum(axis=1).max() == 1
    for v, (ours, theirs) in enumerate(zip(data.views.arrays, plain.views.arrays, strict=True)):
        rows = data.outliers[:, v]
        np.testing.assert_array_equal(ours[~rows], theirs[~rows])
        noise = ~data.informative[data.views.names[v]]
        np.testing.assert_allclose(ours[rows][:, noise], 10 * theirs[rows][:, noise])


def test_the_same_seed_gives_the_same_data_whatever_stands_beside():
    one = make_views(60, 3, {"a": {"n_features": 4}}, random_state=5)
    more = make_views(60, 3, {"noise": NOISE, "a": {"n_features": 9, "n_informative": 4}}, random_state=5)
    np.testing.assert_array_equal(one.labels, more.labels)
    np.testing.assert_array_equal(one.views.arrays[0], more.views.arrays[1][:, :4])
    again = make_views(60, 3, {"a": {"n_features": 4}}, random_state=5)
    np.testing.assert_array_equal(one.views.arrays[0], again.views.arrays[0])
    other = make_views(60, 3, {"a": {"n_features": 4}}, random_state=6)
    assert not np.array_equal(one.views.arrays[0], other.views.arrays[0])
    assert not np.array_equal(
        make_views(60, 3, {"a": {}}).views.arrays[0], make_views(60, 3, {"a": {}}).views.arrays[0]
    )
    assert isinstance(one.views, Views)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"n_samples": 3}, "n_samples must be an integer at least 4 and at most .*; got 3"),
        ({"n_clusters": 0}, "n_clusters must be an integer at least 1"),
        ({"views": {}}, "views must be a dict of name → dict with at least one view; got {}"),
        ({"views": {"a": 3}}, "view 'a' must be a dict with entries among n_features.*; got 3"),
        ({"views": {"a": {"n_feature": 3}}}, "unknown entry 'n_feature'; known are .* Did you mean 'n_features'"),
        ({"views": {"a": {"n_features": "x"}}}, r"view 'a': Expected `int`, got `str` - at `\$.n_features`"),
        ({"views": {"a": {"n_features": 0}}}, "view 'a': n_features must be an integer at least 1"),
        ({"views": {"a": {"n_informative": 11}}}, "n_informative must be an integer at least 0 and at most 10; got 11"),
        ({"views": {"a": {"kind": "gausian"}}}, "kind must be 'gaussian', .*Did you mean 'gaussian'"),
        ({"views": {"a": {"kind": "category", "n_levels": 1}}}, "n_levels must be an integer at least 2"),
        ({"views": {"a": {"partition": "own"}}}, "partition must be 'labels', 'other'; got 'own'"),
        ({"views": {"a": {"noise": -1.0}}}, "noise must be a number at least 0; got -1.0"),
        ({"views": {"a": {}, "b": {"kind": "copy", "of": "c"}}}, "view 'b': of must be 'a'; got 'c'"),
        ({"proportions": (1, 2)}, r"proportions must be 4 positive numbers, one per cluster; got \(1, 2\)"),
        ({"proportions": (1, 2, 0, 1)}, "proportions must be 4 positive numbers"),
        ({"error_correlation": 2.0}, r"error_correlation must be a number from -1 to 1 or .*\(2, 2\).*; got 2.0"),
        ({"error_correlation": "high"}, "error_correlation must be a number from -1 to 1"),
        ({"views": {"a": {}, "b": {"kind": "constant"}}, "error_correlation": [[1, 0.5], [0.5, 1]]}, "such as 'b'"),
        ({"outliers": 1.5}, "outliers must be a number at least 0 and at most 1; got 1.5"),
        ({"views": {"a": {"kind": "constant"}}, "outliers": 0.1}, "outliers need a view of kind 'gaussian' or"),
        ({"random_state": "now"}, "random_state must be an integer"),
    ],
)
def test_what_cannot_be_made_is_an_error(keywords, message):
    with pytest.raises(OptionError, match=message) as caught:
        make_views(**keywords)
    assert isinstance(caught.value, AcovaError)
