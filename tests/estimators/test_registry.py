"""Methods by their names, those of other packages too."""

import subprocess
import sys

import numpy as np
import pytest
from quick import PLACE, make_tiny, package

from acova import ACOVA
from acova.base import OptionError, RunFolderError
from acova.estimators import list_methods, load_method, make_method
from acova.estimators.registry import HOMES, METHODS, method_class
from conftest import make_toy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_every_method_is_at_home_under_its_name():
    assert list_methods() == list(METHODS)
    assert list_methods()[: len(HOMES)] == list(HOMES)  # those of packages that are installed follow
    assert len(METHODS) == len(list_methods())
    for name, home in HOMES.items():
        assert METHODS[name].__name__ == name
        assert METHODS[name].__module__ == home
        assert method_class(name.swapcase()) is METHODS[name]
    assert "Medians" not in METHODS
    with pytest.raises(KeyError):
        METHODS["Medians"]


def test_names_are_listed_without_an_import_of_torch():
    told = "import sys; from acova.estimators import list_methods; list_methods(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", told], check=False).returncode == 0


def test_a_method_of_another_package_is_one_of_all(tmp_path):
    views = make_toy(n_samples=60)[0]
    with package(tmp_path / "package", AgreeingCodes=PLACE):
        assert "AgreeingCodes" in list_methods()
        model = make_method("agreeingcodes", n_clusters=3, epochs=2, random_state=0).fit(views)
        model.save(tmp_path / "run")
        np.testing.assert_array_equal(load_method(tmp_path / "run").predict(views), model.labels_)
        with pytest.raises(OptionError, match=r"method must be one of ACOVA, .*AgreeingCodes; got 'agreeingcode'"):
            make_method("agreeingcode")
    assert "AgreeingCodes" not in list_methods()
    with pytest.raises(RunFolderError, match="class 'AgreeingCodes', which is no method of this version"):
        load_method(tmp_path / "run")


def test_a_class_may_be_registered_under_another_name(tmp_path):
    views = make_toy(n_samples=60)[0]
    with package(tmp_path / "package", Averages=PLACE):
        model = make_tiny("Averages").fit(views)
        model.save(tmp_path / "run")
        assert type(load_method(tmp_path / "run")) is METHODS["Averages"]


def test_a_package_cannot_take_the_name_of_a_method_of_the_library(tmp_path):
    with package(tmp_path, ACOVA=PLACE):
        assert list_methods().count("ACOVA") == 1
        assert METHODS["ACOVA"] is ACOVA


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (
            "no_such_module:Thing",
            "'Broken', registered as 'no_such_module:Thing', cannot be imported .*Update its pack",
        ),
        ("add_a_method:Nothing", "'Broken', registered as 'add_a_method:Nothing', cannot be imported"),
        ("add_a_method:AgreeingNetwork", "'Broken', .* must be a subclass of MultiViewClusterer; got <class"),
    ],
)
def test_a_broken_package_is_named_and_hinders_no_other_method(tmp_path, place, text):
    with package(tmp_path, Broken=place):
        assert "Broken" in list_methods()
        assert make_method("concat", n_clusters=3).n_clusters == 3
        with pytest.raises(OptionError, match=text):
            make_method("Broken")
