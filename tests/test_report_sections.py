"""What the sections of the report say: cautions, islands, cards, comparisons, colours and exports."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA
from acova.base import DataError
from acova.console import count
from acova.data import Summary, Views
from acova.report import make_result, render_report, write_numbers
from acova.report.clusters import cluster_cards
from acova.report.comparison import compare_results
from acova.report.covariates import check_covariates, colour_columns, top_features
from acova.report.exports import as_json
from acova.report.islands import find_islands
from acova.report.numbers import listed
from acova.report.sections import SECTIONS
from acova.report.trust import find_doubts
from test_report import changed, sample_data, words


def doubts(model, **changes) -> str:
    return " ".join(
        f"[{one.level}] {one.text}" for one in find_doubts(make_result(changed(model, **changes), method="PCA"))
    )


# --- islands ----------------------------------------------------------------------------------------


def disc(rng, centre, count):
    return np.asarray(centre) + rng.normal(size=(count, 2))


def test_a_cluster_in_two_places_is_split_and_its_number_is_in_the_larger_one():
    rng = np.random.default_rng(0)
    points = np.concatenate([disc(rng, (0, 0), 100), disc(rng, (30, 0), 60), disc(rng, (60, 0), 40)])
    labels = np.repeat([0, 1, 0], [100, 60, 40])
    found = find_islands(points, points, labels, 3)
    assert found.split == {0: (100 / 140, 40 / 140)}
    assert found.middles[0] < 100
    assert np.abs(points[found.middles[0]]).max() < 2
    assert 100 <= found.middles[1] < 160
    assert found.middles[2] == -1


def test_islands_that_the_map_tore_apart_are_not_reported():
    rng = np.random.default_rng(0)
    latent = disc(rng, (0, 0), 200)  # one group, which the map shows as two
    points = latent + np.where(rng.random(200) < 0.3, 40.0, 0.0)[:, None]
    assert find_islands(points, latent, np.zeros(200, dtype=int), 1).split == {}
    assert 0 in find_islands(points, points, np.zeros(200, dtype=int), 1).split


def test_a_few_stray_samples_are_no_island():
    rng = np.random.default_rng(1)
    points = np.concatenate([disc(rng, (0, 0), 200), disc(rng, (50, 50), 9)])
    assert find_islands(points, points, np.zeros(209, dtype=int), 1).split == {}


@pytest.mark.parametrize("n_samples", [1, 2, 30])
def test_samples_in_one_place_are_one_island(n_samples):
    points = np.zeros((n_samples, 2))
    found = find_islands(points, points, np.zeros(n_samples, dtype=int), 1)
    assert found.split == {}
    assert found.middles[0] == 0


# --- what to be careful about -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def consensus(fitted):
    """A model whose two runs agree on everything."""
    votes = {"_agreement": np.ones(240, np.float32), "probabilities_": np.eye(3, dtype=np.float32)[fitted.labels_]}
    model = changed(fitted, **votes)
    model.__class__ = type("ACOVA", (ACOVA,), {"n_voters_": 2, "method": ACOVA.method})
    return model


def test_a_confidence_far_above_the_agreement_of_runs_is_a_warning(consensus):
    agreement = np.full(240, 0.7, np.float32)
    text = doubts(consensus, _agreement=agreement)
    assert "[warning] The mean confidence is 1.00, but on average only 70% of the runs agree on a sample's clus" in text
    one = np.where(consensus.labels_ == 1, np.float32(0.6), np.float32(1.05))
    assert "[warning] In cluster 1 the mean confidence is far above the share of runs" in doubts(
        consensus, _agreement=one
    )
    assert "runs agree" not in doubts(consensus)


def test_a_confidence_below_the_agreement_is_no_reason_for_caution(consensus):
    shares = 0.4 * consensus.probabilities_ + np.float32(0.2)
    assert "confidence" not in doubts(consensus, probabilities_=shares)


def test_a_view_that_decides_alone_is_a_warning(fitted):
    some = {"view_support_": np.array([0.9, 0.8, 0.05])}
    text = doubts(fitted, view_influence_=np.array([0.45, 0.1, 0.0]), **some)
    assert "[warning] The view image decides almost alone: without it 45% of the samples would be in another" in text
    assert "without any other view at most 10%" in text
    assert "[note] The view sound shows no trace of the clusters." in text
    assert "decides" not in doubts(fitted, view_influence_=np.array([0.45, 0.2, 0.0]), **some)


def test_a_cluster_that_lacks_a_view_is_a_warning(fitted, toy):
    views, labels = toy
    observed = views.observed.copy()
    observed[:, 2] = labels != 0
    observed[:, 0] |= ~observed.any(axis=1)
    filled = {name: np.nan_to_num(array) for name, array in zip(views.names, views.arrays, strict=True)}
    text = doubts(fitted, labels_=labels, summary_=Summary.of(Views.of(filled, observed), labels, 3))
    assert "In cluster 0, 100% of the samples lack the view sound; of the other samples, 0% do." in text
    assert "In cluster 1" not in text


def test_warnings_come_before_notes_and_link_to_the_card(consensus):
    page = render_report(changed(consensus, _agreement=np.full(240, 0.7, np.float32)), method="PCA")
    section = page[page.index('id="trust"') : page.index('id="map"')]
    levels = re.findall(r'<li class="(\w+)">', section)
    assert levels[0] == "warning"
    assert levels == sorted(levels, reverse=True)
    for link in re.findall(r'href="#([\w-]+)">Show', section):
        assert f'id="{link}"' in page


def test_nothing_found_is_said_with_what_was_checked(consensus):
    latent = np.eye(3)[consensus.labels_] + np.random.default_rng(0).normal(0, 0.01, (240, 3))
    quiet = changed(consensus, warnings_=[], latent_=latent, view_influence_=np.zeros(3), view_support_=np.full(3, 0.9))
    text = words(render_report(quiet, method="PCA"))
    assert "none found a problem" in text
    assert "This does not prove that the clusters mean something" in text


# --- cards ------------------------------------------------------------------------------------------


def test_a_card_says_what_the_model_says(fitted, toy):
    cards = cluster_cards(make_result(fitted, method="PCA"))
    observed = toy[0].observed
    for card in cards:
        own = fitted.labels_ == card["number"]
        assert card["size"] == own.sum()
        shares = {view["view"]: (view["share"], view["elsewhere"]) for view in card["lacking"]}
        for v, name in enumerate(toy[0].names):
            assert shares[name] == pytest.approx((1 - observed[own, v].mean(), 1 - observed[~own, v].mean()))
        second = np.argsort(-fitted.probabilities_[own], axis=1)[:, 1]
        assert card["next"]["number"] == np.bincount(second).argmax()
        strongest = card["best"][0]
        word = "High" if any(one["feature"].effect > 0 for one in card["best"]) else "Low"
        assert card["words"].startswith(word)
        assert f"{strongest['feature'].name} ({strongest['view']})" in card["words"]


# --- comparison -------------------------------------------------------------------------------------


def test_a_comparison_counts_what_moved(fitted):
    labels = (fitted.labels_ + 1) % 3  # the same clusters under other numbers
    labels[:10] = (labels[:10] + 1) % 3
    result = make_result(fitted, method="PCA", compare=changed(fitted, labels_=labels), compare_name="run <b>")
    found = compare_results(result)
    assert (found["moved"], found["same"], found["samples"]) == (10, 230 / 240, 240)
    assert [row["match"] for row in found["clusters"]] == [1, 2, 0]
    assert sum(row["both"] for row in found["clusters"]) == 230
    assert [one["name"] for one in found["moved_samples"]] == [str(name) for name in fitted.index_[:10]]
    page = render_report(fitted, method="PCA", compare=result.other, compare_name="run <b>")
    assert "Compared with run <b> (ACOVA)" in words(page)
    assert "run <b>" not in page
    same = compare_results(make_result(fitted, compare=fitted))
    assert (same["moved"], same["ari"], same["settings"]) == (0, 1.0, [])


def test_samples_are_matched_by_name_and_not_by_place(fitted):
    order = np.random.default_rng(0).permutation(240)[:200]
    other = changed(fitted, labels_=fitted.labels_[order], index_=fitted.index_[order])
    found = compare_results(make_result(fitted, compare=other))
    assert (found["moved"], found["samples"], found["only_here"], found["only_there"]) == (0, 200, 40, 0)


def test_results_of_other_samples_are_not_compared(fitted):
    other = changed(fitted, index_=pd.Index([f"x{i}" for i in range(240)]))
    with pytest.raises(
        DataError, match=r"have no sample in common, so they cannot be compared; the first samples are 0"
    ):
        render_report(fitted, compare=other)
    twice = changed(fitted, index_=pd.Index(["a"] * 240))
    with pytest.raises(DataError, match="only if each sample has a name of its own"):
        render_report(fitted, compare=twice)


# --- colours ----------------------------------------------------------------------------------------


def test_covariates_are_found_by_name_and_missing_ones_stay_missing(fitted):
    frame = pd.DataFrame({"age": np.arange(300.0), "sex": ["f", "m"] * 150}, index=np.arange(299, -1, -1))
    found = check_covariates(fitted, frame.drop(index=[3]))
    age, sex = colour_columns(found, np.array([0, 3, 239]))
    assert (age["low"], age["high"]) == (60.0, 299.0)
    assert age["values"] == [1000, None, 0]
    assert sex == {"name": "sex", "categories": ["f", "m"], "values": [1, None, 0]}
    texts = frame.set_axis(frame.index.astype(str))
    np.testing.assert_array_equal(check_covariates(fitted, texts)["age"], 299.0 - np.arange(240))


def test_rare_categories_share_a_colour():
    values = [f"k{i:02d}" for i in range(20) for _ in range(20 - i)]
    (column,) = colour_columns({"kind": values}, np.arange(len(values)))
    assert column["categories"] == [*(f"k{i:02d}" for i in range(11)), "9 others"]
    assert column["values"][-1] == 11


@pytest.mark.parametrize(
    ("covariates", "message"),
    [
        ({"age": [1, 2]}, r"covariate 'age' must have one value for each of the 240 samples; its shape is \(2,\)"),
        ([1, 2], "covariates must be a DataFrame or a dict of arrays; got list"),
        (pd.DataFrame({"a": [1]}, index=["zz"]), "covariates have no sample of the model; their index must hold"),
        (pd.DataFrame({"a": [1, 2]}, index=[4, 4]), "the sample 4 occurs more than once in covariates"),
    ],
)
def test_covariates_that_do_not_fit_are_refused(fitted, covariates, message):
    with pytest.raises(DataError, match=message):
        render_report(fitted, covariates=covariates)


def test_top_features_are_columns_of_the_data(fitted, toy):
    views = toy[0]
    for name, values in top_features(fitted, views).items():
        view, feature = name.split(": feature ")
        np.testing.assert_array_equal(values, views.arrays[views.names.index(view)][:, int(feature)])
    with pytest.raises(DataError, match=r"views must be the training samples \(240\); got 100 samples"):
        top_features(fitted, views.take(np.arange(100)))


# --- exports and size -------------------------------------------------------------------------------


def test_numbers_are_those_of_the_sections(fitted, tmp_path):
    write_numbers(make_result(fitted, method="PCA"), tmp_path / "numbers.json")
    numbers = json.loads((tmp_path / "numbers.json").read_text(encoding="utf-8"))
    page = render_report(fitted, method="PCA")
    assert numbers == json.loads(re.search(r'id="numbers-data">(.*?)</script>', page)[1])
    assert numbers["correlation"]["matrix"] == fitted.correlation_.tolist()
    assert set(numbers) <= {section.name for section in SECTIONS}
    assert as_json({"a": np.float64("nan"), "b": (np.int64(1), np.inf)}) == {"a": None, "b": [1, None]}


def test_a_hundred_thousand_samples_fit_into_ten_megabytes(fitted):
    rows = np.resize(np.arange(240), 100_000)
    per_sample = {
        name: getattr(fitted, name)[rows] for name in ("labels_", "probabilities_", "view_weights_", "latent_")
    }
    names = pd.Index([f"a sample with a rather long name {i:06d}" for i in range(100_000)])
    large = changed(fitted, **per_sample, _agreement=fitted._agreement[rows], index_=names)
    covariates = {f"covariate {i}": np.arange(100_000.0) for i in range(10)}
    page = render_report(large, method="PCA", covariates=covariates)
    assert len(page.encode()) < 10 * 2**20
    assert len(sample_data(page)["columns"]["name"]) <= 3000
    text = words(page)
    assert "of 100,000 samples, drawn at random from every cluster" in text
    assert "labels.csv of the run has all of them" in text


def test_counts_and_lists_are_english():
    assert [count(1, "sample"), count(1234, "sample")] == ["1 sample", "1,234 samples"]
    assert [listed(["a"]), listed("ab"), listed("abc")] == ["a", "a and b", "a, b and c"]
    assert listed(range(12), most=2) == "0, 1 and 10 more"
