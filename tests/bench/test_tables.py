import itertools
import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from acova.bench import BenchSpec, Store, paper_names, paper_spec
from acova.bench.cells import COLUMNS, Results, value_of
from acova.bench.charts import joined
from acova.bench.figures import FIGURES, write_figures
from acova.bench.score_tables import (
    comparison,
    comparison_markdown,
    difference_tables,
    score,
    score_tables,
    write_tables,
)
from acova.bench.spec import CALIBRATION
from acova.bench.statistics import compare, holm, interval, nemenyi


def place_of(fit):
    """Return what a row says of the place of its fit."""
    place = {"key": fit.key, "dataset": fit.data.name, "missing_percent": fit.missing}
    return {**place, "method": fit.method.name, "run": fit.run}


SCORES = {"BSV": [0.50, 0.40], "Concat": [0.61, 0.55], "KNNImpute": [0.60, 0.57]}


@pytest.fixture
def results(tmp_path):
    """Two rates, three runs; one method short of a run, one that failed, one that is not there."""
    methods = [
        {"name": "BSV", "published": "BSV"},
        "Concat",
        "KNNImpute",
        {"name": "broken", "use": "MVP"},
        {"name": "absent", "use": "XYZ"},
    ]
    (tmp_path / "known.csv").write_text(
        "dataset,method,missing_percent,metric,mean,std\ncub,BSV,10,acc,0.52,0.01\ncub,BSV,30,acc,0.38,\n"
    )
    held = {"name": "mine", "data": ["cub"], "methods": methods, "missing": [10, 30], "runs": 3, "metrics": ["acc"]}
    spec = BenchSpec.from_dict({**held, "published": "known.csv"}, folder=str(tmp_path))
    rows = []
    for fit in spec.fits():
        identity = {**place_of(fit), "seconds": 2.0, "epochs": 4}
        if fit.method.name == "broken":
            rows.append({**identity, "failed": "ValueError: too few features"})
        elif fit.method.name in SCORES and not (fit.method.name == "Concat" and fit.missing == 30 and fit.run == 2):
            acc = SCORES[fit.method.name][fit.missing == 30] + 0.01 * (fit.run - 1)
            rows.append({**identity, "acc": acc, "nmi": 0.5, "ari": 0.5, "purity": 0.5})
    store = Store(tmp_path / "rows.jsonl")
    store.append(rows)
    return Results.of(spec, store)


def test_cells_are_means_over_runs_beside_published_values(results):
    cells = results.cells.set_index(["method", "missing_percent"])
    first = cells.loc[("BSV", 10.0)]
    assert first["mean"] == pytest.approx(0.50)
    assert first["std"] == pytest.approx(np.std([0.49, 0.50, 0.51], ddof=1))
    assert (first["runs"], first["published_mean"], first["reason"]) == (3, 0.52, "")
    assert cells.loc[("Concat", 30.0), "reason"] == "2 of 3 runs; not run yet"
    assert cells.loc[("broken", 10.0), "reason"] == "ValueError: too few features"
    assert "not in this version of acova" in cells.loc[("absent", 10.0), "reason"]
    assert np.isnan(cells.loc[("absent", 10.0), "mean"])
    assert value_of({"seconds": 2.0, "epochs": 4}, "seconds_per_epoch") == 0.5


def test_one_table_in_all_languages(results, tmp_path):
    (table,) = score_tables(results, "acc")
    markdown, latex = table.markdown(), table.latex()
    lines = {line.split("|")[1].strip(): line for line in markdown.splitlines() if line.startswith("| ")}
    assert "| .500 ± .010 (.520, -2.0) | .400 ± .010 (.380, +2.0) | 3.0 |" in lines["BSV"]
    assert "| **.610 ± .010** | <u>.545 ± .007</u><sup>1</sup> | 1.5 |" in lines["Concat"]
    assert "| <u>.600 ± .010</u> | **.570 ± .010** | 1.5 |" in lines["KNNImpute"]
    assert "| –<sup>2</sup> | –<sup>2</sup> | – |" in lines["broken"]
    assert "<sup>2</sup> ValueError: too few features" in markdown
    assert r"Concat & \textbf{.610 $\pm$ .010} & \underline{.545 $\pm$ .007}\textsuperscript{1} & 1.5 \\" in latex
    assert latex.count(r"\\") == 1 + len(results.spec.methods)
    assert [column.header for column in table.rich().columns] == ["", "10 %", "30 %", "average rank"]
    paths = write_tables(results, tmp_path / "out")
    assert [path.name for path in paths] == ["mine.csv", "mine.md", "mine.tex"]
    table = pd.read_csv(paths[0])
    assert list(table.columns) == COLUMNS
    assert len(table) == 6  # cells with runs or with a published value
    assert not list((tmp_path / "out").glob(".*"))


def test_differences_to_a_reference_are_paired(results, tmp_path):
    """Only runs that both have count; the interval is that of scipy's paired test."""
    assert difference_tables(results) == []
    own = replace(results, spec=replace(results.spec, reference="Concat", kind="variant"))
    shifted = {place: dict(row) for place, row in own.rows.items()}
    for run, acc in enumerate((0.51, 0.47, 0.55)):
        shifted["cub", 10.0, "BSV", run]["acc"] = acc
    (table,) = difference_tables(replace(own, rows=shifted))
    assert table.title == "cub, ACC minus that of Concat, in points"
    cells = {name: [cell.text for cell in row] for name, row in table.rows}
    assert list(cells) == ["BSV", "KNNImpute"]  # those that have runs
    test = stats.ttest_rel([51, 47, 55], [60, 61, 62])
    low, high = test.confidence_interval(0.95)
    assert cells["BSV"][0] == f"{(low + high) / 2:+.1f} ± {(high - low) / 2:.1f}"
    assert cells["KNNImpute"] == ["-1.0 ± 0.0", "+2.0 ± 0.0"]  # at 30 % two runs are paired, not three
    assert interval(pd.Series([], dtype=float)) == pytest.approx((np.nan, np.nan), nan_ok=True)
    assert interval(pd.Series([2.0])) == pytest.approx((2.0, np.nan), nan_ok=True)
    paths = write_tables(own, tmp_path)
    assert "variant" in pd.read_csv(paths[0]).columns
    assert "minus that of Concat" in paths[1].read_text()
    assert "minus that of Concat" in paths[2].read_text()


def test_numbers():
    assert [score(value) for value in (0.9364, 1.0, 0.0, -0.02)] == [".936", "1.000", ".000", "-0.020"]


def test_ranks_and_tests_are_those_of_the_textbook():
    # Demšar (2006), tables 2 and 6: AUC of C4.5 with and without m and cf on fourteen data sets (the ranks
    # of the last but one break a tie that rounding makes).
    text = """0.763 0.768 0.771 0.798 0.599 0.591 0.590 0.569 0.954 0.971 0.968 0.967 0.628 0.661 0.654 0.657
    0.882 0.888 0.886 0.898 0.936 0.931 0.916 0.931 0.661 0.668 0.609 0.685 0.583 0.583 0.563 0.625
    0.775 0.838 0.866 0.875 1.000 1.000 1.000 1.000 0.940 0.962 0.965 0.962 0.619 0.666 0.614 0.669
    0.972 0.981 0.9751 0.975 0.957 0.978 0.946 0.970"""
    values = np.array(text.split(), dtype=float).reshape(14, 4)
    found = compare(pd.DataFrame(values, columns=["C4.5", "+m", "+cf", "+m+cf"]))
    assert found.ranks.round(3).to_dict() == {"+m+cf": 1.964, "+m": 2.0, "+cf": 2.893, "C4.5": 3.143}
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=2e-3)
    chi2 = 12 * 14 / (4 * 5) * (sum(np.square([1.964286, 2.0, 2.892857, 3.142857])) - 4 * 25 / 4)
    assert chi2 == pytest.approx(9.28, abs=0.01)
    ties = 3 * (2**3 - 2) + (4**3 - 4)  # three pairs and one row of four equals
    assert found.friedman == pytest.approx(stats.chi2.sf(chi2 / (1 - ties / (14 * 4 * 15)), 3), rel=1e-3)
    assert set(found.wilcoxon.index) == {"C4.5", "+m", "+cf"}
    assert (found.wilcoxon["p_holm"] >= found.wilcoxon["p"]).all()


def test_the_chosen_method_is_tested_against_each_other_one(results):
    rng = np.random.default_rng(0)
    means = pd.DataFrame(rng.random((12, 4)) + np.array([0.0, 0.1, 0.3, 0.5]), columns=list("abcd"))
    found = compare(means, against="b")
    assert found.wilcoxon.index.name == "b"
    p = {}
    for other in "acd":
        p[other] = stats.wilcoxon(means["b"], means[other]).pvalue
        assert found.wilcoxon.loc[other, "p"] == pytest.approx(p[other])
        assert found.wilcoxon.loc[other, "difference"] == pytest.approx((means["b"] - means[other]).median())
    first, second, third = sorted(p, key=p.get)
    corrected = [3 * p[first], max(3 * p[first], 2 * p[second]), max(3 * p[first], 2 * p[second], p[third])]
    for other, value in zip((first, second, third), corrected, strict=True):
        assert found.wilcoxon.loc[other, "p_holm"] == pytest.approx(min(value, 1))
    np.testing.assert_allclose(found.ranks[list("abcd")], stats.rankdata(-means, axis=1).mean(axis=0))
    assert compare(means, against="absent").wilcoxon.index.name == found.ranks.index[0]
    chosen = replace(results, spec=replace(results.spec, reference="BSV"))
    text = comparison_markdown(chosen, comparison(chosen))
    assert "signed-rank test of BSV against each other method" in text
    assert "| BSV | 3.00 | | | |" in text
    assert "| Concat | 1.50 | -0.127 |" in text  # the median of .50 - .61 and .40 - .545


def test_nemenyi_and_holm_by_hand():
    for methods, quantile in ((2, 1.960), (5, 2.728), (10, 3.164)):  # Demšar's table 5
        assert nemenyi(methods, 20) == pytest.approx(quantile * np.sqrt(methods * (methods + 1) / 120), abs=1e-3)
    np.testing.assert_allclose(holm(np.array([0.04, 0.01, 0.03])), [0.06, 0.03, 0.06])
    assert joined(np.array([1.0, 1.5, 3.0, 3.2, 6.0]), 1.0) == [(1.0, 1.5), (3.0, 3.2)]
    assert joined(np.array([1.0, 2.0, 3.0]), 1.5) == [(1.0, 2.0), (2.0, 3.0)]


def test_methods_with_few_cells_are_left_out_and_two_are_needed(results):
    means = pd.DataFrame({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.2, 0.3, np.nan, 0.5], "c": [0.9, np.nan, np.nan, np.nan]})
    found = compare(means)
    assert (found.n_cells, found.left_out, list(found.ranks.index)) == (3, ["c"], ["b", "a"])
    assert compare(means[["c"]]) is None
    assert list(compare(means, higher_is_better=False).ranks.index) == ["a", "b"]
    full = pd.DataFrame(np.random.default_rng(0).random((6, 4)), columns=list("abcd"))
    for lacks, (n_cells, left_out) in ((2, (6, ["d"])), (1, (5, []))):  # 4 methods x 4 cells < 3 x 6 < 4 x 5
        full.loc[: lacks - 1, "d"] = np.nan
        found = compare(full)
        assert (found.n_cells, found.left_out) == (n_cells, left_out)
        full["d"] = 0.5
    assert list(comparison(results).ranks.index[:2]) == ["Concat", "KNNImpute"]
    other = pd.DataFrame(np.arange(36.0).reshape(9, 4), columns=list("abcd"))
    other.iloc[6:, :3] = np.nan  # as many cells each, but not the same: 4 methods x 3 cells < 3 x 6
    other.iloc[:3, 3] = np.nan
    found = compare(other)
    assert (found.n_cells, found.left_out) == (6, ["d"])


def test_the_comparison_is_of_the_largest_full_table():
    """Against every set of methods, on tables with few patterns of missing cells."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        patterns = rng.random((2, 8)) < 0.6
        means = pd.DataFrame(rng.random((8, 5)), columns=list("abcde"))
        means = means.where(np.vstack([np.ones(8, bool), patterns])[rng.integers(3, size=5)].T)
        sizes = [
            means[list(chosen)].dropna().size
            for count in range(2, 6)
            for chosen in itertools.combinations(means.columns, count)
        ]
        found = compare(means)
        assert (found.n_cells * len(found.ranks) if found else 0) == max(sizes)


def made_up(spec, tmp_path):
    """Rows of a whole benchmark with what its figure needs."""
    rng = np.random.default_rng(0)
    names = ["a", "b", "c"]
    matrix = np.full((3, 3), 0.3) + 0.7 * np.eye(3)
    points, classes = rng.normal(size=(30, 2)).round(2).tolist(), (np.arange(30) % 3).tolist()
    records = {
        "correlation": {"views": names, "matrix": matrix.tolist()},
        "history": {"total": [3.0, 2.0, 1.5], "correlation_distance": [0.1, 0.4, 0.6]},
        "embedding": {"points": points, "classes": classes},
        "calibration": dict.fromkeys(CALIBRATION, 0.4) | {"bins": [[6, 0.45, 0.5], [0, 0.0, 0.0], [9, 0.8, 0.6]]},
    }
    rows = []
    for fit in spec.fits():
        scores = {name: float(rng.uniform(0.4, 0.9)) for name in ("acc", "nmi", "ari", "purity")}
        times = {"seconds": float(rng.uniform(1, 9)), "epochs": 10}
        kept = {name: records[name] for name in fit.record}
        rows.append(json.loads(json.dumps({**place_of(fit), **scores, **times, "records": kept})))
    store = Store(tmp_path / "rows.jsonl")
    store.append(rows)
    return Results.of(spec, store)


SPECS = {spec.figure: spec for spec in map(paper_spec, paper_names())}


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_drawn_from_the_store_and_repeats_exactly(figure, tmp_path):
    part = SPECS[figure].limited_to(runs=2, data=[data.name for data in SPECS[figure].data[:3]])
    if figure == "r_epochs":
        part = part.limited_to(missing=[10], data=["handwritten"])
    results = made_up(part, tmp_path)
    drawn = FIGURES[figure](results)
    texts = {text.get_text() for text in drawn.findobj(lambda artist: hasattr(artist, "get_text"))}
    shown = {"ranks": "critical difference", "simulation": "± 0.00", "r_stability": "±0.00", "tsne": "ACC"}
    assert any(shown.get(figure, part.data[0].name.split(",")[0]) in text for text in texts)
    paths = write_figures(results, tmp_path / "one")
    again = write_figures(results, tmp_path / "two")
    assert [path.suffix for path in paths] == [".png", ".svg"]
    assert paths[1].read_bytes() == again[1].read_bytes()


def test_published_marks_that_methods_share_are_drawn_once(results):
    cells = results.cells.assign(published_mean=results.cells["missing_percent"].map({10.0: 0.52, 30.0: 0.38}))
    figure = FIGURES["rates"](replace(results, cells=cells))
    lines = [line.get_ydata() for line in figure.axes[0].lines if line.get_markerfacecolor() == "white"]
    np.testing.assert_array_equal(lines, [[0.52, 0.38]])


def test_differences_are_drawn_with_their_intervals_where_all_runs_are_there(tmp_path):
    names = ["auto", "64-64-256", "128-128-512"]
    spec = paper_spec("networks").limited_to(data=["cub"], missing=[30, 70], methods=names, runs=4)
    results = made_up(spec, tmp_path)
    rows = dict(results.rows)
    del rows["cub", 70.0, "64-64-256", 3]
    figure = FIGURES["differences"](replace(results, rows=rows))
    at_30, at_70 = (box[0] for box in figure.axes[0].containers)
    scores = {name: [rows["cub", 30.0, name, run]["acc"] for run in range(4)] for name in names}
    change = 100 * np.subtract(scores["64-64-256"], scores["auto"])
    half = 3.182446 * change.std(ddof=1) / 2  # the 97.5 % point of Student's t with three degrees of freedom
    (low, high) = figure.axes[0].containers[0][2][0].get_segments()[0][:, 0]
    np.testing.assert_allclose([at_30.get_xdata()[0], low, high], change.mean() + np.array([0, -half, half]))
    assert (len(at_30.get_xdata()), len(at_70.get_xdata())) == (2, 1)
    assert figure.axes[0].get_yticklabels()[0].get_text() == "64-64-256"
    assert FIGURES["differences"](replace(results, spec=replace(spec, reference=""))) is None


def test_the_reliability_diagram_weighs_runs_by_their_samples(tmp_path):
    spec = paper_spec("calibration").limited_to(data=["cub"], missing=[30], methods=["learned R"], runs=2)
    results = made_up(spec, tmp_path)
    bins = [[[10, 0.5, 0.4], [30, 0.9, 1.0]], [[30, 0.6, 0.8], [0, 0.0, 0.0]]]
    rows = {
        place: {**row, "records": {"calibration": {"bins": of_run}}}
        for (place, row), of_run in zip(results.rows.items(), bins, strict=True)
    }
    line = FIGURES["reliability"](replace(results, rows=rows)).axes[0].lines[1]
    np.testing.assert_allclose(line.get_xydata(), [[0.575, 0.7], [0.9, 1.0]])


def test_the_distance_of_r_is_drawn_with_its_spread(tmp_path):
    spec = paper_spec("r_missing").limited_to(data=["cub"], missing=[10, 90], runs=2)
    results = made_up(spec, tmp_path)
    axis = FIGURES["r_missing"](results).axes[0]
    distance = 0.3 * np.sqrt(6)  # six entries of 0.3 beside the diagonal
    for box in axis.containers:
        np.testing.assert_allclose(box[0].get_xydata(), [[10, distance], [90, distance]], rtol=1e-4)


def test_of_a_loss_the_least_is_best_and_coverage_has_no_best(tmp_path):
    spec = paper_spec("calibration").limited_to(data=["cub"], missing=[30], runs=2)
    results = made_up(spec, tmp_path)
    values = {"R = I": 0.2, "ρ = 0.3": 0.1, "learned R": 0.3, "marginal form": 0.4}
    rows = {
        place: {**row, "records": {"calibration": dict.fromkeys(CALIBRATION, values[place[2]])}}
        for place, row in results.rows.items()
    }
    assert value_of(rows["cub", 30.0, "learned R", 0], "ece") == 0.3
    assert np.isnan(value_of({"records": {}}, "ece"))
    store = Store(tmp_path / "more.jsonl")
    store.append(rows.values())
    again = Results.of(spec, store)
    for metric, best in (("brier", "ρ = 0.3"), ("auroc", "marginal form")):
        (table,) = score_tables(again, metric)
        assert [name for name, cells in table.rows if cells[0].place == 1] == [best]
    (table,) = score_tables(again, "coverage")
    assert {cells[0].place for _, cells in table.rows} == {0}
    titles = [table.title for table in difference_tables(again)]
    assert titles[0].startswith("cub, Brier score over draws minus that of R = I")
    assert len(titles) == len(spec.metrics) - 1
    assert comparison(again).ranks.index[0] == "ρ = 0.3"


def test_no_rows_no_figure(tmp_path):
    empty = Results.of(paper_spec("table2"), Store(tmp_path / "none.jsonl"))
    assert write_figures(empty, tmp_path) == []
    assert comparison(empty) is None
    assert score_tables(empty, "acc")  # published values alone
