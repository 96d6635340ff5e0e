import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from acova.bench import BenchSpec, Store, paper_names
from conftest import make_toy


@pytest.fixture
def spec_file(tmp_path):
    views, labels = make_toy(missing=0.0)
    np.savez(tmp_path / "toy.npz", labels=labels, **dict(zip(views.names, views.arrays, strict=True)))
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "My benchmark"\nmissing = [20, 60]\nruns = 2\nmethods = ["Concat", "BSV", "NotYet"]\n'
        '[[data]]\nname = "toy"\nsource = "toy.npz"\n[quick]\nmissing = [20]\nruns = 1\nmethods = ["Concat"]\n'
    )
    return path


def test_a_benchmark_of_ones_own_from_file_to_tables(acova, spec_file, tmp_path):
    out = tmp_path / "out"
    code, shown, told = acova("bench", spec_file, "--out", out, "--jobs", 1)
    assert code == 0
    assert "8 fits done." in told
    assert "[8/8, done in" in told
    assert "NotYet takes no part: method 'NotYet' is not in this version of acova" in told
    assert "toy, ACC" in shown
    assert "not in this version" in " ".join(shown.split())
    assert {path.name for path in out.iterdir()} >= {
        f"mine.{end}" for end in ("jsonl", "csv", "md", "tex", "png", "svg")
    }
    table = pd.read_csv(out / "mine.csv")
    rows = pd.DataFrame(map(json.loads, (out / "mine.jsonl").read_text().splitlines()))
    means = rows.groupby(["method", "missing_percent"])["acc"].mean()
    for _, cell in table[table["metric"] == "acc"].iterrows():
        assert cell["mean"] == pytest.approx(means[cell["method"], cell["missing_percent"]], abs=1e-4)
    code, shown, told = acova("bench", spec_file, "--out", out, "--methods", "Concat", "--missing", 20, 60, "--quiet")
    assert code == 0
    assert told.startswith("0 fits done, 4 found in the store.")
    assert "BSV" not in shown
    assert "BSV" in (out / "mine.md").read_text()  # a call for a part does not hide the rest


def test_quick_show_and_changed_settings_have_files_of_their_own(acova, spec_file, tmp_path):
    out = tmp_path / "out"
    assert acova("bench", spec_file, "--out", out, "--quick", "--jobs", 1, "--quiet")[0] == 0
    (row,) = Store(out / "mine-quick.jsonl").rows.values()
    code, _, told = acova("bench", spec_file, "--out", out, "--show")
    assert (code, told) == (0, "")
    shown = pd.read_csv(out / "mine.csv").query("metric == 'acc' and runs > 0")
    assert shown["mean"].tolist() == [pytest.approx(row["acc"], abs=1e-4)]  # the same fit counts, and is not copied
    assert not (out / "mine.jsonl").exists()
    arguments = ["--methods", "Concat", "--runs", 1, "--missing", 20, "--set", "balance=true", "--jobs", 1, "--quiet"]
    assert acova("bench", spec_file, "--out", out, *arguments)[0] == 0
    settings = [row["settings"] for row in Store(out / "mine.jsonl").rows.values()]
    assert settings == [{"balance": True}]
    assert (out / "mine-changed.md").exists()


def test_the_papers_experiments_are_listed_and_printed(acova, tmp_path):
    code, shown, _ = acova("paper")
    assert code == 0
    assert [line.split()[0] for line in shown.splitlines()] == paper_names()
    code, shown, _ = acova("paper", "table2", "--spec")
    (tmp_path / "table2.toml").write_text(shown)
    assert len(BenchSpec.from_toml(tmp_path / "table2.toml").fits()) == 360


def test_mistakes_are_one_line(acova, spec_file, tmp_path):
    code, _, told = acova("paper", "tabel1")
    assert (code, told.count("\n")) == (2, 1)
    assert "Did you mean 'table1'?" in told
    code, _, told = acova("bench", spec_file, "--budget", "soon", "--out", tmp_path)
    assert code == 2
    assert "--budget must be a time such as 90s, 20m or 2h; got 'soon'" in told


SHARED_NEIGHBOURS = """
import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.metrics.pairwise import nan_euclidean_distances


class SharedNeighbours:
    def __init__(self, n_clusters, random_state=0, n_neighbors=10):
        self.n_clusters, self.random_state, self.n_neighbors = n_clusters, random_state, n_neighbors

    def fit_predict(self, views):
        distances = [nan_euclidean_distances(view) for view in views]
        scales = [np.nanmean(np.sort(far, axis=1)[:, self.n_neighbors]) for far in distances]
        near = np.array([np.exp(-np.square(far / scale)) for far, scale in zip(distances, scales, strict=True)])
        shared = np.maximum((~np.isnan(near)).sum(axis=0), 1)
        graph = SpectralClustering(self.n_clusters, affinity="precomputed", random_state=self.random_state)
        return graph.fit_predict(np.nan_to_num(near).sum(axis=0) / shared)


if __name__ == "__main__":
    import sys
    from acova.bench import BenchSpec, Store, run_bench
    from acova.bench.cells import Results
    from acova.bench.score_tables import show_tables

    own = {"name": "SharedNeighbours", "use": "own:SharedNeighbours", "scale": "zscore"}
    content = {"name": "own", "data": ["digits"], "methods": ["Concat", own], "missing": [30, 70], "runs": 1}
    spec, store = BenchSpec.from_dict(content, folder="."), Store("own.jsonl")
    run_bench(spec, store, n_jobs=1, verbose=True)
    show_tables(Results.of(spec, store), ["acc"])
"""


def test_a_method_of_ones_own_in_under_forty_lines(tmp_path):
    """Any class with fit_predict takes part, without a change of the library."""
    assert len([line for line in SHARED_NEIGHBOURS.splitlines() if line.strip()]) < 40
    (tmp_path / "own.py").write_text(SHARED_NEIGHBOURS)
    done = subprocess.run([sys.executable, "own.py"], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "SharedNeighbours" in done.stdout
    assert "digits, ACC" in done.stdout
    assert len(Store(tmp_path / "own.jsonl").rows) == 4
    assert not any("failed" in row for row in Store(tmp_path / "own.jsonl").rows.values())
