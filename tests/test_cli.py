import json
import os
import subprocess
import sys
import warnings

import numpy as np
import openpyxl
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from acova import ACOVA, Concat
from acova.cli import main
from acova.cli.arguments import method_names
from acova.estimators import list_methods, load_method
from acova.metrics import clustering_accuracy
from conftest import make_toy

SMALL = [
    *("--hidden", 32, "--latent-dim", 4, "--pretrain-epochs", 5, "--warmup-epochs", 10, "--epochs", 10),
    *("--batch-size", 32, "--learning-rate", 3e-3, "--quiet"),
]


pytestmark = pytest.mark.filterwarnings("ignore:.*blanks are part of a name:acova.base.errors.DataWarning")


@pytest.fixture
def acova(monkeypatch, capsys):
    """Run the command in this process; return exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["acova", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def folder(tmp_path):
    """A folder of csv files, one per view, with only the samples that have it, plus known classes."""
    views, labels = make_toy()
    path = tmp_path / "data"
    path.mkdir()
    names = np.array([f"s{i:03d}" for i in range(len(views))])
    for v, name in enumerate(views.names):
        seen = views.observed[:, v]
        frame = pd.DataFrame(views.arrays[v][seen], index=names[seen]).add_prefix("f").sample(frac=1, random_state=v)
        frame.to_csv(path / f"{name}.csv", index_label="id")
    pd.DataFrame({"class": labels}, index=names).to_csv(path / "labels.csv", index_label="id")
    return path


def test_fit_then_predict_on_a_folder_of_tables(acova, folder, tmp_path):
    code, out, err = acova("fit", folder, "--clusters", 3, "--out", tmp_path / "run", *SMALL)
    assert (code, err) == (0, "")
    assert "Agreement with the known classes" in out
    assert "Learned correlation" in out
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")
    truth = pd.read_csv(folder / "labels.csv", index_col="id")["class"]
    assert clustering_accuracy(truth.loc[labels.index], labels["label"]) > 0.95
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "config.json",
        "history.csv",
        "labels.csv",
        "model.safetensors",
    ]
    (folder / "text.csv").unlink()
    code, out, err = acova("predict", tmp_path / "run", folder, "--out", tmp_path / "new.csv")
    assert (code, err) == (0, "")
    table = pd.read_csv(tmp_path / "new.csv", index_col="sample")
    assert clustering_accuracy(truth.loc[table.index], table["label"]) > 0.95
    np.testing.assert_allclose(table[["p_0", "p_1", "p_2"]].sum(axis=1), 1, atol=1e-4)
    assert (table["weight_text"] == 0).all()


def test_options_reach_the_estimator(acova, tmp_path):
    views, _ = make_toy(missing=0.0)
    np.savez(tmp_path / "toy.npz", **dict(zip(views.names, views.arrays, strict=True)))
    options = [
        *SMALL,
        "--correlation",
        "0.25",
        "--missing-form=marginal",
        "--standardize",
        "false",
        "--clip-norm",
        "none",
    ]
    code, out, err = acova(
        "fit", tmp_path / "toy.npz", "--clusters", 3, "--out", tmp_path / "run", "--missing", 0.5, "--seed", 4, *options
    )
    assert (code, err) == (0, "")
    assert "Agreement" not in out
    model = ACOVA.load(tmp_path / "run")
    assert (model.correlation, model.missing, model.standardize) == (0.25, "marginal", False)
    assert model.training.clip_norm is None
    assert (model.hidden, model.random_state, model.n_clusters) == ((32,), 4, 3)
    assert ((model.view_weights_ == 0).any(axis=1)).mean() == 0.5


def test_the_command_gives_what_the_library_gives(acova, tmp_path):
    views, _ = make_toy()
    np.savez(tmp_path / "toy.npz", **dict(zip(views.names, views.arrays, strict=True)))
    acova("fit", tmp_path / "toy.npz", "--clusters", 3, "--out", tmp_path / "run", "--seed", 1, *SMALL)
    settings = {"hidden": (32,), "latent_dim": 4, "pretrain_epochs": 5, "warmup_epochs": 10, "epochs": 10}
    model = ACOVA.from_settings(3, **settings, batch_size=32, learning_rate=3e-3, random_state=1).fit(views)
    np.testing.assert_array_equal(ACOVA.load(tmp_path / "run").probabilities_, model.probabilities_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # one epoch
def test_presets_are_overridden_by_options(acova, tmp_path):
    code, _, err = acova(
        "fit", "digits", "--preset", "handwritten", "--recipe", "paper", "--out", tmp_path / "run", "--hidden", "8",
        "--pretrain-epochs", 1, "--epochs", 1, "--quiet",
    )  # fmt: skip
    assert (code, err) == (0, "")
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["params"]["alpha"], config["params"]["epochs"], config["params"]["recipe"]) == (15.0, 1, "paper")
    assert config["resolved"]["warmup_epochs"] == 0


def test_a_run_is_not_replaced_without_force_and_nothing_is_trained(acova, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.json").write_text("{}")
    monkeypatch.setattr(ACOVA, "fit", lambda *_: pytest.fail("trained before looking"))
    code, out, err = acova("fit", "digits", "--clusters", 10, "--out", tmp_path / "run")
    assert code == 2
    assert err.startswith("error: ")
    assert "already exists" in err
    assert "--force" in err
    assert out == ""


BAD_CALLS = {
    "unknown data": (["fit", "digit", "--clusters", "3", "--out", "r"], "Did you mean 'digits'"),
    "no such file": (["fit", "a.npz", "--clusters", "3", "--out", "r"], "no such file"),
    "no clusters": (["fit", "digits", "--out", "r"], "how many clusters"),
    "unknown option": (
        ["fit", "digits", "--clusters", "3", "--out", "r", "--latent-dims", "3"],
        "Did you mean '--latent-dim'",
    ),
    "an option of the command": (["fit", "digits", "--cluster", "3", "--out", "r"], "Did you mean '--clusters'"),
    "unknown method": (
        ["fit", "digits", "--method", "Conact", "--clusters", "3", "--out", "r"],
        "Did you mean 'concat'",
    ),
    "another method's option": (
        ["fit", "digits", "--method", "Concat", "--clusters", "3", "--out", "r", "--alpha", "3"],
        "'acova options --method Concat' lists those",
    ),
    "no value": (["fit", "digits", "--clusters", "3", "--out", "r", "--alpha"], "'--alpha' needs a value"),
    "bad value": (
        ["fit", "digits", "--clusters", "3", "--out", "r", "--alpha", "big"],
        "ACOVA: --alpha must be a number",
    ),
    "bad pattern": (
        ["fit", "digits", "--clusters", "3", "--out", "r", "--missing", ".5", "--pattern", "blok"],
        "'block'",
    ),
    "bad preset": (["fit", "digits", "--preset", "mnist", "--out", "r"], "dataset must be"),
    "a maybe": (["fit", "digits", "--clusters", "3", "--out", "r", "--consensus", "maybe"], "must be true or false"),
    "a one": (["fit", "digits", "--clusters", "3", "--out", "r", "--consensus=1"], "must be true or false; got 1"),
    "a denied number": (
        ["fit", "digits", "--clusters", "3", "--out", "r", "--no-alpha"],
        "unknown option '--no-alpha'",
    ),
    "demo's share": (["demo", "--missing", "2", "--out", "r"], "--missing must be a number at least 0 and at most 1"),
    "demo's seed": (["demo", "--seed", "-1", "--out", "r"], "--seed must be an integer at least 0; got -1"),
    "demo's place": (["demo", "--out", "/proc/none/r"], "writing /proc/none/r/report.html failed"),
    "unknown device": (["predict", "nothing", "digits", "--out", "l.csv", "--device", "gpu"], "device must be 'auto'"),
    "no run": (["predict", "nothing", "digits", "--out", "l.csv"], "no run folder"),
}


@pytest.mark.parametrize("call", BAD_CALLS)
def test_a_bad_call_gets_one_clear_line(acova, call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments, text = BAD_CALLS[call]
    code, out, err = acova(*arguments)
    assert code == 2
    assert text in err
    assert err.count("\n") == 1
    assert out == ""
    assert list(tmp_path.iterdir()) == []


def test_predict_keeps_an_existing_file(acova, fitted, tmp_path):
    fitted.save(tmp_path / "run")
    (tmp_path / "labels.csv").write_text("mine")
    code, _, err = acova("predict", tmp_path / "run", "digits", "--out", tmp_path / "labels.csv")
    assert code == 2
    assert "already exists" in err
    assert (tmp_path / "labels.csv").read_text() == "mine"


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A run and a folder of tables whose samples have names that a spreadsheet would take for formulas."""
    views, _ = make_toy(missing=0.0)
    names = [
        ("=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\tx", "007")[i % 6] + f" {i}" for i in range(len(views))
    ]
    folder = tmp_path_factory.mktemp("named")
    (folder / "data").mkdir()
    frames = {
        view: pd.DataFrame(array, index=names).add_prefix("f")
        for view, array in zip(views.names, views.arrays, strict=True)
    }
    for view, frame in frames.items():
        frame.to_csv(folder / "data" / f"{view}.csv", index_label="id")
    model = Concat(3, random_state=0).fit(frames)
    model.save(folder / "run")
    return folder


READERS = {
    ".csv": lambda path: pd.read_csv(path, index_col="sample"),
    ".tsv": lambda path: pd.read_csv(path, index_col="sample", sep="\t"),
    ".parquet": pd.read_parquet,
    ".feather": lambda path: pd.read_feather(path).set_index("sample"),
    ".xlsx": lambda path: pd.read_excel(path, index_col="sample"),
}


@pytest.mark.parametrize("ending", READERS)
def test_predict_writes_the_format_of_the_ending(acova, named, tmp_path, ending):
    out = tmp_path / f"new{ending}"
    code, _, err = acova("predict", named / "run", named / "data", "--out", out)
    assert (code, err) == (0, "")
    found = READERS[ending](out)
    labels = pd.read_csv(named / "run" / "labels.csv", index_col="sample")
    assert found.index.name == "sample"
    pd.testing.assert_frame_equal(found, labels, check_dtype=False)
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_names_like_formulas_are_written_as_they_are_and_a_workbook_holds_no_formula(acova, named, tmp_path):
    text = (named / "run" / "labels.csv").read_text()
    assert "\n=cmd|' /C calc'!A0 0," in text
    acova("predict", named / "run", named / "data", "--out", tmp_path / "new.xlsx")
    cells = openpyxl.load_workbook(tmp_path / "new.xlsx")["samples"]["A"][1:]
    assert {cell.data_type for cell in cells} == {"s"}
    assert cells[0].value == "=cmd|' /C calc'!A0 0"
    assert (cells[5].value, cells[11].value) == ("007 5", "007 11")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("new.xls", "must end in .csv, .tsv, .parquet, .feather, .xlsx; got '.xls'"),
        ("new.csv.gz", "got '.gz'"),
        ("new", "got 'no ending'"),
        ("file/new.csv", "Not a directory"),
        (f"{'x' * 300}.csv", "File name too long"),
        ("folder.csv", "is a folder"),
        ("pipe.csv", "is a pipe"),
        ("device.csv", "is a device"),
    ],
)
def test_predict_refuses_a_place_it_cannot_write_before_it_computes(
    acova, named, tmp_path, monkeypatch, device, name, message
):
    monkeypatch.setattr("acova.estimators.load_method", lambda *_, **__: pytest.fail("loaded before looking"))
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "device.csv").symlink_to(device)
    before = {path: path.lstat().st_mode for path in tmp_path.iterdir()}
    code, out, err = acova("predict", named / "run", named / "data", "--out", tmp_path / name, "--force")
    assert (code, out) == (2, "")
    assert message in err
    assert {path: path.lstat().st_mode for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["new.csv", "new.xlsx"])
def test_predict_keeps_the_old_file_until_the_new_one_is_whole(acova, named, tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("mine")

    def broken(self, X):
        yield pd.DataFrame({"label": [0]}, index=["s"])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Concat, "iter_assignments", broken)
    code, _, err = acova("predict", named / "run", named / "data", "--out", tmp_path / name, "--force")
    assert (code, err.count("\n")) == (2, 1)
    assert "No space left on device" in err
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "mine")]


def test_what_data_were_left_out_is_part_of_the_run(acova, folder, tmp_path):
    fit = ("fit", folder, "--clusters", 3, "--method", "Concat", "--quiet")
    assert acova(*fit, "--out", tmp_path / "run", "--drop", "text:f3", "--drop", "f0", "--holes", "hide")[0] == 0
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["fitted"]["provenance_"]
    assert (kept["drop"], kept["holes"]) == (["text:f3", "f0"], "hide")
    assert acova("report", tmp_path / "run")[0] == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert '<th scope="row">drop</th><td>text:f3, f0</td>' in page
    assert '<th scope="row">holes</th><td>hide</td>' in page
    assert acova(*fit, "--out", tmp_path / "whole")[0] == 0
    acova("report", tmp_path / "whole")
    assert '<th scope="row">drop</th>' not in (tmp_path / "whole" / "report.html").read_text(encoding="utf-8")


def test_names_of_views_are_no_markup(acova, tmp_path):
    views, _ = make_toy(missing=0.0)
    names = ["[/red]", "a[b]", ":smile:\x1b[2J"]
    np.savez(tmp_path / "toy.npz", **dict(zip(names, views.arrays, strict=True)))
    code, out, err = acova("fit", tmp_path / "toy.npz", "--clusters", 3, "--out", tmp_path / "run", *SMALL)
    assert (code, err) == (0, "")
    correlation, influence = out[out.index("Learned correlation") :].split("What the clusters owe")
    for name in ("[/red]", "a[b]", r":smile:\x1b[2J"):
        assert (correlation.count(name), influence.count(name)) == (2, 1)
    assert "\x1b" not in out
    code, out, err = acova("inspect", tmp_path / "toy.npz")
    assert (code, err) == (0, "")
    assert "[/red]" in out
    assert "a[b]" in out


def test_a_warning_is_one_line_and_said_once(acova, folder, tmp_path, monkeypatch):
    fit = Concat.fit

    def warned(self, *arguments, **keywords):
        for _ in range(3):
            warnings.warn("The clusters of [b] did not settle.\x07", ConvergenceWarning, stacklevel=2)
        return fit(self, *arguments, **keywords)

    monkeypatch.setattr(Concat, "fit", warned)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, out, err = acova(
            "fit", folder, "--method", "Concat", "--clusters", 3, "--out", tmp_path / "run", "--quiet"
        )
    assert code == 0
    assert err == "warning: The clusters of [b] did not settle.\\x07\n"
    assert "did not settle" not in out


def test_datasets_and_options_are_listed(acova):
    code, out, _ = acova("datasets")
    assert code == 0
    for word in (
        "digits",
        "handwritten",
        "scene15",
        "cub",
        "fashion",
        "noisymnist",
        "caltech5v",
        "CC BY 4.0",
        "embedded",
    ):
        assert word in out
    code, out, _ = acova("options")
    assert code == 0
    for word in ("--latent-dim", "--missing-form", "--correlation-start", "--hidden", "0.995", "decoders mirror them"):
        assert word in out
    assert "Adam's learning rate for the" in out
    assert "--training" not in out


@pytest.mark.parametrize("method", ["Concat", "knnimpute"])
def test_other_methods_are_fitted_and_used_by_name(acova, folder, tmp_path, method):
    run, table = tmp_path / "run", tmp_path / "new.csv"
    code, out, err = acova(
        "fit", folder, "--method", method, "--clusters", 3, "--out", run, "--n-init", 4, "--balance", "true", "--quiet"
    )
    assert (code, err) == (0, "")
    assert "confidence" not in out
    model = load_method(run)
    assert (type(model).__name__.lower(), model.n_init, model.balance) == (method.lower(), 4, True)
    code, _, err = acova("predict", run, folder, "--out", table)
    assert (code, err) == (0, "")
    labels = pd.read_csv(run / "labels.csv", index_col="sample")
    pd.testing.assert_frame_equal(pd.read_csv(table, index_col="sample"), labels)
    code, out, _ = acova("options", "--method", method)
    assert "--balance" in out
    assert "--alpha" not in out


def test_methods_of_other_packages_are_fitted_completed_and_loaded(acova, folder, rival_package, tmp_path):
    run, table = tmp_path / "run", tmp_path / "new.csv"
    assert {"Rival", "other-name"} <= set(list_methods())
    assert method_names("Ri") == ["Rival"]
    for method, cls in (("rival", "Rival"), ("other-name", "Namesake")):
        fit = ("fit", folder, "--method", method, "--clusters", 3, "--out", run, "--n-init", 2, "--quiet", "--force")
        code, _, err = acova(*fit)
        assert (code, err) == (0, "")
        model = load_method(run)
        assert (type(model).__name__, model.n_init) == (cls, 2)
        assert acova("predict", run, folder, "--out", table, "--force")[0] == 0
        np.testing.assert_array_equal(pd.read_csv(table)["label"], pd.read_csv(run / "labels.csv")["label"])
    assert "--balance" in acova("options", "--method", "Rival")[1]
    for method, reason in (("Foreign", "must be a subclass of MultiViewClusterer"), ("Broken", "cannot be imported")):
        code, _, err = acova("fit", folder, "--method", method, "--clusters", 3, "--out", tmp_path / "no")
        assert (code, reason in err) == (2, True)


def test_the_demo_beats_the_baseline_and_saves_run_and_figures(acova, tmp_path):
    code, out, _ = acova("demo", "--out", tmp_path / "demo", "--quiet")
    assert code == 0
    scores = {
        line.split("│")[1].strip(): float(line.split("│")[2])
        for line in out.splitlines()
        if line.startswith("│ ACOVA") or line.startswith("│ mean-filled")
    }
    assert scores["ACOVA"] >= scores["mean-filled k-means"] + 0.10
    assert ACOVA.load(tmp_path / "demo").n_clusters == 10
    figures = sorted(path.name for path in (tmp_path / "demo" / "figures").iterdir())
    names = ["clusters", "convergence", "correlation", "latent", "missing", "weights"]
    assert figures == [f"{name}.png" for name in names]
    assert "10 clusters of 1,797 samples" in (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")


def test_the_module_runs_as_a_command():
    done = subprocess.run([sys.executable, "-m", "acova", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("acova 0.")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--resume", "."], "holds no interrupted fit"),
        (["--resume", ".", "--alpha", "3"], "leave out everything else"),
        (["--resume", ".", "--seed", "0"], "leave out everything else"),
        (["digits", "--resume", "."], "leave out everything else"),
        (["--resume", ".", "--quiet"], "holds no interrupted fit"),
        ([], "give the data and --out RUN, or --resume RUN"),
        (["digits"], "give the data and --out RUN, or --resume RUN"),
    ],
)
def test_resume_says_what_is_missing(acova, arguments, message):
    code, _, err = acova("fit", *arguments)
    assert code == 2
    assert message in err


def test_a_run_is_reported(acova, folder, tmp_path, device):
    code, out, _ = acova("fit", folder, "--clusters", 3, "--out", tmp_path / "run", "--seed", 7, *SMALL)
    assert f"acova report {tmp_path / 'run'}" in out
    code, out, err = acova("report", tmp_path / "run", "--map", "PCA")
    assert (code, err) == (0, "")
    path = tmp_path / "run" / "report.html"
    assert out.split() == ["Report:", str(path)]
    page = path.read_text(encoding="utf-8")
    for text in ("3 clusters of 240 samples", "s001", "f0", str(folder)):
        assert text in page
    ACOVA.load(tmp_path / "run")  # the report does not harm the run
    (tmp_path / "mine.html").write_text("mine")
    code, _, err = acova("report", tmp_path / "run", "--out", tmp_path / "mine.html", "--map", "PCA")
    assert code == 2
    assert "is no report of acova" in err
    assert acova("report", tmp_path / "run", "--out", tmp_path / "mine.html", "--map", "PCA", "--force")[0] == 0
    assert "3 clusters" in (tmp_path / "mine.html").read_text(encoding="utf-8")
    code, _, err = acova("report", tmp_path / "run", "--map", "nonsense")
    assert code == 2
    assert "--map must be 't-SNE', 'PCA', 'UMAP'; got 'nonsense'" in err
    code, _, err = acova("report", tmp_path / "run", "--out", device, "--force")
    assert code == 2
    assert f"{device} is a device, and only regular files are written or replaced" in err
    code, _, err = acova("report", tmp_path / "nothing")
    assert code == 2
    assert "is no run folder" in err


def test_inspect_shows_what_would_stop_a_fit_and_how_to_go_on(acova, folder, tmp_path):
    code, out, err = acova("inspect", folder)
    assert (code, err) == (0, "")
    assert "These data can be used" in out
    table = pd.read_csv(folder / "text.csv", index_col=0)
    table["mail"] = [f"{name}@example.org" for name in table.index]
    table.iloc[3, 0] = np.nan
    table.to_csv(folder / "text.csv")
    code, out, err = acova("inspect", folder)
    assert (code, err) == (1, "")
    assert "mail" in out
    assert "A fit would stop" in out
    fit = ("fit", folder, "--clusters", 3, "--out", tmp_path / "run", "--method", "Concat", "--quiet")
    code, _, err = acova(*fit)
    assert (code, "--drop 'mail'" in err) == (2, True)
    clean = ("--drop", "text:mail", "--holes", "hide")
    assert acova("inspect", folder, *clean)[0] == 0
    code, _, err = acova(*fit, *clean)
    assert (code, err) == (0, "")
    code, _, err = acova("predict", tmp_path / "run", folder, "--out", tmp_path / "new.csv", *clean)
    assert (code, err) == (0, "")
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")["label"]
    pd.testing.assert_series_equal(pd.read_csv(tmp_path / "new.csv", index_col="sample")["label"], labels)


def test_a_folder_that_is_nearly_named_is_suggested(acova, folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    code, _, err = acova("inspect", "dta")
    assert code == 2
    assert "Did you mean 'data'?" in err
    assert "acova fit data --clusters 3 --out run" in acova("fit", "data")[2]
