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

from acova import ACOVA, Concat, select_n_clusters
from acova.cli.arguments import method_names
from acova.data import make_observed
from acova.estimators import list_methods, load_method
from acova.metrics import clustering_accuracy
from conftest import make_toy

SMALL = [
    *("--hidden", 32, "--latent-dim", 4, "--pretrain-epochs", 5, "--warmup-epochs", 10, "--epochs", 10),
    *("--batch-size", 32, "--learning-rate", 3e-3, "--quiet"),
]


pytestmark = pytest.mark.filterwarnings("ignore:.*blanks are part of a name:acova.base.errors.DataWarning")


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


def test_impute_writes_a_table_per_view_and_their_error_bars(acova, folder, tmp_path):
    assert acova("fit", folder, "--clusters", 3, "--out", tmp_path / "run", *SMALL)[0] == 0
    command = ["impute", tmp_path / "run", folder, "--out", tmp_path / "whole"]
    code, _, err = acova(*command, "--std")
    assert (code, "add --calibrate with the training data, or leave out --std" in err) == (2, True)
    code, out, err = acova(*command, "--std", "--quantiles", "0.05,0.95", "--calibrate")
    assert (code, err) == (0, "")
    assert "Held-out entries" in out
    endings = ("", ".std", ".q0.05", ".q0.95")
    names = {"image", "text", "sound"}
    assert {path.name for path in (tmp_path / "whole").iterdir()} == {f"{n}{end}.csv" for n in names for end in endings}
    given = pd.read_csv(folder / "text.csv", index_col="id")
    read = {end: pd.read_csv(tmp_path / "whole" / f"text{end}.csv", index_col="sample") for end in endings}
    assert not read[""].isna().any(axis=None)
    pd.testing.assert_frame_equal(read[""].loc[given.index], given, check_names=False, rtol=1e-12)
    missing = read[""].index.difference(given.index)
    assert (read[".std"].loc[missing] > 0).all(axis=None)
    assert (read[".q0.05"].loc[missing] <= read[".q0.95"].loc[missing]).all(axis=None)
    code, _, err = acova(*command)
    assert (code, "already exists" in err) == (2, True)


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
def test_the_number_of_clusters_is_shown_and_taken(acova, tmp_path):
    views, _ = make_toy(90, missing=0.0)
    np.savez(tmp_path / "toy.npz", **dict(zip(views.names, views.arrays, strict=True)))
    code, out, err = acova("clusters", tmp_path / "toy.npz", "--candidates", "2,3,4", "--seed", 1)
    assert code == 0, err
    found = select_n_clusters(views, [2, 3, 4], random_state=1)
    assert found.reason in out
    assert "3 <" in out
    assert f"{found.table.loc[3, 'gain']:.3f}" in out
    hide = ("--missing", "50%", "--pattern", "Per_View", "--random-state", 1)
    _, out, _ = acova("clusters", tmp_path / "toy.npz", "--candidates", "2,3,4", *hide)
    mask = make_observed(len(views), views.n_views, 0.5, "per_view", 1)
    assert select_n_clusters(views.hide(mask), [2, 3, 4], random_state=1).reason in out
    code, out, err = acova("fit", tmp_path / "toy.npz", "--clusters", "auto", "--out", tmp_path / "run", *SMALL)
    assert code == 0, err
    model = ACOVA.load(tmp_path / "run")
    assert (model.n_clusters, model.n_clusters_) == ("auto", 3)
    assert model.cluster_numbers_.reason in out


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
    "a word of clusters": (
        ["fit", "digits", "--clusters", "few", "--out", "r"],
        "an integer at least 1, or auto; got 'few'",
    ),
    "no candidates": (["clusters", "digits", "--candidates", "a-b"], "a range such as 2-15 or numbers such as 2,4,8"),
    "auto elsewhere": (
        ["fit", "digits", "--clusters", "auto", "--out", "r", "--method", "Concat"],
        "--clusters must be an integer at least 1; got 'auto'",
    ),
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
    "no levels": (["impute", "nothing", "digits", "--out", "l", "--quantiles", "x"], "numbers separated by commas"),
    "no run to impute": (["impute", "nothing", "digits", "--out", "l"], "no run folder"),
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
    (tmp_path / "patients.csv").write_text("name,days,died\ns001,3,1\ns002,5,0\n")
    code, _, err = acova("report", tmp_path / "run", "--covariates", tmp_path / "patients.csv", "--time", "days")
    assert code == 2
    assert "event is missing; name the covariates of both, time and event, or neither" in err
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


def messy(folder):
    """Write the tables of a folder again as they come: turned, named in another column, spelled otherwise, packed."""
    first, second, *_ = sorted(path for path in folder.glob("*.csv") if path.stem != "labels")
    table = pd.read_csv(first, index_col=0)
    table.T.to_csv(folder / f"{first.stem}.csv.gz")
    first.unlink()
    table = pd.read_csv(second, index_col=0)
    table.insert(1, "who", [f" {name.upper()}" for name in table.index])
    table.to_csv(second, index=False)
    return first.stem, second.stem


def test_a_run_remembers_how_its_tables_are_read(acova, folder, tmp_path):
    fit = ("--clusters", 3, "--method", "Concat", "--quiet")
    assert acova("fit", folder, "--out", tmp_path / "clean", *fit)[0] == 0
    turned, _ = messy(folder)
    words = ("--transpose", turned, "--id-column", "who", "--match-ids", "loosely", "--drop-sample", "s003")
    assert acova("inspect", folder, *words)[0] == 0
    code, _, err = acova("fit", folder, "--out", tmp_path / "run", *fit, *words)
    assert code == 0
    assert "names were matched loosely, first ' S" in err
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")["label"]
    due = pd.read_csv(tmp_path / "clean" / "labels.csv", index_col="sample")["label"]
    assert sorted(labels.index.str.lower()) == sorted({*due.index} - {"s003"})
    kept = json.loads((tmp_path / "run" / "config.json").read_text())["fitted"]["provenance_"]
    assert (kept["transpose"], kept["id_column"]) == ([turned], ["who"])
    assert (kept["match_ids"], kept["drop_sample"]) == ("loosely", ["s003"])
    code, _, err = acova("predict", tmp_path / "run", folder, "--out", tmp_path / "new.csv")
    assert code == 0
    assert f"Read as in the fit: --id-column who --transpose {turned} --match-ids loosely\n" in err
    new = pd.read_csv(tmp_path / "new.csv", index_col="sample")["label"]
    pd.testing.assert_series_equal(new[labels.index], labels)
    assert "s003" in new.index.str.lower()
    assert acova("report", tmp_path / "run")[0] == 0
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert f'<th scope="row">transpose</th><td>{turned}</td>' in page


def test_what_a_fit_remembers_may_be_absent_or_left_aside(acova, folder, tmp_path):
    turned, other = messy(folder)
    words = ("--transpose", turned, "--id-column", "who", "--match-ids", "loosely")
    fit = ("--clusters", 3, "--method", "Concat", "--quiet")
    assert acova("fit", folder, "--out", tmp_path / "run", *fit, *words)[0] == 0
    (folder / f"{turned}.csv.gz").unlink()
    code, _, err = acova("predict", tmp_path / "run", folder, "--out", tmp_path / "a.csv")
    assert code == 0, err
    table = pd.read_csv(folder / f"{other}.csv", index_col="who")
    table.set_axis(table.index.str.strip().str.lower()).to_csv(folder / f"{other}.csv")
    plain = ("--transpose", "none", "--id-column", "none", "--match-ids", "exactly")
    code, _, err = acova("predict", tmp_path / "run", folder, "--out", tmp_path / "b.csv", *plain)
    assert (code, "Read as in the fit" in err) == (0, False)
    code, _, err = acova("predict", tmp_path / "run", folder, "--out", tmp_path / "c.csv", "--transpose", turned)
    assert (code, "transpose must name views, which are" in err) == (2, True)


def test_words_for_tables_are_refused_for_other_data(acova, tmp_path):
    run = ("--out", tmp_path / "run", "--clusters", 3)
    code, _, err = acova("fit", "digits", *run, "--transpose", "pixels", "--drop-sample", "3")
    assert code == 2
    assert "--drop-sample, --transpose: these options say how tables are read into memory; leave them out for" in err
    np.save(tmp_path / "a.npy", np.eye(4))
    code, _, err = acova("fit", tmp_path, *run, "--stream", "--match-ids", "loosely")
    assert (code, "--match-ids: these options say how tables are read" in err) == (2, True)
    code, _, err = acova("fit", tmp_path, *run, "--match-ids", "loose")
    assert (code, "fit: match_ids must be 'exactly', 'loosely'; got 'loose'" in err) == (2, True)


def test_a_layer_is_fitted_and_annotated(acova, tmp_path):
    anndata = pytest.importorskip("anndata")
    views, _ = make_toy(missing=0.0)
    names = [f"c{i}" for i in range(len(views))]
    data = anndata.AnnData(np.zeros_like(views.arrays[0]), obs=pd.DataFrame(index=names))
    data.layers["counts"] = views.arrays[0]
    data.write(tmp_path / "a.h5ad")
    fit = ("fit", tmp_path / "a.h5ad", "--clusters", 3, "--method", "Concat", "--quiet", "--layer", "counts")
    assert acova(*fit, "--out", tmp_path / "run")[0] == 0
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")["label"]
    assert labels.nunique() == 3
    code, _, err = acova("predict", tmp_path / "run", tmp_path / "a.h5ad", "--out", tmp_path / "new.csv")
    assert (code, err) == (0, "Read as in the fit: --layer counts\n")
    pd.testing.assert_series_equal(pd.read_csv(tmp_path / "new.csv", index_col="sample")["label"], labels)
    assert acova("predict", tmp_path / "run", tmp_path / "a.h5ad", "--out", tmp_path / "done.h5ad")[0] == 0
    found = anndata.read_h5ad(tmp_path / "done.h5ad").obs["acova_label"].astype(int)
    np.testing.assert_array_equal(found[names], labels[names])


def test_a_folder_of_10x_programs_is_fitted_and_predicted(acova, tmp_path, monkeypatch):
    import scipy.io
    import scipy.sparse

    views, _ = make_toy(missing=0.0)
    counts = np.round(np.abs(np.hstack(views.arrays[:2])))
    folder = tmp_path / "sample"
    folder.mkdir()
    scipy.io.mmwrite(folder / "matrix.mtx", scipy.sparse.coo_matrix(counts.T))
    (folder / "barcodes.tsv").write_text("".join(f"cell{i}\n" for i in range(len(counts))))
    kinds = ["Gene Expression"] * views.sizes[0] + ["Antibody Capture"] * views.sizes[1]
    (folder / "features.tsv").write_text("".join(f"id{i}\tname{i}\t{kind}\n" for i, kind in enumerate(kinds)))
    fit = ("fit", folder, "--clusters", 3, "--method", "Concat", "--quiet")
    assert acova(*fit, "--out", tmp_path / "run")[0] == 0
    assert acova("predict", tmp_path / "run", folder, "--out", tmp_path / "new.csv")[0] == 0
    labels = pd.read_csv(tmp_path / "run" / "labels.csv", index_col="sample")["label"]
    assert labels.index[0] == "cell0"
    pd.testing.assert_series_equal(pd.read_csv(tmp_path / "new.csv", index_col="sample")["label"], labels)
    monkeypatch.setattr("acova.data.files.formats.IN_MEMORY", 0)
    code, _, err = acova("fit", folder, "--out", tmp_path / "b", "--clusters", 3, "--missing", "0.5")
    assert (code, "--missing hides views of data in memory, not on disk or sparse" in err) == (2, True)
