"""Covariates on the command line: from a table to fit, predict, inspect, the run's config and the report."""

import json

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA

N = 60
FIT = ("--method", "ACOVA", "--clusters", 2, "--hidden", "8", "--latent-dim", 2, "--n-init", 1, "--epochs", 1)
FAST = (*FIT, "--pretrain-epochs", 1, "--warmup-epochs", 1, "--no-consensus", "--quiet")


@pytest.fixture
def folder(tmp_path):
    """Write two views and a table of covariates."""
    rng = np.random.default_rng(0)
    names = pd.Index([f"s{i}" for i in range(N)], name="sample")
    batch = rng.choice(["north", "south"], N)
    (tmp_path / "data").mkdir()
    for name, width in (("rna", 5), ("protein", 4)):
        rows = rng.normal(size=(N, width)) + 3 * (batch == "south")[:, None] + 4 * (np.arange(N) % 2)[:, None]
        pd.DataFrame(rows, names).add_prefix("c").to_csv(tmp_path / "data" / f"{name}.csv")
    pd.DataFrame({"batch": batch, "age": rng.integers(20, 80, N)}, names).to_csv(tmp_path / "people.csv")
    return tmp_path


def test_a_run_knows_its_covariates_and_predicts_with_them(acova, folder):
    data, table, run = folder / "data", folder / "people.csv", folder / "run"
    code, _, err = acova("fit", data, "--covariates", table, "--out", run, *FAST)
    assert code == 0
    assert "Covariates: batch (2 levels), age (numbers)." in err
    config = json.loads((run / "config.json").read_text())
    assert config["covariates"]["levels"] == {"batch": ["north", "south"]}
    model = ACOVA.load(run, device="cpu")
    assert model.covariates_ == {"batch": ("north", "south"), "age": ()}
    assert model.provenance_["covariates"] == str(table)
    code, _, err = acova("predict", run, data, "--covariates", table, "--out", folder / "told.csv")
    assert (code, "taken for the mean" in err) == (0, False)
    told = pd.read_csv(folder / "told.csv", index_col=0)
    np.testing.assert_allclose(told[["p_0", "p_1"]], model.probabilities_, rtol=1e-5)
    code, _, err = acova("predict", run, data, "--out", folder / "mean.csv")
    assert code == 0
    assert "fitted with covariates (batch, age); without --covariates every sample is taken for the mean" in err
    assert not np.allclose(pd.read_csv(folder / "mean.csv", index_col=0)["p_0"], told["p_0"])
    assert acova("report", run, "--map", "PCA")[0] == 0
    assert "should not follow: batch (north, south), age." in (run / "report.html").read_text(encoding="utf-8")


def test_new_levels_and_missing_samples_are_errors(acova, folder):
    data, table, run = folder / "data", folder / "people.csv", folder / "run"
    assert acova("fit", data, "--covariates", table, "--out", run, *FAST)[0] == 0
    people = pd.read_csv(table, index_col=0)
    people.replace({"south": "west"}).to_csv(folder / "new.csv")
    code, _, err = acova("predict", run, data, "--covariates", folder / "new.csv", "--out", folder / "labels.csv")
    assert code
    assert "Covariate 'batch' holds 'west', which no training sample has" in err.replace("\n", " ")
    assert not (folder / "labels.csv").exists()
    people.iloc[5:].to_csv(folder / "few.csv")
    code, _, err = acova("fit", data, "--covariates", folder / "few.csv", "--out", folder / "other", *FAST)
    assert code
    assert "covariates have no row for 5 of 60 samples, first: s0" in err.replace("\n", " ")
    code, _, err = acova("fit", data, "--covariates", folder / "data", "--out", folder / "other", *FAST)
    assert code
    assert "must be a table" in err
    code, _, err = acova(
        "fit", data, "--covariates", table, "--out", folder / "other", "--method", "Concat", *FAST[2:4]
    )
    assert code
    assert "Concat: this method takes no covariates" in err.replace("\n", " ")


def test_inspect_shows_covariates_and_what_is_wrong_with_them(acova, folder):
    code, out, _ = acova("inspect", folder / "data", "--covariates", folder / "people.csv")
    assert code == 0
    assert "Covariates" in out
    rows = [line.replace("│", " ").split() for line in out.splitlines() if "batch" in line]
    assert rows == [["batch", "words", "2", "0"]]
    people = pd.read_csv(folder / "people.csv", index_col=0).assign(site="here")
    people.to_csv(folder / "constant.csv")
    code, out, _ = acova("inspect", folder / "data", "--covariates", folder / "constant.csv")
    assert code == 1
    assert "Covariate 'site' is the same for all samples" in " ".join(out.split())


def test_samples_without_names_are_counted(acova, folder):
    """In an archive of arrays samples have positions, which are text in a table."""
    tables = {name: pd.read_csv(folder / "data" / f"{name}.csv", index_col=0).to_numpy() for name in ("rna", "protein")}
    np.savez(folder / "data.npz", **tables)
    people = pd.read_csv(folder / "people.csv", index_col=0)
    people.set_axis(pd.RangeIndex(N), axis=0).iloc[::-1].to_csv(folder / "numbered.csv")
    code, _, err = acova(
        "fit", folder / "data.npz", "--covariates", folder / "numbered.csv", "--out", folder / "r", *FAST
    )
    assert code == 0, err
