import json
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from acova.bench import BenchSpec, Store, run_bench
from acova.bench.cells import Results
from acova.bench.fitting import run_group
from acova.bench.origin import commit
from acova.bench.pace import Pace, duration
from acova.bench.runner import grouped
from acova.bench.score_tables import score_tables
from acova.bench.sources import foreign_input, load_data
from acova.data import Scaling, load_dataset, make_observed, make_views
from acova.estimators import ACOVA, BSV, Concat
from acova.metrics import clustering_scores
from conftest import make_toy

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained
TINY = {"hidden": [8], "latent_dim": 2, "pretrain_epochs": 1, "warmup_epochs": 1, "epochs": 2, "batch_size": 64}

METHODS = """
import time
import numpy as np

class Slow:
    def __init__(self, n_clusters, random_state, seconds=0.0):
        self.n_clusters, self.random_state, self.seconds = n_clusters, random_state, seconds
    def fit_predict(self, Xs):
        with open(__file__ + ".calls", "a") as calls:
            calls.write(f"{self.random_state}\\n")
        time.sleep(self.seconds)
        first = np.where(np.isnan(Xs[0]).all(axis=1), 0, 1)
        return first

class Broken(Slow):
    def fit_predict(self, Xs):
        raise RuntimeError("it broke\\nin two lines")
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with toy data, methods of one's own, and room for a store."""
    views, labels = make_toy(missing=0.0)
    np.savez(tmp_path / "toy.npz", labels=labels, **dict(zip(views.names, views.arrays, strict=True)))
    (tmp_path / f"own_{tmp_path.name}.py").write_text(METHODS)
    return tmp_path


def spec_in(folder, methods, **changes):
    methods = [
        {**m, "use": m["use"].replace("own:", f"own_{folder.name}:")} if isinstance(m, dict) and "use" in m else m
        for m in methods
    ]
    held = {
        "name": "toy",
        "data": [{"name": "toy", "source": "toy.npz"}],
        "methods": methods,
        "missing": [50],
        "runs": 2,
    }
    return BenchSpec.from_dict({**held, **changes}, folder=str(folder))


def calls(folder):
    path = folder / f"own_{folder.name}.py.calls"
    return Counter(path.read_text().split()) if path.exists() else Counter()


def test_a_row_is_what_a_fit_by_hand_gives_and_says_where_it_comes_from(folder):
    spec = spec_in(
        folder, ["Concat", {"name": "net", "use": "ACOVA", "settings": TINY}], record=["correlation", "history"]
    )
    store = Store(folder / "rows.jsonl")
    outcome = run_bench(spec, store, device="cpu", n_jobs=1)
    assert (outcome.done, outcome.failed, outcome.problems) == (4, 0, {})
    rows = {(row["method"], row["run"]): row for row in store.rows.values()}
    views, labels = make_toy(missing=0.0)
    for run in range(2):
        observed = make_observed(len(views), 3, 0.5, "uniform_size", run)
        by_hand = Concat(3, random_state=run).fit(views, observed=observed)
        expected = clustering_scores(labels, by_hand.labels_)
        assert {name: rows["Concat", run][name] for name in expected} == expected
        settings = {name: tuple(value) if isinstance(value, list) else value for name, value in TINY.items()}
        model = ACOVA.from_settings(3, random_state=run, device="cpu", **settings).fit(views, observed=observed)
        row = rows["net", run]
        assert row["acc"] == clustering_scores(labels, model.labels_)["acc"]
        np.testing.assert_allclose(row["records"]["correlation"]["matrix"], model.correlation_, atol=1e-5)
        assert len(row["records"]["history"]["total"]) == row["params"]["epochs"] == 2
        assert row["guards"]["clipped"] == model.history_["clipped"].sum()
        assert row["guards"]["floored"] == pytest.approx(model.history_["floored"].max(), abs=1e-4)
        assert row["guards"]["empty_clusters"] == model.history_["empty_clusters"].max()
        assert row["epochs"] == 4
        assert {"acova", "torch", "numpy"} <= set(row["versions"])
        assert row["settings"]["hidden"] == [8]
        assert {"time", "python", "commit", "seconds", "device"} <= set(row)


def test_a_row_names_the_commit_it_was_told(monkeypatch):
    """Code that was copied without its history, or beside that of another commit, cannot tell by itself."""
    commit.cache_clear()
    found = commit()
    monkeypatch.setenv("ACOVA_COMMIT", "0123abc")
    commit.cache_clear()
    assert commit() == "0123abc" != found
    commit.cache_clear()


def test_finished_jobs_are_never_run_again_also_under_other_names(folder):
    spec = spec_in(folder, [{"name": "mine", "use": "own:Slow"}])
    assert run_bench(spec, Store(folder / "rows.jsonl"), n_jobs=1).done == 2
    other = spec_in(folder, [{"name": "another name", "use": "own:Slow"}], runs=3)
    outcome = run_bench(other, Store(folder / "rows.jsonl"), n_jobs=1)
    assert (outcome.found, outcome.done) == (2, 1)
    assert calls(folder) == {"0": 1, "1": 1, "2": 1}
    again = spec_in(folder, [{"name": "mine", "use": "own:Slow"}], record=["correlation"])
    assert run_bench(again, Store(folder / "rows.jsonl"), n_jobs=1).done == 2  # what is to be recorded was not


def test_failures_are_rows_with_a_reason_and_are_repeated_only_when_asked(folder):
    spec = spec_in(folder, [{"name": "bad", "use": "own:Broken"}, "Concat"], runs=1)
    store = Store(folder / "rows.jsonl")
    outcome = run_bench(spec, store, n_jobs=1)
    assert (outcome.done, outcome.failed) == (1, 1)
    assert [row["failed"] for row in store.rows.values() if "failed" in row] == ["RuntimeError: it broke"]
    assert run_bench(spec, store, n_jobs=1).found == 2
    assert run_bench(spec, store, n_jobs=1, retry=True).failed == 1


def test_what_cannot_take_part_is_told_and_not_stored(folder):
    methods = ["DCPX", {"name": "gone", "use": "no_such_module:X"}, {"name": "nope", "use": "own:Nope"}, "Concat"]
    data = [{"name": "toy", "source": "toy.npz"}, {"name": "lost", "source": "lost.npz"}]
    store = Store(folder / "rows.jsonl")
    outcome = run_bench(spec_in(folder, methods, data=data, runs=1), store, n_jobs=1)
    assert outcome.done == len(store.rows) == 1
    assert "not in this version of acova" in outcome.problems["DCPX"]
    assert "put no_such_module.py beside the spec" in outcome.problems["gone"]
    assert "has no 'Nope'" in outcome.problems["nope"]
    assert "'lost.npz' is neither a data set of the catalogue" in outcome.problems["lost"]


def test_methods_of_other_packages_take_part_by_their_names(folder, rival_package):
    store = Store(folder / "rows.jsonl")
    methods = ["Rival", "Foreign", "Broken", {"name": "typo", "use": "Rival", "settings": {"n_inits": 3}}]
    outcome = run_bench(spec_in(folder, methods, runs=1), store, n_jobs=1)
    assert (outcome.done, outcome.failed) == (2, 0)
    assert {row["method"] for row in store.rows.values()} == {"Rival", "Foreign"}
    assert "registered as 'rival:Nothing', cannot be imported" in outcome.problems["Broken"]
    assert "Rival has no setting 'n_inits'" in outcome.problems["typo"]
    assert "Did you mean 'n_init'" in outcome.problems["typo"]


def test_data_without_labels_or_with_other_views(folder):
    np.savez(folder / "bare.npz", view_0=np.zeros((4, 2)))
    spec = spec_in(folder, ["Concat"], data=[{"name": "bare", "source": "bare.npz"}])
    outcome = run_bench(spec, Store(folder / "rows.jsonl"), n_jobs=1)
    assert "has no labels; a benchmark compares clusters with known classes" in outcome.problems["bare"]
    spec = spec_in(folder, ["Concat"], data=[{"name": "toy", "source": "toy.npz", "views": ["text", "smell"]}])
    outcome = run_bench(spec, Store(folder / "rows.jsonl"), n_jobs=1)
    assert "has no view 'smell'; it has image, text, sound" in outcome.problems["toy"]
    spec = spec_in(folder, ["Concat"], data=[{"name": "toy", "source": "toy.npz", "views": ["text", "image"]}])
    assert load_data(spec.data[0], spec.folder).views.sizes == (12, 8)


def test_groups_hold_what_can_train_together():
    methods = [
        {"name": "a", "use": "ACOVA", "settings": TINY},
        {"name": "b", "use": "ACOVA", "settings": {**TINY, "alpha": 3.0}},
        {"name": "deeper", "use": "ACOVA", "settings": {**TINY, "hidden": [8, 8]}},
        {"name": "fixed", "use": "ACOVA", "settings": {**TINY, "correlation": 0.3}},
        "Concat",
    ]
    spec = BenchSpec.from_dict(
        {"name": "x", "data": ["digits", "cub"], "methods": methods, "missing": [10, 50], "runs": 2}
    )
    groups = grouped(spec.fits())
    names = [({fit.data.name for fit in group}, {fit.method.name for fit in group}, len(group)) for group in groups]
    for data in ("digits", "cub"):
        mine = [(methods, count) for where, methods, count in names if where == {data}]
        assert ({"a", "b"}, 8) in mine or data == "cub"  # cub's preset has an α for the first alone
        assert ({"deeper"}, 4) in mine
        assert ({"fixed"}, 4) in mine
        assert mine.count(({"Concat"}, 1)) == 4
    assert max(map(len, grouped(spec.fits(), 3))) == 3
    assert sum(map(len, grouped(spec.fits(), 3))) == len(spec.fits())
    alone = BenchSpec.from_dict({"name": "x", "data": ["digits"], "methods": methods[:1], "alone": True})
    assert {len(group) for group in grouped(alone.fits())} == {1}


def test_a_group_gives_the_rows_of_its_members(folder):
    spec = spec_in(folder, [{"name": "net", "use": "ACOVA", "settings": TINY}], missing=[30, 60])
    together = run_group(spec.fits(), "cpu")
    apart = [row for fit in spec.fits() for row in run_group([fit], "cpu")]
    assert [row["together"] for row in together] == [4] * 4
    for one, other in zip(together, apart, strict=True):
        assert (one["key"], one["acc"], one["nmi"]) == (other["key"], other["acc"], other["nmi"])


def test_a_group_shares_its_time_by_runs(folder, monkeypatch):
    methods = [{"name": str(n), "use": "ACOVA", "settings": {**TINY, "n_init": n, "consensus": n > 1}} for n in (1, 3)]
    clock = iter([10.0, 18.0])
    monkeypatch.setattr("acova.bench.fitting.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    one, consensus = run_group(spec_in(folder, methods, missing=[30], runs=1).fits(), "cpu")
    assert (one["seconds"], consensus["seconds"]) == (2.0, 6.0)


def test_on_a_gpu_groups_are_computed_here_and_written_one_by_one(folder, monkeypatch):
    from acova.bench import runner

    monkeypatch.setattr(runner, "_on_gpu", lambda device: True)
    deeper = {**TINY, "hidden": [8, 8]}
    methods = [{"name": name, "use": "ACOVA", "settings": held} for name, held in (("a", TINY), ("b", deeper))]
    spec = spec_in(folder, [*methods, "Concat"], missing=[20, 40])
    written = []
    append = Store.append
    monkeypatch.setattr(Store, "append", lambda self, rows: (written.append(len(rows)), append(self, rows)))
    store = Store(folder / "rows.jsonl")
    outcome = run_bench(spec, store, device="cpu", n_jobs=1, group_size=3)
    assert (outcome.done, written) == (12, [3, 1, 3, 1, 1, 1, 1, 1])
    assert Counter(row["together"] for row in store.rows.values()) == {3: 6, 1: 6}


def test_one_bad_run_does_not_take_its_group_with_it(folder, monkeypatch):
    import acova.estimators

    whole = acova.estimators.fit_many

    def fails(models, views, masks):
        if any(model.random_state == 2 for model in models):
            raise ArithmeticError("run 2 diverged")
        return whole(models, views, masks)

    monkeypatch.setattr(acova.estimators, "fit_many", fails)
    alone = ACOVA.fit
    monkeypatch.setattr(
        ACOVA, "fit", lambda self, X, **k: fails([self], X, None) if self.random_state == 2 else alone(self, X, **k)
    )
    spec = spec_in(folder, [{"name": "net", "use": "ACOVA", "settings": TINY}], runs=4)
    rows = run_group(spec.fits(), "cpu")
    assert [row.get("failed") is not None for row in rows] == [False, False, True, False]
    assert rows[2]["failed"] == "ArithmeticError: run 2 diverged"


def test_foreign_methods_get_nan_where_a_view_is_missing_and_the_scale_they_ask_for():
    digits = load_dataset("digits")
    observed = make_observed(1797, 4, 0.5, random_state=0)
    views = digits.views.hide(observed)
    z = Scaling.fit(views, ("zscore",) * 4).transform(views)
    for scale, factor in (("zscore", 1.0), ("balanced", 1 / np.sqrt(40))):
        arrays = foreign_input(digits, observed, scale)
        assert all((np.isnan(array).all(axis=1) == ~observed[:, v]).all() for v, array in enumerate(arrays))
        seen = observed[:, 1]
        np.testing.assert_allclose(arrays[1][seen], z[1][seen] * factor, rtol=1e-6)
    np.testing.assert_array_equal(foreign_input(digits, observed, "none")[2][observed[:, 2]], views.rows(2))


def test_the_budget_starts_nothing_that_does_not_fit(folder):
    spec = spec_in(folder, [{"name": "mine", "use": "own:Slow", "settings": {"seconds": 0.4}}], runs=5)
    store = Store(folder / "rows.jsonl")
    outcome = run_bench(spec, store, n_jobs=1, budget=1.0)
    assert 1 <= outcome.done <= 2
    assert outcome.done + outcome.left == 5
    assert run_bench(spec, store, n_jobs=1, budget=0.0).left == outcome.left
    assert run_bench(spec, store, n_jobs=1, budget=60).done == outcome.left


def test_a_fit_that_takes_too_long_is_ended(folder):
    spec = spec_in(folder, [{"name": "mine", "use": "own:Slow", "settings": {"seconds": 600}}], runs=1)
    store = Store(folder / "rows.jsonl")
    assert run_bench(spec, store, n_jobs=1, limit=3).failed == 1
    assert next(iter(store.rows.values()))["failed"] == "not done after 3 s"


def test_time_is_foretold_from_jobs_alike(folder):
    fits = spec_in(folder, ["Concat", "BSV"], runs=1).fits()
    pace = Pace(
        [{"method": "Concat", "dataset": "toy", "seconds": 2.0}, {"method": "Concat", "dataset": "x", "seconds": 9}]
    )
    assert [pace.seconds(fit) for fit in fits] == [2.0, None]
    assert [duration(t) for t in (5, 200, 8000)] == ["5 s", "3 min", "2.2 h"]


RUNNER = """
import sys
from acova.bench import BenchSpec, Store, run_bench
if __name__ == "__main__":
    spec = BenchSpec.from_toml(sys.argv[1])
    print(run_bench(spec, Store(sys.argv[2]), n_jobs=int(sys.argv[3]), device="cpu"), flush=True)
"""


def start(folder, n_jobs=1):
    (folder / "runner.py").write_text(RUNNER)
    command = [sys.executable, folder / "runner.py", folder / "spec.toml", folder / "rows.jsonl", str(n_jobs)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def ended(process):
    process.communicate(timeout=180)
    return process.returncode


def write_spec(folder, runs, seconds):
    (folder / "spec.toml").write_text(
        f'data = [{{name = "toy", source = "toy.npz"}}]\nmissing = [50]\nruns = {runs}\n'
        f'methods = [{{name = "mine", use = "own_{folder.name}:Slow", settings = {{seconds = {seconds}}}}}]\n'
    )


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL is of POSIX systems")
def test_a_killed_runner_loses_only_the_job_in_flight(folder):
    write_spec(folder, runs=6, seconds=0.2)
    process = start(folder)
    while len(Store(folder / "rows.jsonl").rows) < 2:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    begun = calls(folder)
    kept = len(Store(folder / "rows.jsonl").rows)
    assert kept >= sum(begun.values()) - 1
    assert ended(start(folder)) == 0
    store = Store(folder / "rows.jsonl")
    assert sorted(row["run"] for row in store.rows.values()) == list(range(6))
    assert sum(calls(folder).values()) <= 7  # six fits, and at most the one that was in flight once more


def test_two_runners_share_a_store_and_no_job_is_done_twice(folder):
    write_spec(folder, runs=10, seconds=0.3)
    runners = [start(folder), start(folder)]
    assert [ended(runner) for runner in runners] == [0, 0]
    lines = (folder / "rows.jsonl").read_text().splitlines()
    assert sorted(json.loads(line)["run"] for line in lines) == list(range(10))
    assert calls(folder) == {str(run): 1 for run in range(10)}


def test_processes_do_what_one_does(folder):
    write_spec(folder, runs=4, seconds=0.0)
    assert ended(start(folder, n_jobs=2)) == 0
    rows = {row["run"]: row["acc"] for row in Store(folder / "rows.jsonl").rows.values()}
    spec = BenchSpec.from_toml(folder / "spec.toml")
    store = Store(folder / "other.jsonl")
    run_bench(spec, store, n_jobs=1)
    assert rows == {row["run"]: row["acc"] for row in store.rows.values()}


def test_the_automatic_scale_of_foreign_methods_is_that_of_the_library():
    digits = load_dataset("digits")
    observed = make_observed(1797, 4, 0.5, random_state=0)
    views = digits.views.hide(observed)
    automatic = Scaling.fit(views, ("auto",) * 4).transform(views)
    assert not np.allclose(automatic[0], Scaling.fit(views, ("zscore",) * 4).transform(views)[0])
    for v, array in enumerate(foreign_input(digits, observed, "auto")):
        seen = observed[:, v]
        np.testing.assert_allclose(array[seen], automatic[v][seen] / np.sqrt(views.sizes[v]))
        assert np.isnan(array[~seen]).all()


def test_every_run_has_data_of_its_own_where_a_seed_is_asked_for(folder):
    views = {"one": {"n_features": 3}, "two": {"n_features": 2}}
    data = {"name": "made", "source": "acova.data:make_views", "seed": "random_state"}
    data["options"] = {"n_samples": 30, "n_clusters": 2, "views": views, "random_state": 7}
    spec = spec_in(folder, ["Concat"], data=[data], missing=[0], runs=2)
    for run in range(2):
        made = load_data(spec.data[0], spec.folder, run)
        known = make_views(30, 2, views, random_state=7 + run)
        np.testing.assert_array_equal(made.views.arrays[0], known.views.arrays[0])
    store = Store(folder / "rows.jsonl")
    assert run_bench(spec, store, n_jobs=1).done == 2
    for row in store.rows.values():
        assert row["options"]["random_state"] == 7 + row["run"]
        known = make_views(30, 2, views, random_state=7 + row["run"])
        fitted = Concat(2, random_state=row["run"]).fit(known.views)
        assert row["acc"] == clustering_scores(known.labels, fitted.labels_)["acc"]
    fixed = spec_in(folder, ["Concat"], data=[{**data, "seed": ""}], missing=[0], runs=2)
    assert not {fit.key for fit in spec.fits()} & {fit.key for fit in fixed.fits()}
    methods = [{"name": "a", "use": "ACOVA", "settings": TINY}]
    assert len(grouped(spec_in(folder, methods, data=[data], missing=[0], runs=2).fits())) == 2


def test_a_data_set_may_have_rates_of_its_own(folder):
    data = [{"name": "toy", "source": "toy.npz"}, {"name": "as it comes", "source": "toy.npz", "missing": [0]}]
    spec = spec_in(folder, ["Concat"], data=data, missing=[10, 50], runs=1)
    assert [(fit.data.name, fit.missing) for fit in spec.fits()] == [("toy", 10), ("toy", 50), ("as it comes", 0)]
    assert BenchSpec.from_dict(tomllib.loads(spec.to_toml()), spec.folder) == spec
    store = Store(folder / "rows.jsonl")
    assert run_bench(spec, store, n_jobs=1).done == 3
    results = Results.of(spec, store)
    assert len(results.means("acc")) == 3
    assert [table.columns for table in score_tables(results, "acc")] == [
        ["10 %", "50 %", "average rank"],
        ["0 %", "average rank"],
    ]
    assert (results.cells["runs"] == 1).all()


@pytest.mark.parametrize("method", ["Concat", {"name": "BSV", "labels": "oracle"}])
def test_samples_without_a_class_are_fitted_and_not_scored(folder, method):
    toy = np.load(folder / "toy.npz")
    labels = toy["labels"].copy()
    labels[::4] = -1
    views = {name: toy[name] for name in ("image", "text", "sound")}
    np.savez(folder / "some.npz", labels=labels, **views)
    spec = spec_in(folder, [method], data=[{"name": "some", "source": "some.npz"}], missing=[50], runs=1)
    store = Store(folder / "rows.jsonl")
    assert run_bench(spec, store, n_jobs=1).done == 1
    (row,) = store.rows.values()
    observed = make_observed(len(labels), 3, 0.5, random_state=0)
    model = (BSV if method != "Concat" else Concat)(3, random_state=0).fit(views, observed=observed)
    known = labels != -1
    found = model.labels_by_view_ if method != "Concat" else model.labels_[:, None]
    scores = [clustering_scores(labels[known], one[known]) for one in found.T]
    best = max(scores, key=lambda one: one["acc"])
    assert {name: row[name] for name in best} == best
