"""What the command line says, and the words it takes."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from acova.cli.arguments import share
from acova.cli.bench import percentage
from acova.cli.messages import as_options
from acova.cli.options import allowed_values, as_typed, canonical, method_options
from acova.data import inspect_data
from conftest import make_toy

FIT = ("--method", "Concat", "--clusters", 3, "--quiet")


def test_help_lists_the_everyday_commands_first(acova):
    _, out, _ = acova("--help")
    order = [out.index(f"│ {name} ") for name in ("inspect", "fit", "report", "predict", "options", "demo", "bench")]
    assert order == sorted(order)
    assert out.index("Everyday commands") < out.index("Settings and data sets") < out.index("Demonstration")


# --- options ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "settings"),
    [
        (["--consensus"], {"consensus": True}),
        (["--consensus", "--alpha", "3"], {"consensus": True, "alpha": 3}),
        (["--no-consensus", "--alpha=3"], {"consensus": False, "alpha": 3}),
        (["--consensus", "FALSE"], {"consensus": False}),
        (["--recipe", "Paper", "--standardize", "ZScore"], {"recipe": "paper", "standardize": "zscore"}),
        (["--correlation", "Identity", "--missing-form=MARGINAL"], {"correlation": "identity", "missing": "marginal"}),
    ],
)
def test_flags_need_no_value_and_capitals_do_not_matter(typed, settings):
    assert method_options("ACOVA", typed) == settings


def test_a_fit_takes_words_in_any_capitals(acova, tmp_path):
    views, _ = make_toy(missing=0.0)
    toy_file = tmp_path / "toy.npz"
    np.savez(toy_file, **dict(zip(views.names, views.arrays, strict=True)))
    words = ("--method", "concat", "--missing", "50%", "--pattern", "Per_View", "--holes", "REFUSE")
    code, _, err = acova("fit", toy_file, *words, "--clusters", 3, "--quiet", "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["fitted"]["provenance_"]
    assert (kept["pattern"], kept["holes"], kept["missing"]) == ("per_view", "refuse", 0.5)


def rows(out: str) -> dict[str, list[str]]:
    """Return the first line of each row of a table, by its first cell."""
    lines = [[cell.strip() for cell in line.strip("│ \n").split("│")] for line in out.splitlines() if "│" in line]
    return {cells[0]: cells[1:] for cells in lines if cells[0].startswith("--")}


def test_options_show_values_and_the_defaults_of_the_recipe(acova):
    _, out, _ = acova("options")
    shown = rows(out)
    assert "None" not in {cells[1] for cells in shown.values()}
    assert shown["--consensus"][:2] == ["true, false", "true"]
    assert shown["--recipe"][0] == "shared, robust, paper"
    assert shown["--missing-form"][0] == "precision, marginal"
    _, out, _ = acova("options", "--recipe", "PAPER")
    assert "(defaults of recipe paper)" in out
    assert rows(out)["--consensus"][1] == "false"
    assert rows(out)["--hidden"][1] == "500,500,2000"
    code, _, err = acova("options", "--recipe", "quick")
    assert (code, "--recipe must be 'shared', 'robust', 'paper'; got 'quick'" in err) == (2, True)
    code, _, err = acova("options", "--method", "MVP", "--recipe", "paper")
    assert (code, "--method MVP has no recipes" in err) == (2, True)


def test_values_are_written_as_they_are_typed():
    assert [as_typed(value) for value in (None, True, (64, 64), 0.5, "auto")] == [
        "none",
        "true",
        "64,64",
        "0.5",
        "auto",
    ]
    assert canonical("T-SNE", ["PCA", "t-SNE"]) == "t-SNE"
    assert canonical(3, ["a"]) == 3
    assert allowed_values('tuple of int, "auto" or None') == "auto, a,b,…"
    assert allowed_values("float") == "number"


# --- shares -----------------------------------------------------------------------------------------


def test_shares_and_percents_mean_the_same_everywhere():
    assert [share(text) for text in ("0.5", "50%", 0.25, "1", "100 %")] == [0.5, 0.5, 0.25, 1.0, 1.0]
    assert [percentage(text) for text in ("0.5", "50%", "50", "0", "1%", 10.0)] == [50.0, 50.0, 50.0, 0.0, 1.0, 10.0]


def test_what_is_no_share_is_refused(acova):
    code, _, err = acova("fit", "digits", "--clusters", 3, "--out", "r", "--missing", "half")
    assert (code, "percent such as 50%; got 'half'" in " ".join(err.replace("│", "").split())) == (2, True)


# --- messages ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keywords", "options"),
    [
        ("ACOVA: alpha must be a number; got 'big'.", "ACOVA: --alpha must be a number; got 'big'."),
        ("try n_init=10, consensus=True", "try --n-init 10, --consensus"),
        ("needs standardize=True (the default)", "needs --standardize (the default)"),
        ("lower n_clusters or bring more", "lower --clusters or bring more"),
        ('use standardize="unit_view".', "use --standardize unit_view."),
        ("replace it with overwrite=True", "replace it with --force"),
        ("View 'n_init' lacks column 'batch_size'.", "View 'n_init' lacks column 'batch_size'."),
        ("/tmp/latent_dim/run exists", "/tmp/latent_dim/run exists"),
        ("the alpha of a view", "the alpha of a view"),
        ("balance=False", "--balance false"),
        ("(in files, match_ids='loosely' joins names)", "(--match-ids loosely joins names)"),
        ("transpose it (frame.T; files: transpose)", "transpose it (--transpose VIEW)"),
        (
            "holes='refuse' does not allow; leave them out (holes='keep', --holes keep).",
            "--holes refuse does not allow; leave them out (--holes keep).",
        ),
    ],
)
def test_messages_speak_of_options(keywords, options):
    assert as_options(keywords) == options


def test_a_fit_says_what_comes_next_and_which_clusters_are_empty(acova, tmp_path, monkeypatch):
    array = np.repeat([[0.0, 0.0], [9.0, 9.0]], 20, axis=0)
    np.savez(tmp_path / "two.npz", a=array, b=array)
    code, out, _ = acova("fit", tmp_path / "two.npz", *FIT, "--out", tmp_path / "run")
    assert code == 0
    assert "1 of 3 clusters is empty: 2." in out
    lines = out.splitlines()
    after = lines[next(i for i, line in enumerate(lines) if line.endswith("Next:")) + 1 :]
    assert [line.split()[:2] for line in after] == [["acova", "report"], ["acova", "predict"], ["python", "-c"]]
    script = re.search(r"python -c '(.*)'", after[2])[1]
    exec(script, {})


def test_one_cluster_and_one_sample_are_explained(acova, toy_file, tmp_path, toy):
    code, _, err = acova("fit", toy_file, "--method", "Concat", "--clusters", 1, "--out", tmp_path / "run", "--quiet")
    assert code == 0
    assert "With --clusters 1 all samples are in one cluster; choose 2 or more to find groups." in err
    np.savez(tmp_path / "one.npz", **{name: a[:1] for name, a in zip(toy[0].names, toy[0].arrays, strict=True)})
    code, out, _ = acova("predict", tmp_path / "run", tmp_path / "one.npz", "--out", tmp_path / "new.csv")
    assert code == 0
    assert "Labels of 1 sample: " in out


def test_inspect_remarks_raw_counts():
    rng = np.random.default_rng(0)
    counts = pd.DataFrame(rng.negative_binomial(1, 0.01, size=(50, 8))).add_prefix("g")
    for frame, remarked in ((counts, True), (np.log1p(counts), False), (counts % 200, False), (counts - 5, False)):
        found = [one for one in inspect_data({"rna": frame, "other": frame + 0.5}).findings if one.kind == "counts"]
        assert [one.view for one in found] == ["rna"] * remarked
    assert "looks like raw counts (whole numbers up to" in found[0].text if found else True


# --- report -----------------------------------------------------------------------------------------


def test_two_runs_are_compared_and_numbers_are_written(acova, fitted, tmp_path):
    fitted.save(tmp_path / "run")
    fitted.save(tmp_path / "other")
    pd.DataFrame({"age": np.arange(240.0)}).to_csv(tmp_path / "ages.csv", index_label="sample")
    beside = ("--compare", tmp_path / "other", "--covariates", tmp_path / "ages.csv", "--numbers", tmp_path / "n.json")
    code, out, err = acova("report", tmp_path / "run", "--map", "pca", *beside)
    assert (code, err) == (0, "")
    assert f"Numbers: {tmp_path / 'n.json'}" in out
    found = json.loads((tmp_path / "n.json").read_text())["comparison"]
    assert (found["other"], found["moved"]) == (str(tmp_path / "other"), 0)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert '"name": "age"' in page


def test_features_of_the_data_colour_the_map(acova, fitted, toy_file, tmp_path):
    fitted.save(tmp_path / "run")
    assert acova("report", tmp_path / "run", "--map", "PCA", "--data", toy_file)[0] == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert re.search(r'"name": "(image|text|sound): feature \d+"', page)


# --- paper ------------------------------------------------------------------------------------------


def test_the_quick_table_runs_on_the_digits_where_the_data_are_missing(acova, tmp_path, monkeypatch):
    monkeypatch.setattr("acova.data.datasets.catalogue.find_file", lambda name: None)
    given = ("--runs", 1, "--methods", "Concat", "--missing", "50%", "--jobs", 1, "--quiet", "--out", tmp_path)
    code, out, err = acova("paper", "table1", "--quick", *given)
    assert code == 0
    assert "this run uses the embedded digits. Its numbers cannot be compared with published ones" in err
    assert "1 fit done." in err
    assert "digits, ACC" in out
    assert (tmp_path / "table1-digits-quick.md").is_file()


def test_predict_treats_empty_cells_as_the_fit_did(acova, toy, tmp_path):
    views, _ = toy
    frames = {
        name: pd.DataFrame(views.rows(v), np.flatnonzero(views.observed[:, v])) for v, name in enumerate(views.names)
    }
    frames["text"].iloc[3, 2] = np.nan
    data = tmp_path / "data"
    data.mkdir()
    for name, frame in frames.items():
        frame.add_prefix("f").to_csv(data / f"{name}.csv", index_label="id")
    assert acova("fit", data, *FIT, "--out", tmp_path / "run", "--holes", "hide")[0] == 0
    assert acova("predict", tmp_path / "run", data, "--out", tmp_path / "new.csv")[0] == 0
    labels = pd.read_csv(tmp_path / "run" / "labels.csv")["label"]
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "new.csv")["label"], labels)
    _, _, err = acova("predict", tmp_path / "run", data, "--out", tmp_path / "no.csv", "--holes", "REFUSE")
    assert "(1 such sample), which --holes refuse does not allow" in err
    frames["image"].assign(row=1.0).add_prefix("f").to_csv(data / "image.csv", index_label="id")
    _, _, err = acova("predict", tmp_path / "run", data, "--out", tmp_path / "no.csv")
    assert "must have the columns it was fitted with; unexpected ['frow']. Leave out what is unexpected" in err
    assert "(on the command line: --drop frow)" in err


# --- what was said is not said again ------------------------------------------------------------------


@pytest.mark.filterwarnings("default::acova.base.DataWarning")
def test_predict_and_report_read_as_the_fit_did_and_repeat_no_warning(acova, tmp_path):
    rng, group = np.random.default_rng(0), np.arange(60) % 3
    names = pd.Index([f"P{i:03d}" for i in range(60)], name="patient")
    study = tmp_path / "study"
    study.mkdir()
    rna = pd.DataFrame(5 * rng.normal(size=(3, 6))[group] + rng.normal(size=(60, 6)), names).add_prefix("gene")
    rna.assign(plate=np.arange(60) % 4).rename({"P007": "p007"}).to_csv(study / "rna.csv")
    clinic = pd.DataFrame({"age": 50.0 + 9 * group + rng.normal(size=60), "crp": rng.normal(size=60)}, names)
    clinic.iloc[:5, 1] = -999
    clinic.to_csv(study / "clinic.csv")
    code, _, err = acova("fit", study, "--out", tmp_path / "run", *FIT, "--drop", "rna:plate")
    assert code == 0
    assert err.count("differs from those of other views only in capitals") == 1
    assert err.count("column 'crp' has 5 cells that are -999") == 1
    code, _, err = acova("predict", tmp_path / "run", study, "--out", tmp_path / "new.csv")
    assert (code, err) == (0, "Read as in the fit: --drop rna:plate\n")
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")["label"]
    pd.testing.assert_series_equal(pd.read_csv(tmp_path / "new.csv", index_col="sample")["label"], labels)
    assert acova("report", tmp_path / "run", "--data", study)[::2] == (0, "")
