import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA
from acova.cli import main
from acova.estimators import load_method
from acova.metrics import clustering_accuracy
from conftest import make_toy

SMALL = [
    *("--hidden", 32, "--latent-dim", 4, "--pretrain-epochs", 5, "--warmup-epochs", 10, "--epochs", 10),
    *("--batch-size", 32, "--learning-rate", 3e-3, "--quiet"),
]


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
    assert (model.correlation, model.missing, model.standardize, model.clip_norm) == (0.25, "marginal", False, None)
    assert (model.hidden, model.random_state, model.n_clusters) == ((32,), 4, 3)
    assert ((model.view_weights_ == 0).any(axis=1)).mean() == 0.5


def test_the_command_gives_what_the_library_gives(acova, tmp_path):
    views, _ = make_toy()
    np.savez(tmp_path / "toy.npz", **dict(zip(views.names, views.arrays, strict=True)))
    acova("fit", tmp_path / "toy.npz", "--clusters", 3, "--out", tmp_path / "run", "--seed", 1, *SMALL)
    settings = {"hidden": (32,), "latent_dim": 4, "pretrain_epochs": 5, "warmup_epochs": 10, "epochs": 10}
    model = ACOVA(3, **settings, batch_size=32, learning_rate=3e-3, random_state=1).fit(views)
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
    "bad value": (["fit", "digits", "--clusters", "3", "--out", "r", "--alpha", "big"], "alpha must be a number"),
    "bad pattern": (
        ["fit", "digits", "--clusters", "3", "--out", "r", "--missing", ".5", "--pattern", "blok"],
        "'block'",
    ),
    "bad preset": (["fit", "digits", "--preset", "mnist", "--out", "r"], "dataset must be"),
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
    for word in ("--latent-dim", "--missing-form", "--correlation-start", "--hidden", "0.995"):
        assert word in out


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
        ([], "give the data and --out RUN, or --resume RUN"),
        (["digits"], "give the data and --out RUN, or --resume RUN"),
    ],
)
def test_resume_says_what_is_missing(acova, arguments, message):
    code, _, err = acova("fit", *arguments)
    assert code == 2
    assert message in err


def test_a_run_is_reported(acova, folder, tmp_path):
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
