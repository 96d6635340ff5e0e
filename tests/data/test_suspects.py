"""Values that a fit warns of, and warnings that are given once."""

import warnings

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA, AgreementGraph, Concat, Views
from acova.base import DataWarning
from acova.data import StoredViews
from acova.data.suspects import suspects
from conftest import SMALL

KINDS = ("robust", "robust")


def tables(n: int = 60) -> dict[str, pd.DataFrame]:
    """Return two clean tables of three groups."""
    rng, group = np.random.default_rng(0), np.arange(n) % 3
    names = [f"P{i:03d}" for i in range(n)]
    return {
        name: pd.DataFrame(4 * rng.normal(size=(3, width))[group] + rng.normal(size=(n, width)), names).add_prefix(name)
        for name, width in (("rna", 8), ("clinic", 6))
    }


def with_marker(marker: float = -999, cells: int = 4) -> dict[str, pd.DataFrame]:
    found = tables()
    found["clinic"].iloc[:cells, 2] = marker
    return found


def counts(n: int = 60) -> dict[str, pd.DataFrame]:
    found = tables(n)
    found["rna"] = pd.DataFrame(np.random.default_rng(1).poisson(np.exp(found["rna"] / 2 + 3)), found["rna"].index)
    return found


def messages(caught) -> list[str]:
    return [str(one.message) for one in caught if issubclass(one.category, DataWarning)]


def of(data, kinds=KINDS) -> list[tuple[str, str, str]]:
    return [(one.kind, one.view, one.column) for one in suspects(Views.of(data), kinds)]


def test_clean_data_are_not_suspicious():
    assert of(tables()) == []


@pytest.mark.parametrize("marker", [-999, 9999, -99])
def test_numbers_for_not_known_are_found(marker):
    assert of(with_marker(marker)) == [("marker", "clinic", "clinic2")]


@pytest.mark.parametrize("change", ["one cell", "within the values", "no name"])
def test_what_may_be_measured_is_no_marker(change):
    found = with_marker(cells=1) if change == "one cell" else with_marker()
    if change == "within the values":
        found["clinic"]["clinic2"] = np.linspace(-999, 999, 60).round()
    if change == "no name":
        found["clinic"].iloc[:4, 2] = -998.0
    assert of(found) == []


def test_raw_counts_are_found_unless_they_are_scaled_as_such():
    assert of(counts()) == [("counts", "rna", "")]
    for kind in ("counts", "cosine", "range"):
        assert of(counts(), (kind, "robust")) == []
    few = counts()
    few["rna"] = few["rna"].clip(upper=200)  # as in images
    assert of(few) == []


@pytest.mark.parametrize("method", [ACOVA, AgreementGraph, Concat])
def test_a_fit_warns_once_of_each_kind(method):
    model = method.from_settings(3, **SMALL) if method is ACOVA else method(3, random_state=0)
    data = counts() | {"clinic": with_marker()["clinic"]}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(data)
        fitted = messages(caught)
        model.predict(data)
    assert messages(caught) == fitted
    assert [text for text in fitted if "4 cells that are -999: if that means 'not known'" in text]
    assert [text for text in fitted if "View 'rna': looks like raw counts" in text and "standardize='counts'" in text]
    assert len(fitted) == 2


def test_a_likelihood_of_counts_needs_no_warning():
    model = ACOVA.from_settings(3, **SMALL, likelihood={"rna": "negative_binomial", "clinic": "gaussian"})
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        model.fit(counts())


def test_of_views_on_disk_the_first_rows_are_looked_at(tmp_path):
    for name, table in with_marker().items():
        np.save(tmp_path / f"{name}.npy", np.ascontiguousarray(table))
    found = list(suspects(StoredViews.of(tmp_path), KINDS))
    assert [(one.kind, one.view, one.column) for one in found] == [("marker", "clinic", "2")]


def test_names_are_warned_of_by_the_fit_and_not_again_for_its_samples():
    data = tables()
    data["clinic"] = data["clinic"].rename(index={"P007": "p007"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = Concat(3, random_state=0).fit(data)
        assert "1 name differs" in messages(caught)[0]
        model.predict(data)
        model.predict({name: table.iloc[:20] for name, table in data.items()})
        assert len(messages(caught)) == 1
        model.predict(
            {name: table.rename(index={"P005": "new", "P007": "P7", "p007": "p7"}) for name, table in data.items()}
        )
    assert len(messages(caught)) == 2
    assert "'p7' here" in messages(caught)[1] or "'P7' here" in messages(caught)[1]
