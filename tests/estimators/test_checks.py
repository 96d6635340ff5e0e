"""What clusters go with: effect sizes and p-values against scipy, and the warning that they mirror missing views."""

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, fisher_exact, kruskal
from scipy.stats.contingency import association

from acova import ACOVA, AgreementGraph, Concat, Views
from acova.base import DataError, OptionError
from acova.clustering.association import of_counts, of_numbers
from acova.clustering.exact import exact_p_value
from acova.data import make_views
from acova.estimators._checks import WHOLE_PATTERN


def generator():
    return np.random.default_rng(0)


def test_the_p_value_of_counts_is_that_of_permuted_labels():
    table = np.array([[12, 5, 3], [4, 9, 7]])
    found = of_counts(table, generator(), 20_000)
    groups = np.repeat([0, 0, 0, 1, 1, 1], table.ravel())
    labels = np.repeat([0, 1, 2] * 2, table.ravel())
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    rng = generator()
    drawn = [np.bincount(3 * groups + rng.permutation(labels), minlength=6).reshape(2, 3) for _ in range(20_000)]
    statistics = (np.square(np.array(drawn) - expected) / expected).sum(axis=(1, 2))
    share = (statistics >= chi2_contingency(table, correction=False).statistic - 1e-9).mean()
    assert found.p_value == pytest.approx(share, abs=0.008)  # four standard errors of the difference


@pytest.mark.parametrize("table", [[[3, 1, 0], [0, 2, 3]], [[4, 1], [1, 4]], [[2, 1, 0], [0, 2, 1], [1, 0, 2]]])
def test_the_p_value_of_a_small_table_is_that_of_all_orders_of_the_labels(table):
    table = np.array(table)
    rows, columns = np.indices(table.shape).reshape(2, -1)
    groups, labels = (np.repeat(each, table.ravel()) for each in (rows, columns))
    statistic = chi2_contingency(table, correction=False).statistic

    def of(order):
        found = np.zeros_like(table)
        np.add.at(found, (groups, np.array(order)), 1)
        return chi2_contingency(found, correction=False).statistic

    orders = list(distinct(labels.tolist()))  # equally likely
    as_large = sum(of(order) >= statistic - 1e-9 for order in orders)
    assert exact_p_value(table) == pytest.approx(as_large / len(orders))
    assert of_counts(table, generator(), 1).p_value == exact_p_value(table)


def distinct(labels):
    """Yield every different order of labels."""
    if not labels:
        yield ()
    for first in sorted(set(labels)):
        rest = labels.copy()
        rest.remove(first)
        yield from ((first, *order) for order in distinct(rest))


def test_fishers_test_is_the_same_for_equal_margins():
    for a in range(8):
        table = np.array([[a, 7 - a], [7 - a, a]])
        assert exact_p_value(table) == pytest.approx(fisher_exact(table).pvalue)
    assert exact_p_value(np.full((2, 2), 80)) is None  # permutations
    assert exact_p_value(np.full((6, 6), 4)) is None


def test_the_effect_of_counts_is_cramers_v_less_what_chance_gives():
    table = 100 * np.array([[30, 10], [10, 30]])
    assert of_counts(table, generator(), 9).effect == pytest.approx(association(table, "cramer"), abs=1e-3)
    assert of_counts(np.diag([5, 6, 7]), generator(), 9).effect == pytest.approx(1)
    rng = generator()
    drawn = [np.bincount(rng.integers(25, size=60), minlength=25).reshape(5, 5) for _ in range(50)]
    assert np.mean([of_counts(one, rng, 1).effect for one in drawn]) < 0.1
    assert np.mean([association(one, "cramer") for one in drawn]) > 0.2


def test_numbers_are_compared_as_kruskal_and_wallis_do():
    rng = generator()
    labels = np.repeat([0, 1, 2], [20, 30, 25])
    values = rng.normal(size=75).round(1) + 0.4 * labels
    found = of_numbers(values, labels, generator(), 4000)
    known = kruskal(*(values[labels == k] for k in range(3)))
    assert found.p_value == pytest.approx(known.pvalue, abs=0.01)
    # Epsilon squared from H, which is (n - 1) times the share of the ranks' variance between groups.
    share = known.statistic / 74
    assert found.effect == pytest.approx(1 - (1 - share) * 74 / 72)
    assert np.isnan(of_numbers(np.ones(75), labels, generator(), 9).effect)


def test_by_chance_one_p_value_in_twenty_is_below_a_twentieth():
    rng = generator()
    p_values = []
    for _ in range(300):
        counts = np.bincount(rng.integers(6, size=80), minlength=6).reshape(3, 2)
        p_values.append(of_counts(counts, rng, 199).p_value)
    assert 0.02 < np.mean(np.array(p_values) <= 0.05) < 0.09


def holes(by_class, partition="labels", separation=0.9):
    """Four groups in two views; 40 % of the samples lack one of them, which their group decides or chance."""
    sizes = {"n_features": 40, "n_informative": 20, "separation": separation}
    made = make_views(400, 4, {"rna": sizes, "protein": {**sizes, "partition": partition}}, random_state=0)
    rng = generator()
    lacks = rng.random(400) < 0.4
    first = made.labels < 2 if by_class else rng.random(400) < 0.5
    return made.views.hide(np.column_stack([~(lacks & first), ~(lacks & ~first)])), made.labels


@pytest.fixture(scope="module")
def mirror():
    """Two views of unrelated partitions: a sample without the first cannot be placed in it."""
    views, _ = holes(by_class=False, partition="other", separation=0.6)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return views, AgreementGraph(4, random_state=0).fit(views)


def test_holes_that_the_groups_decide_are_no_fault():
    views, _ = holes(by_class=True)
    model = AgreementGraph(4, random_state=0).fit(views)
    table = model.missingness_check(n_permutations=199)
    assert table.loc["rna", "effect"] > 0.4
    assert table.loc["rna", "p_value"] == pytest.approx(1 / 200)
    assert table.loc["rna", "by_hiding"] < 0.3
    assert table.loc[WHOLE_PATTERN, "n_missing"] == (~views.observed.all(axis=1)).sum()
    assert not any("mirror" in text for text in model.warnings_)


def test_clusters_that_the_lack_of_a_view_decides_are_named(mirror):
    _, model = mirror
    [text] = [text for text in model.warnings_ if "mirror" in text]
    assert text.startswith("the clusters mirror who lacks view 'rna': they go with it (Cramér's V 0.")
    assert model.missingness_check(n_permutations=99).loc["rna", "by_hiding"] > 0.8


def test_holes_by_chance_go_with_no_clusters():
    views, _ = holes(by_class=False)
    model = AgreementGraph(4, random_state=0).fit(views)
    table = model.missingness_check(n_permutations=199)
    kinds = views.observed @ [1, 2]
    counted = of_counts(pd.crosstab(kinds, model.labels_).to_numpy(), generator(), 9)
    assert table.loc[WHOLE_PATTERN, "effect"] == pytest.approx(counted.effect)
    assert table["p_value"].min() > 0.01
    assert not any("mirror" in text for text in model.warnings_)


def test_what_hiding_brings_about_is_counted_over_the_samples_with_the_view(mirror):
    views, model = mirror
    both = views.observed.all(axis=1)
    hidden = model.predict({"protein": views.arrays[1][both]})
    shares = [np.bincount(labels, minlength=4) / len(labels) for labels in (hidden, model.labels_[both])]
    lacks = ~views.observed[:, 0]
    with_and_without = [np.bincount(model.labels_[rows], minlength=4) / rows.sum() for rows in (~lacks, lacks)]
    apart = with_and_without[1] - with_and_without[0]
    assert model.view_shift_[0] == pytest.approx((shares[0] - shares[1]) @ apart / (apart @ apart))


def test_a_saved_model_gives_the_same_tables(tmp_path):
    views, labels = holes(by_class=True)
    for model in (AgreementGraph(4, random_state=0), Concat(4, random_state=0)):
        model.fit(views).save(tmp_path / type(model).__name__)
        again = type(model).load(tmp_path / type(model).__name__)
        pd.testing.assert_frame_equal(again.missingness_check(), model.missingness_check())
        known = {"group": labels.astype(str)}
        pd.testing.assert_frame_equal(again.check_against(known), model.check_against(known))


def test_a_run_of_an_earlier_version_says_that_it_cannot_tell():
    model = ACOVA.load(Path(__file__).parent / "run_of_format_4" / "acova")
    with pytest.raises(DataError, match=r"this model was saved by an earlier version, .*; fit again"):
        model.missingness_check()


def test_columns_are_joined_by_name_and_compared_by_kind():
    views, labels = holes(by_class=False)
    names = [f"s{i:03d}" for i in range(400)]
    model = AgreementGraph(4, random_state=0).fit(
        Views(views.arrays, views.observed, views.names, index=pd.Index(names))
    )
    rng = generator()
    frame = pd.DataFrame(
        {
            "age": 10 * model.labels_ + rng.normal(size=400),
            "group": pd.Categorical(labels),
            "noise": rng.normal(size=400),
            "constant": 1,
        },
        index=names,
    )
    frame.loc["s000", "age"] = np.nan
    shuffled = frame.sample(frac=1, random_state=0).iloc[:200]
    table = model.check_against(shuffled, n_permutations=199)
    assert table["kind"].tolist() == ["number", "category", "number", "number"]
    assert table.loc[["age", "group"], "effect"].min() > 0.8
    assert table.loc["age", "n_samples"] == shuffled["age"].notna().sum()
    assert table.loc["noise", "p_value"] > 0.01
    assert np.isnan(table.loc["constant", "q_value"])
    p = table["p_value"].dropna().sort_values()
    stepped = (p * len(p) / np.arange(1, len(p) + 1))[::-1].cummin().reindex(table.index)
    np.testing.assert_allclose(table["q_value"], stepped)


def test_what_cannot_be_compared_is_refused():
    views, labels = holes(by_class=False)
    model = Concat(4, random_state=0).fit(views)
    with pytest.raises(DataError, match="frame must be a DataFrame or a dict of column → values; got list"):
        model.check_against([1, 2])
    with pytest.raises(DataError, match="frame has 3 rows without names for 400 training samples"):
        model.check_against({"a": [1, 2, 3]})
    with pytest.raises(DataError, match="frame names no training sample; its index must be like index_, such as 0"):
        model.check_against(pd.DataFrame({"a": labels}, index=[f"s{i}" for i in range(400)]))
    with pytest.raises(DataError, match="column 'a' holds an infinite value"):
        model.check_against({"a": np.where(labels == 0, np.inf, 1.0)})
    with pytest.raises(OptionError, match="n_permutations must be an integer at least 1; got 0"):
        model.missingness_check(n_permutations=0)


def test_the_permutations_of_large_tables_are_drawn_in_parts(monkeypatch):
    table = np.array([[12, 5, 3], [4, 9, 7]])
    whole = of_counts(table, generator(), 500)
    monkeypatch.setattr("acova.clustering.association._BLOCK_CELLS", 60)
    assert of_counts(table, generator(), 500) == whole
