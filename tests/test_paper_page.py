"""Every number of docs/paper.md is that of a stored row, a setting or a count; every name in it exists."""

import ast
import importlib.util
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
import torch

from acova import ACOVA
from acova.bench import paper_names, paper_spec
from acova.bench.statistics import interval
from acova.data.datasets.catalogue import CATALOGUE
from acova.estimators.recipes import OTHERWISE, RECIPES
from acova.estimators.registry import METHODS
from acova.functional import distance_to_identity
from paper_page import (
    DATA,
    PAGE,
    PUBLISHED,
    RATES,
    ROOT,
    accuracies,
    as_written,
    rows_of,
    short,
    spread,
    stored,
    tables,
)


class TestNames:
    def test_code_exists(self):
        named = re.findall(r"`([\w/]+\.py)`: ((?:`\w+`(?:, )?)+)", PAGE)
        assert len(named) > 15
        for path, names in named:
            source = (ROOT / "src" / "acova" / path).read_text()
            for name in re.findall(r"\w+", names):
                assert re.search(rf"^\s*(?:def|class) {name}\b", source, flags=re.MULTILINE), f"{path}: {name}"

    def test_tests_and_scripts_exist(self):
        paths = re.findall(r"\b((?:tests|benchmarks|docs/_site)/[\w/]+\.py)", PAGE)
        assert paths
        assert not [path for path in paths if not (ROOT / path).is_file()]

    def test_experiments_exist(self):
        assert set(re.findall(r"acova paper\s+([a-z]\w+)", PAGE)) <= set(paper_names())

    def test_what_is_called_not_measured_has_no_store(self):
        """Whoever runs one of these experiments and stores its rows says on the page what came out."""
        waiting = {
            name
            for line in PAGE.splitlines()
            if line.startswith("| ") and "not measured yet" in line
            for name in re.findall(r"`acova paper (\w+)`", line)
        }
        assert waiting
        assert not [name for name in waiting if (ROOT / "results" / f"{name}.jsonl").exists()]


class TestTable1:
    def test_acova(self):
        cells = accuracies("table1")
        rows = tables("Table 1")[0]
        assert {name: rows[name] for name in DATA} == {name: as_written(cells, name, "ACOVA") for name in DATA}
        below = sum(
            cells.loc[(d, "ACOVA", r), "mean"] < cells.loc[(d, "ACOVA", r), "published_mean"]
            for d in DATA
            for r in RATES
        )
        assert below == 19
        assert "lower ACC in 19 of 20 cells, by 5.6 points" in PAGE

    def test_distances_to_the_published_figures(self):
        cells = accuracies("table1").reset_index()
        cells = cells[cells["published_mean"].notna()]
        points = (100 * (cells["mean"] - cells["published_mean"])).abs().groupby(cells["method"])
        rows = tables("Table 1")[1]
        for method in PUBLISHED:
            of_method = points.get_group(method)
            expected = [str(len(of_method)), f"{of_method.mean():.1f}", str((of_method <= 5).sum())]
            assert rows[method] == expected, method
        assert sum(int(rows[method][0]) for method in PUBLISHED) == 140
        assert "140 of 216 cells" in PAGE

    def test_ranks(self):
        means = stored("table1").means("acc")[PUBLISHED].dropna()
        assert len(means) == 12
        ranks = means.rank(axis=1, ascending=False)
        assert (ranks["ACOVA"] <= 2).sum() == 8
        assert (ranks["MVP"] == 1).sum() == 9
        both = stored("table1").means("acc")[["ACOVA", "DVIMC"]].dropna()
        ahead = both["ACOVA"] > both["DVIMC"]
        assert (ahead.sum(), len(both)) == (10, 20)
        assert (ahead["scene15"].all(), ahead["fashion"].any()) == (True, False)

    def test_the_published_table_itself(self):
        rows = rows_of(ROOT / "src/acova/bench/paper/published/table1.csv")
        of = {(r["dataset"], r["missing_percent"], r["metric"], r["method"]): (r["mean"], r["std"]) for r in rows}
        places = {place[:3] for place in of}
        better = [
            sum(
                float(of[(*place, method)][0]) > float(of[(*place, "ACOVA")][0])
                for method in {k[3] for k in of} - {"ACOVA"}
            )
            for place in places
        ]
        assert (len(places), max(better), sum(map(bool, better))) == (96, 1, 8)
        ablation = [
            r
            for r in rows_of(ROOT / "src/acova/bench/paper/published/table2.csv")
            if r["method"] == "without_correlation"
        ]
        assert len(ablation) == 32
        for r in ablation:
            assert (r["mean"], r["std"]) == of[r["dataset"], r["missing_percent"], r["metric"], "DVIMC"]

    def test_seeds_of_handwritten(self):
        rows = [json.loads(line) for line in (ROOT / "results/quality.jsonl").read_text().splitlines()]
        kept = [r["acc"] for r in rows if r["dataset"] == "handwritten" and r["settings"]["precision"] == "auto"]
        mean, deviation = spread(kept)
        assert len(kept) == 20
        assert f"have {short(mean)} ± {short(deviation)}," in PAGE


class TestTable2:
    @pytest.mark.parametrize(("place", "data"), [(0, "handwritten"), (1, "scene15")])
    def test_every_row(self, place, data):
        rows = tables("Table 2")[place]
        names = [method.name for method in paper_spec("table2").methods]
        assert list(rows)[1:] == names
        assert {name: rows[name] for name in names} == {n: as_written(accuracies("table2"), data, n) for n in names}

    def test_differences(self):
        script = ROOT / "docs" / "_site" / "introduction.py"
        spec = importlib.util.spec_from_file_location("introduction", script)
        introduction = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(introduction)
        results = introduction.stored()
        rows = tables("Table 2")[2]
        for data in ("handwritten", "scene15"):
            found = [introduction.difference(results, data, rate) for rate in RATES]
            assert rows[data] == [f"{mean:+.1f} ± {half:.1f}".replace("-", "−") for mean, half in found]

    def test_with_the_librarys_training_neither_independence_nor_the_marginal_form_can_be_told_from_the_learned_r(self):
        results = stored("learned_r")
        for data in ("handwritten", "scene15", "cub"):
            for method in ("R = I", "marginal form"):
                for rate in (30.0, 70.0):
                    mean, half = interval(results.differences("acc", data, rate, method))
                    assert abs(mean) <= half

    def test_learned_r_is_ahead_in_three_cells(self):
        means = stored("table2").means("acc")
        assert (means["learned R"] > means["without correlation"]).sum() == 3


def test_runtime_and_growth():
    folder = ROOT / "benchmarks" / "results"
    speed = {
        (r["device"], r["dataset"], r["runs"]): float(r["seconds_per_run_epoch"]) for r in rows_of(folder / "speed.csv")
    }
    said = [f"{speed['NVIDIA H200', name, '1']:.{digits}f}" for name, digits in (("scene15", 4), ("noisymnist", 3))]
    assert f"{said[0]} s per epoch of training on\nscene15 and {said[1]} s on noisymnist" in PAGE
    grown = {
        (r["axis"], r["value"], r["what"]): float(r["seconds"])
        for r in rows_of(folder / "growth.csv")
        if r["device"].startswith("cpu")
    }
    assert f"take {grown['N', '65536', 'epoch'] / grown['N', '1024', 'epoch']:.0f} times as long" in PAGE
    fusion = [f"{1000 * grown['V', views, 'precision']:.{digits}f} ms" for views, digits in (("32", 1), ("128", 0))]
    assert f"{fusion[0]} per batch of 256 at 32 views, {fusion[1]} at 128" in PAGE


class TestCalibration:
    VARIANTS = ("R = I", "ρ = 0.3", "learned R", "marginal form")
    CELLS = tuple((name, rate) for name in ("handwritten", "scene15", "cub") for rate in (30.0, 70.0))

    def per_run(self, metric, name, variant, rate):
        results = stored("calibration")
        rows = [results.rows[name, rate, variant, run] for run in range(results.spec.runs)]
        return np.array([row["records"]["calibration"][metric] for row in rows])

    def test_tables(self):
        for metric, rows in zip(("coverage", "surer", "ece_drawn"), tables("Calibration"), strict=True):
            for name, rate in self.CELLS:
                cells = [spread(self.per_run(metric, name, variant, rate)) for variant in self.VARIANTS]
                assert rows[f"{name}, {rate:g} %"] == [f"{short(mean)} ± {short(std)}" for mean, std in cells]

    def test_the_product_of_experts_is_the_least_overconfident(self):
        for name, rate in self.CELLS:
            runs = {variant: self.per_run("coverage", name, variant, rate) for variant in self.VARIANTS}
            assert max(runs, key=lambda variant: runs[variant].mean()) == "R = I"
            assert runs["R = I"].mean() < 0.9
            assert (runs["learned R"] < runs["R = I"]).all()

    @pytest.mark.parametrize("metric", ["ece_drawn", "brier_drawn", "auroc_drawn"])
    def test_paired_differences(self, metric):
        apart = set()
        for place in self.CELLS:
            name, rate = place
            pairs = self.per_run(metric, name, "learned R", rate) - self.per_run(metric, name, "R = I", rate)
            mean, half = interval(pd.Series(pairs))
            if abs(mean) > half:
                apart.add(place)
        assert apart == ({("scene15", 30.0)} if metric == "auroc_drawn" else set())


def test_seconds_of_cub_and_of_many_views():
    section_text = " ".join(PAGE.split())
    cells = stored("runtime").cells
    cells = cells[(cells["dataset"] == "cub") & (cells["metric"] == "seconds_per_epoch")].set_index("method")["mean"]
    for method in ("PMIMC", "DCP", "CPSPAN", "ACOVA", "MVP", "DVIMC", "DSIMVC"):
        assert f"{method} {1000 * cells[method]:.1f}" in section_text
    rows = stored("views").rows
    ends = (("2", " with 2 views"), ("4", " with 4"), ("8", " with 8"), ("16", " with 16"), ("32", " with 32"))
    for views, end in ends:
        later = [row["seconds"] for key, row in rows.items() if key[0] == f"made, {views} views" and key[3] > 0]
        assert len(later) == 2
        assert f"{np.mean(later):.2f} s{end}" in section_text


def test_correlations_of_the_simulation():
    results = stored("simulation")
    rows = tables("Figure 3")[0]
    for noise in ("0.0", "0.5", "1.0"):
        for missing, cell in zip((0, 10, 30, 50, 70), rows[noise], strict=True):
            of_runs = [results.rows[f"noise {noise}", float(missing), "ACOVA", run] for run in range(results.spec.runs)]
            mean, deviation = spread([row["records"]["correlation"]["matrix"][0][1] for row in of_runs])
            assert cell == f"{short(mean)} ± {short(deviation)}"
    scores = results.means("acc")["ACOVA"].unstack("missing_percent")
    said = [
        f"{low:.2f} to {high:.2f}".replace("0.", ".") for low, high in zip(scores.min(1), scores.max(1), strict=True)
    ]
    assert f"ACC is {said[0]}, {said[1]} and, with one copy black, {said[2]}" in PAGE.replace("\n", " ")


def test_distances_of_r_from_the_identity():
    rows = [json.loads(line) for line in (ROOT / "results/quality.jsonl").read_text().splitlines()]
    for name, (runs, distance, largest) in list(tables("R on real data")[0].items())[1:]:
        of_data = [r for r in rows if r["dataset"] == name and r["settings"]["precision"] == "auto"]
        mean, deviation = spread([r["correlation_distance"] for r in of_data])
        n_views = len(CATALOGUE[name].view_sizes)
        assert (runs, distance) == (str(len(of_data)), f"{mean:.3f} ± {deviation:.3f}")
        assert largest == f"{distance_to_identity(torch.ones(n_views, n_views)):.3f}"


def test_how_many_views_each_mask_generator_keeps():
    rows = tables("Errata")[0]
    for n_views in (5, 6):
        counts = range(1, n_views)
        even = [short(1 / (n_views - 1))[:3]] * (n_views - 1)
        subsets = [f"{math.comb(n_views, kept) / (2**n_views - 2):.2f}"[1:] for kept in counts]
        assert [cell for cell in rows[f"V = {n_views}, program (`uniform_size`)"] if cell] == even
        assert [cell for cell in rows[f"V = {n_views}, appendix (`uniform_subset`)"] if cell] == subsets


class TestPresets:
    def test_of_acova(self):
        rows = tables("Presets")[0]
        names = rows.pop("setting")[:-1]
        assert set(names) == set(ACOVA.presets)
        for place, name in enumerate(names):
            settings = ACOVA.preset(name, recipe="paper").get_settings()
            recipe = OTHERWISE | RECIPES["paper"]
            resolved = {key: recipe.get(key) if value is None else value for key, value in settings.items()}
            stated = {key: eval(cells[place], {}) for key, cells in rows.items()}  # decays are written as powers
            assert stated == {key: resolved[key] for key in stated}
            assert set(ACOVA.presets[name]) <= set(stated)

    def test_of_the_compared_methods(self):
        rows = tables("Presets")[1]
        names = rows.pop("method")
        for method, cells in rows.items():
            for name, cell in zip(names, cells, strict=True):
                stated = {key: ast.literal_eval(value) for key, value in re.findall(r"`(\w+)=([^`]+)`", cell)}
                preset = dict(METHODS[method].presets[name])
                assert preset.pop("n_clusters") == CATALOGUE[name].n_classes
                assert stated == preset, f"{method} on {name}"

    def test_methods_without_a_row(self):
        rows = tables("Presets")[1]
        for method in set(METHODS) & {"KNNImpute", "AgreementGraph"}:
            assert all(set(preset) == {"n_clusters"} for preset in METHODS[method].presets.values())
        for method in ("CoDE", "MoE", "WeightedFusion"):
            assert METHODS[method].presets == ACOVA.presets
            assert method not in rows


def test_the_framework_figure_is_what_its_script_draws():
    script = ROOT / "docs" / "_site" / "framework.py"
    spec = importlib.util.spec_from_file_location("framework", script)
    framework = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(framework)
    assert framework.drawn() == framework.TARGET.read_text()


class TestCorrelationOnRealData:
    @staticmethod
    def matrices(name):
        """Return the stored matrices R of the runs, by data set, method and rate."""
        found = {}
        for (data, rate, method, _), row in stored(name).rows.items():
            correlation = row.get("records", {}).get("correlation")
            if correlation:
                found.setdefault((data, method, int(rate)), []).append(np.array(correlation["matrix"]))
        return found

    def norms(self, name):
        found = self.matrices(name)
        return {place: [np.linalg.norm(R - np.eye(len(R))) for R in runs] for place, runs in found.items()}

    def test_over_the_missing_rates(self):
        norms = self.norms("r_missing")
        (rows,) = [table for table in tables("R on real data") if "marginal form" in table]
        for method in ("masked precision", "marginal form"):
            runs = [norms["handwritten", method, rate] for rate in (10, 30, 50, 70, 90)]
            assert {len(each) for each in runs} == {5}
            assert rows[method] == [f"{np.mean(each):.2f} ± {np.std(each, ddof=1):.2f}" for each in runs]

    def test_entries_over_runs(self):
        found = self.matrices("r_missing")
        of_rate = {rate: np.array(found["handwritten", "masked precision", rate]) for rate in (10, 90)}
        assert all(matrices.std(axis=0, ddof=1).max() < 0.025 for matrices in of_rate.values())
        mean, (fou, fac, kar, zer, pix, mor) = of_rate[10].mean(axis=0), range(6)
        assert [round(mean[fac, pix], 2), round(mean[kar, pix], 2)] == [0.70, 0.70]
        assert np.round([mean[mor, :mor].min(), mean[mor, :mor].max()], 2).tolist() == [0.25, 0.32]
        others = mean[np.ix_([fou, fac, kar, zer, pix], [fou, fac, kar, zer, pix])][np.triu_indices(5, 1)]
        assert np.round([others.min(), others.max()], 2).tolist() == [0.62, 0.70]

    def test_over_the_epochs(self):
        norms = self.norms("r_epochs")
        rows = tables("R over the epochs")[0]
        assert rows.pop("") == ["1", "10", "50", "100", "300"]
        for place, cells in rows.items():
            data, rate = place.removesuffix(" %").split(", ")
            runs = [norms[data, f"ACOVA, epochs={epochs}", int(rate)] for epochs in (1, 10, 50, 100, 300)]
            assert cells == [f"{norm:.2f}" for (norm,) in runs]
