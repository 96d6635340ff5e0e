"""What every method's constructor promises: written out, documented, and at home in scikit-learn's searches."""

import inspect
import re
from types import FunctionType, MappingProxyType

import numpy as np
import pandas as pd
import pytest
from quick import EXAMPLE, PLACE, make_tiny, package, parameter_name, trains_a_network
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import acova
from acova import ACOVA, Training, Views
from acova.base import DataError, OptionError
from acova.data import stack_views
from acova.estimators import RECIPES, list_methods
from acova.estimators._settings import NESTED, setting_parameters
from acova.estimators.recipes import OTHERWISE
from acova.estimators.registry import HOMES, METHODS
from acova.estimators.rules import RULES, anything, rules_of
from conftest import make_toy

MOST_KEYWORDS = 20
"""Of `ACOVA`: what a user reads without having asked for expert settings."""
BY_VIEW = {"likelihood", "standardize"}
"""Settings that a fit tells of every view."""
NONE_SAYS_WHAT_IT_MEANS = {"checkpoint", "clip_norm", "patience", "random_state"}
"""Settings that are None after a fit for no folder, no longest gradient, no early stopping, no fixed seed."""
DECIDED = {name for recipe in RECIPES.values() for name in recipe} | {*OTHERWISE}
"""Settings that a recipe decides."""

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module", autouse=True)
def another_package(tmp_path_factory):
    """A package that registers the method of the examples."""
    with package(tmp_path_factory.mktemp("package"), **{EXAMPLE: PLACE}):
        yield


@pytest.fixture(scope="module", params=[*list_methods(), EXAMPLE])
def name(request):
    return request.param


@pytest.fixture(scope="module", params=[*list_methods(), EXAMPLE, "Training"])
def public_class(request):
    return Training if request.param == "Training" else METHODS[request.param]


@pytest.fixture(scope="module")
def complete():
    return make_toy(n_samples=60, missing=0.0)[0]


def own_keywords(cls):
    return list(inspect.signature(cls).parameters)


# --- written out --------------------------------------------------------------------------------


def test_the_signature_is_that_of_the_code(public_class):
    init = vars(public_class)["__init__"]
    assert isinstance(init, FunctionType)
    assert not hasattr(init, "__wrapped__")
    assert not hasattr(init, "__signature__")
    assert not hasattr(public_class, "__signature__")
    code = init.__code__
    assert not code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    assert code.co_filename == inspect.getsourcefile(public_class)
    written = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
    assert own_keywords(public_class) == list(written) == [*inspect.signature(init).parameters][1:]
    assert set(public_class().get_params(deep=False)) == set(written)


def test_keywords_but_the_number_of_clusters_are_given_by_name(public_class):
    kinds = {name: parameter.kind for name, parameter in inspect.signature(public_class).parameters.items()}
    by_place = [name for name, kind in kinds.items() if kind != inspect.Parameter.KEYWORD_ONLY]
    assert by_place == ([] if public_class is Training else ["n_clusters"])


def test_a_constructor_keeps_what_it_is_given(public_class):
    things = {keyword: object() for keyword in own_keywords(public_class)}
    made = public_class(**things)
    assert {keyword: getattr(made, keyword) for keyword in things} == things
    assert vars(made) == things


def test_unknown_keywords_are_refused(name):
    with pytest.raises(TypeError, match="unexpected keyword argument 'n_cluster'"):
        METHODS[name](n_cluster=3)
    with pytest.raises(
        TypeError, match=rf"{name}\(\) got an unexpected setting 'n_cluster'. Did you mean 'n_clusters'"
    ):
        METHODS[name].from_settings(n_cluster=3)


def test_acova_has_few_keywords():
    assert len(own_keywords(ACOVA)) <= MOST_KEYWORDS
    assert not {*own_keywords(ACOVA)} & {*own_keywords(Training)}


def test_expert_settings_are_those_of_training_or_keywords(name):
    cls = METHODS[name]
    names, own = cls.setting_names(), own_keywords(cls)
    assert len(set(names)) == len(names)
    assert NESTED not in names
    if NESTED in own:
        assert {*names} - {*own} == {*own_keywords(Training)} - {*cls._without}
        assert {*cls._without} <= {*own_keywords(Training)}
    else:
        assert names == own


def test_every_setting_has_a_rule(name):
    cls = METHODS[name]
    assert set(rules_of(cls, cls.setting_names())) == set(cls.setting_names())


def test_a_setting_without_a_rule_is_found_when_the_class_is_defined():
    with pytest.raises(TypeError, match="Ruleless: 'depth' has no rule; every setting needs one"):

        class Ruleless(acova.Concat):
            def __init__(self, n_clusters=8, *, depth=3):
                self.n_clusters, self.depth = n_clusters, depth

    with pytest.raises(TypeError, match="Idle: _rules names 'n_init', which is no setting"):

        class Idle(acova.Concat):
            _rules = MappingProxyType({"n_init": anything})

            def __init__(self, n_clusters=8, *, random_state=None):
                self.n_clusters, self.random_state = n_clusters, random_state


def test_no_rule_is_idle():
    """Each of the common rules is for a setting that some method has, but for those of methods to come."""
    used = {setting for name in HOMES for setting in METHODS[name].setting_names()}
    assert set(RULES) <= used


# --- documented ---------------------------------------------------------------------------------


def documented(cls):
    """Return the names in the section of parameters of a class's docstring, in order."""
    text = inspect.getdoc(cls)
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-{3,}$|\Z)", text, re.MULTILINE | re.DOTALL)[1]
    entries = re.findall(r"^(\w[\w, ]*) : .", section, re.MULTILINE)
    return [name.strip() for entry in entries for name in entry.split(",")]


def test_every_parameter_is_documented_in_the_order_of_the_signature(public_class):
    assert documented(public_class) == own_keywords(public_class)


def test_is_public(name):
    if name in HOMES:
        assert getattr(acova, name) is METHODS[name] is getattr(acova.estimators, name)
        assert name in acova.__all__
        assert name in acova.estimators.__all__
        return
    assert METHODS[name].__name__ == name


def test_training_is_public():
    assert acova.Training is acova.estimators.Training is Training
    assert "Training" in acova.__all__
    assert "Training" in acova.estimators.__all__


# --- in scikit-learn's searches -----------------------------------------------------------------


def first_number(name):
    """Return a setting that is a positive number, and another value: the learning rate where there is one."""
    parameters = setting_parameters(METHODS[name])
    return ("learning_rate", 0.5) if "learning_rate" in parameters else ("n_clusters", 2)


def test_settings_are_set_by_name_and_cloned(name):
    model, (setting, value) = METHODS[name](), first_number(name)
    assert model.set_params(**{parameter_name(name, setting): value}) is model
    assert model.get_settings()[setting] == value
    copy = clone(model)
    assert copy.get_settings() == model.get_settings()
    assert repr(copy) == repr(model)
    copy.set_params(**{parameter_name(name, setting): 2 * value})
    assert model.get_settings()[setting] == value
    assert METHODS[name].from_settings(**model.get_settings()).get_settings() == model.get_settings()


def test_defaults_are_untouched_by_what_one_estimator_is_set_to(name):
    model, (setting, value) = METHODS[name](), first_number(name)
    before = METHODS[name]().get_settings()
    model.set_params(**{parameter_name(name, setting): value})
    assert METHODS[name]().get_settings() == before


def test_unknown_parameters_cannot_be_set(name):
    for parameter in ("depth", "training__depth"):
        with pytest.raises((ValueError, AttributeError), match=r"Invalid parameter '(depth|training)'"):
            METHODS[name]().set_params(**{parameter: 1})


def test_a_search_tries_the_values_of_a_setting(name, complete):
    if not trains_a_network(name):
        pytest.skip("has no score")
    table, sizes = stack_views(complete)
    parameter, base = parameter_name(name, "learning_rate"), make_tiny(name, view_sizes=sizes)
    search = GridSearchCV(base, {parameter: [1e-3, 3e-3]}, cv=2, error_score="raise").fit(table)
    best = search.best_estimator_
    assert best.get_settings()["learning_rate"] == search.best_params_[parameter] in (1e-3, 3e-3)
    assert best.settings_["learning_rate"] == search.best_params_[parameter]
    assert base.get_settings() == make_tiny(name, view_sizes=sizes).get_settings()
    scores = search.cv_results_["mean_test_score"]
    assert np.isfinite(scores).all()
    assert scores[0] != scores[1]
    assert search.predict(table).shape == (60,)


# --- what a fit makes of them -------------------------------------------------------------------


def undecided(value):
    """Tell whether a setting, or that of one of the views, still says "auto" or nothing."""
    parts = value.values() if isinstance(value, dict) else [value]
    return any(part is None or (isinstance(part, str) and part == "auto") for part in parts)


@pytest.fixture(scope="module")
def kinds_of_views():
    """Views that "auto" tells apart: pixels, numbers and words; a third of the samples lacks each of the last two."""
    rng = np.random.default_rng(0)
    group = np.arange(60)[:, None] % 3
    views = {
        "pixels": np.clip(rng.normal(group / 2, 0.3, size=(60, 5)), 0, 1).round(2),
        "numbers": rng.normal(9 * group, [1, 50, 2, 8], size=(60, 4)),
        "words": rng.poisson(np.where(np.arange(30) // 10 == group, 0.5, 0.01)).astype(float),
    }
    observed = np.ones((60, 3), dtype=bool)
    observed[::3, 1] = observed[1::3, 2] = False
    return Views.of(views, observed)


def test_settings_after_a_fit_are_what_was_computed_with(name, kinds_of_views, tmp_path):
    model = make_tiny(name).fit(kinds_of_views)
    given, settings = model.get_settings(), model.settings_
    assert list(settings) == METHODS[name].setting_names()
    assert {setting for setting, value in settings.items() if undecided(value)} <= NONE_SAYS_WHAT_IT_MEANS
    assert settings["view_sizes"] == (5, 4, 30)
    for setting in BY_VIEW & {*settings}:
        assert list(settings[setting]) == ["pixels", "numbers", "words"]
    for setting in {*settings} - BY_VIEW:
        if not undecided(given[setting]):
            assert settings[setting] == given[setting], setting
    again = METHODS[name].from_settings(**settings).fit(kinds_of_views)
    assert again.settings_ == settings
    assert repr(again.settings_) == repr(settings)
    for result in ("labels_", "probabilities_", "latent_", "labels_by_view_"):
        if hasattr(model, result):
            np.testing.assert_array_equal(getattr(again, result), getattr(model, result))
    model.save(tmp_path / "run")
    loaded = METHODS[name].load(tmp_path / "run", device="cpu")
    assert repr(loaded.settings_) == repr(settings)


def test_views_get_the_likelihood_and_the_scaling_that_auto_stands_for(kinds_of_views):
    model = make_tiny("ACOVA").fit(kinds_of_views)
    assert model.settings_["likelihood"] == {"pixels": "bernoulli", "numbers": "gaussian", "words": "gaussian"}
    assert model.settings_["standardize"] == {"pixels": "none", "numbers": "robust", "words": "cosine"}
    model = make_tiny("AgreementGraph", standardize=("auto", True, False)).fit(kinds_of_views)
    assert model.settings_["standardize"] == {"pixels": "range", "numbers": "zscore", "words": "none"}
    assert model.settings_["n_neighbors"] == {"pixels": 10, "numbers": 6, "words": 6}
    alone = make_tiny("AgreementGraph", n_neighbors=[10, 6, 6], standardize=["range", "zscore", "none"])
    np.testing.assert_array_equal(alone.fit(kinds_of_views).probabilities_, model.probabilities_)


def test_settings_by_view_are_checked(kinds_of_views):
    with pytest.raises(OptionError, match=r"Concat: standardize must have one entry per view \(3\); got 2\."):
        make_tiny("Concat", standardize=(True, False)).fit(kinds_of_views)
    with pytest.raises(OptionError, match=r"ACOVA: standardize must name every view once .*'words'"):
        make_tiny("ACOVA", standardize={"pixels": True}).fit(kinds_of_views)
    with pytest.raises(OptionError, match=r"MVP: standardize must be .*True or False; got 'rnage'"):
        make_tiny("MVP", standardize=["rnage", True, True]).fit(kinds_of_views)
    with pytest.raises(OptionError, match=r"AgreementGraph: n_neighbors must be .*; got 0"):
        make_tiny("AgreementGraph", n_neighbors=[0, 5, 5]).fit(kinds_of_views)
    partly = make_tiny("ACOVA", likelihood="bernoulli", standardize=("unit", "zscore", "unit_view"))
    with pytest.raises(DataError, match=r"ACOVA: .*'numbers'.*needs values in"):
        partly.fit(kinds_of_views)


def test_one_table_with_categories_is_fitted_alike_with_resolved_settings():
    frame = pd.DataFrame({"size": np.arange(40.0) % 7, "kind": ["a", "b"] * 20, "tone": ["x", "y", "z", "y"] * 10})
    for views, sizes in ((frame, (3,)), ({"one": frame, "two": frame[["size"]]}, (3, 1))):
        model = make_tiny("Concat").fit(views)
        assert model.settings_["view_sizes"] == sizes
        again = acova.Concat.from_settings(**model.settings_).fit(views)
        np.testing.assert_array_equal(again.labels_, model.labels_)


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_fit_tells_what_each_recipe_chose(recipe, complete):
    quick = {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 0, "random_state": 0}
    model = ACOVA.from_settings(3, recipe=recipe, **quick).fit(complete)
    settings = model.settings_
    assert not [setting for setting in DECIDED if settings[setting] is None]
    for setting in ("hidden", "n_init", "neighbor_weight", "temperature"):
        assert not isinstance(settings[setting], str), setting
    assert {setting for setting, value in settings.items() if undecided(value)} <= NONE_SAYS_WHAT_IT_MEANS
    by_view = {"standardize": "zscore" if recipe == "paper" else "robust", "likelihood": "gaussian"}
    assert {o: settings[o] for o in by_view} == {o: dict.fromkeys(model.view_names_, by_view[o]) for o in by_view}
    suited = {"hidden", "n_init", "neighbor_weight", "learning_rate", "temperature", *by_view, *quick}
    expected = {o: value for o, value in {**OTHERWISE, **RECIPES[recipe]}.items() if o not in suited}
    assert {o: settings[o] for o in expected} == expected
    few = {"hidden": (64, 64, 256), "neighbor_weight": 0.5, "learning_rate": 1e-3}  # for few samples
    by_recipe = {
        "paper": {**RECIPES["paper"], "n_init": 1},
        "robust": {**few, "n_init": 1},
        "shared": {**few, "n_init": 5},
    }[recipe]
    assert {o: settings[o] for o in ("n_init", *few)} == {o: by_recipe[o] for o in ("n_init", *few)}


def test_settings_that_a_recipe_does_not_know_are_refused(complete):
    with pytest.raises(OptionError, match=r"ACOVA: recipe must be .*; got 'best'"):
        ACOVA(3, recipe="best").fit(complete)
