"""A fit that cannot follow who lacks what: on sites that measure differently, and on views that tell other groups."""

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA, AgreementGraph, Views
from acova.base import DataError, OptionError
from acova.data import make_views
from acova.estimators._checks import WHOLE_PATTERN
from acova.metrics import clustering_accuracy
from conftest import SMALL


def effect(model):
    return model.missingness_check(n_permutations=1).loc[WHOLE_PATTERN, "effect"]


def two_sites():
    """Return views and groups; one site lacks a view and measures the other off."""
    made = make_views(200, 3, {name: {"n_features": 12, "separation": 1.0} for name in "ab"}, random_state=0)
    rng = np.random.default_rng(0)
    there, first = rng.random(200) < 0.3, made.views.arrays[0].copy()
    first[there] += 2 * first.std(axis=0) * rng.choice([-1, 1], size=12)
    second = np.where(there[:, None], np.nan, made.views.arrays[1])
    return Views.of({"a": first, "b": second}), made.labels


def other_groups():
    """Return views of which each tells a partition of its own, and 40 % of the samples lack one."""
    specs = {name: {"n_features": 40, "n_informative": 20, "separation": 0.6} for name in "ab"}
    specs["b"]["partition"] = "other"
    made = make_views(400, 4, specs, random_state=0)
    rng = np.random.default_rng(0)
    lacks, first = rng.random((2, 400)) < [[0.4], [0.5]]
    return made.views.hide(~np.column_stack([lacks & first, lacks & ~first]))


def test_what_a_site_measures_differently_is_taken_off_with_the_lack_of_its_view():
    views, labels = two_sites()
    model = ACOVA.from_settings(3, **SMALL).fit(views)
    assert effect(model) > 0.8
    again = model.refit_without_missingness(views, how="covariates")
    assert effect(again) < 0.2
    assert clustering_accuracy(labels, again.labels_) > clustering_accuracy(labels, model.labels_) + 0.1
    by_hand = views.with_covariates(pd.DataFrame({"lacks b": ~views.observed[:, 1]}, index=views.index).astype(float))
    assert np.array_equal(ACOVA.from_settings(3, **SMALL).fit(by_hand).labels_, again.labels_)


def test_covariates_that_were_known_stay():
    views, _ = two_sites()
    sex = pd.DataFrame({"sex": np.where(np.arange(200) % 2, "m", "f")})
    model = ACOVA.from_settings(3, **SMALL).fit(views, covariates=sex)
    again = model.refit_without_missingness(views.with_covariates(sex), how="covariates")
    assert set(again._scaling.covariates.levels) == {"sex"}
    assert set(again._scaling.covariates.moments) == {"lacks b"}


def test_samples_whose_lack_decides_are_left_out():
    views = other_groups()
    model = AgreementGraph(4, random_state=0).fit(views)
    table = model.missingness_check().drop(WHOLE_PATTERN)
    named = (table["effect"] >= 0.2) & (table["p_value"] <= 0.01) & (table["by_hiding"] >= 0.5)
    assert named.any()
    again = model.refit_without_missingness(views)
    assert again.index_.tolist() == np.flatnonzero(views.observed[:, named].all(axis=1)).tolist()
    alone = AgreementGraph(4, random_state=0).fit(views.take(again.index_))
    assert np.array_equal(again.labels_, alone.labels_)


def test_what_cannot_be_done_is_said():
    views, _ = two_sites()
    model = AgreementGraph(3, random_state=0).fit(views)
    with pytest.raises(DataError, match="mirror the lack of no view, so there are no samples to leave out"):
        model.refit_without_missingness(views)
    with pytest.raises(OptionError, match="how must be 'samples', 'covariates'; got 'hiding'"):
        model.refit_without_missingness(views, how="hiding")
    with pytest.raises(OptionError, match="this method takes no covariates"):
        model.refit_without_missingness(views, how="covariates")
    whole = Views.of({"a": views.arrays[0], "b": np.nan_to_num(views.arrays[1])})
    with pytest.raises(DataError, match="no sample lacks a view, so nothing can follow it"):
        AgreementGraph(3, random_state=0).fit(whole).refit_without_missingness(whole, how="covariates")
