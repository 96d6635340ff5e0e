import tomllib

import pytest

from acova.base import FileError, OptionError
from acova.bench import BenchSpec, DataSpec, MethodSpec, paper_names, paper_spec
from acova.bench.methods import setting_names
from acova.cli.bench import seconds_of, settings_of, spread
from acova.estimators import ACOVA, RECIPES
from acova.estimators.recipes import recipe_values
from acova.estimators.registry import METHODS


def spec(**changes):
    held = {"name": "mine", "data": ["digits"], "methods": ["Concat"], "missing": [50], "runs": 2}
    return BenchSpec.from_dict({**held, **changes})


@pytest.mark.parametrize("name", paper_names())
def test_the_papers_experiments_survive_a_round_trip_through_toml(name):
    made = paper_spec(name)
    again = BenchSpec.from_dict(tomllib.loads(made.to_toml()))
    assert again == made
    assert [fit.key for fit in again.fits()] == [fit.key for fit in made.fits()]
    assert 0 < len(made.quickly().fits()) <= len(made.fits())


def test_none_tuples_and_sweeps_come_through():
    method = {
        "name": "A",
        "use": "ACOVA",
        "settings": {"clip_norm": "none", "hidden": [8, 8]},
        "sweep": {"alpha": [1, 5]},
    }
    made = spec(methods=[method])
    assert [m.name for m in made.methods] == ["A, alpha=1", "A, alpha=5"]
    assert made.methods[1].settings == {"clip_norm": None, "hidden": (8, 8), "alpha": 5}
    assert {m.family for m in made.methods} == {"A"}
    assert BenchSpec.from_dict(tomllib.loads(made.to_toml())) == made


def test_the_papers_methods_are_classes_of_the_library_or_named_places():
    for name in paper_names():
        for method in paper_spec(name).methods:
            assert method.use in METHODS or ":" in method.use, (name, method.use)
            known = setting_names(method)
            assert ":" in method.use or not known or set(method.settings) <= set(known), (name, method.name)


def test_jobs_are_the_product_and_runs_are_seeds():
    fits = spec(missing=[10, 30], methods=["Concat", "BSV"], runs=3).fits()
    assert len(fits) == len({fit.key for fit in fits}) == 2 * 2 * 3
    assert [fit.run for fit in fits[:3]] == [0, 1, 2]


def test_a_key_names_what_decides_the_result_and_nothing_else():
    plain = spec().fits()[0].key
    assert spec(methods=[{"name": "other name", "use": "Concat"}], title="t", record=["history"]).fits()[0].key == plain
    for change in (
        {"methods": [{"name": "Concat", "settings": {"balance": True}}]},
        {"missing": [51]},
        {"pattern": "block"},
        {"data": [{"name": "digits", "views": ["pixels", "fourier"]}]},
        {"alone": True},
    ):
        assert spec(**change).fits()[0].key != plain
    # The preset of a data set counts as if it were written out.
    written = {"name": "ACOVA", "preset": False, "settings": dict(ACOVA.presets["cub"])}
    by_preset, by_hand = (spec(data=["cub"], methods=[m]).fits()[0].key for m in ("ACOVA", written))
    assert by_preset == by_hand
    # So do settings for one data set alone, on that one.
    alone = {"name": "Concat", "on": {"digits": {"balance": True}, "cub": {"standardize": False}}}
    whole = {"name": "Concat", "settings": {"balance": True}}
    assert spec(methods=[alone]).fits()[0].key == spec(methods=[whole]).fits()[0].key


def test_a_key_names_what_a_recipe_stands_for(monkeypatch):
    """Rows of an earlier recipe are not taken for rows of this one; keywords that are given do not depend on it."""
    given = {"name": "ACOVA", "settings": {"learning_rate": 0.5}}
    before = [spec(methods=[method]).fits()[0].key for method in ("ACOVA", given, "DCP")]
    monkeypatch.setitem(RECIPES["shared"], "learning_rate", 0.25)
    after = [spec(methods=[method]).fits()[0].key for method in ("ACOVA", given, "DCP")]
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    monkeypatch.setitem(RECIPES["shared"], "assignment", 0.0)  # an ingredient left out is as if there were none
    assert "assignment" not in recipe_values(ACOVA, {})
    assert recipe_values(ACOVA, {"recipe": "paper", "epochs": 3}) == {
        name: value for name, value in RECIPES["paper"].items() if value and name != "epochs"
    }


def test_every_ingredient_of_the_default_training_is_exchanged_alone():
    whole, paper = RECIPES["robust"], RECIPES["paper"]
    exchanged = [dict(method.settings) for method in paper_spec("ingredients").methods]
    assert all(settings.pop("recipe") == "robust" for settings in exchanged)
    tried = {(name, value) for settings in exchanged for name, value in settings.items()}
    assert {(name, value) for name, value in paper.items() if value != whole[name]} <= tried
    together = [settings for settings in exchanged if len(settings) > 1]
    assert [set(settings) for settings in together] == [{"pretrain_epochs", "epochs"}]
    same = {(name, value) for name, value in tried if value == whole[name]}
    assert same == {("learning_rate", 0.002)}  # few samples have half of it


def test_a_part_of_a_benchmark():
    whole = paper_spec("table1")
    part = whole.limited_to(methods=["dvimc", "mine:Own"], data=["cub"], missing=[10], runs=1, settings={"epochs": 1})
    assert part.methods[0] == MethodSpec("DVIMC", published="DVIMC", settings={"epochs": 1})
    assert part.methods[1] == MethodSpec("mine:Own", settings={"epochs": 1})
    assert (part.data, part.missing, part.runs) == ((DataSpec("cub"),), (10,), 1)
    assert len(paper_spec("alpha").limited_to(methods=["ACOVA"]).methods) == 8  # a family is all its members
    quick = whole.quickly()
    assert quick.name == "table1-quick"
    assert "epochs" not in {m.name: m for m in quick.methods}["Concat"].settings  # it has none


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"mising": [1]}, r"unknown entry 'mising'.*Did you mean 'missing'"),
        ({"missing": [120]}, "missing must be a number at least 0 and at most 100; got 120"),
        ({"pattern": "uniform_sise"}, "pattern must be 'uniform_size'.*Did you mean 'uniform_size'"),
        ({"runs": 0}, "runs must be an integer at least 1 and at most 10000; got 0"),
        ({"data": []}, "data is empty; name at least one"),
        ({"data": "digits"}, "data: must be a list; got a text"),
        ({"methods": ["BSV", "BSV"]}, "methods must have different names"),
        ({"methods": [{"name": "BSV", "label": "oracle"}]}, r"'BSV': unknown entry 'label'.*Did you mean 'labels'"),
        (
            {"methods": [{"name": "X", "scale": "z"}]},
            "method 'X': scale must be 'none', 'zscore', 'balanced', 'auto'; got 'z'",
        ),
        (
            {"data": [{"name": "a", "seed": "seed"}]},
            "seed is for data of a function, module:function; 'a' is none",
        ),
        (
            {"data": [{"name": "a", "source": "b:c", "seed": "s", "options": {"s": "x"}}]},
            "'a': options.s must be an integer at least 0; got 'x'",
        ),
        (
            {"data": [{"name": "a", "missing": [101]}]},
            "'a': missing must be a number at least 0 and at most 100",
        ),
        ({"data": [{"name": "a", "missing": [1, 1]}]}, "'a': missing must have different entries"),
        ({"reference": "Concate"}, r"reference must be 'Concat'.*Did you mean 'Concat'"),
        ({"record": ["histories"]}, "record must be.*Did you mean 'history'"),
    ],
)
def test_mistakes_are_named(change, text):
    with pytest.raises(OptionError, match=text):
        spec(**change)


def test_files_that_are_no_specs(tmp_path):
    with pytest.raises(FileError, match=r"There is no file .*acova paper table1 --spec"):
        BenchSpec.from_toml(tmp_path / "no.toml")
    (tmp_path / "bad.toml").write_text("data = [")
    with pytest.raises(FileError, match=r"bad\.toml is not the TOML file it should be"):
        BenchSpec.from_toml(tmp_path / "bad.toml")
    with pytest.raises(OptionError, match=r"experiment must be .*Did you mean 'table1'"):
        paper_spec("tabel1")


def test_words_of_the_command_line():
    given = ["table1", "--methods", "A", "B", "--runs", "5", "--missing", "10", "30", "--quick"]
    expected = "table1 --methods A --methods B --runs 5 --missing 10 --missing 30 --quick"
    assert spread(given) == expected.split()
    assert [seconds_of("--budget", text) for text in ("90", "90s", "20m", "1.5h", None)] == [90, 90, 1200, 5400, None]
    with pytest.raises(OptionError, match="--budget must be a time such as 90s, 20m or 2h; got 'soon'"):
        seconds_of("--budget", "soon")
    assert settings_of(["epochs=5", "hidden=(8,)", "standardize=range", "balance=false"]) == {
        "epochs": 5,
        "hidden": (8,),
        "standardize": "range",
        "balance": False,
    }
    with pytest.raises(OptionError, match=r"--set takes NAME=VALUE.*got 'epochs'"):
        settings_of(["epochs"])
