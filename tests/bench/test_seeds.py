import json
import sys
from pathlib import Path

import numpy as np
import pytest

from acova import ACOVA
from acova.data import load_dataset, make_observed
from acova.metrics import clustering_accuracy

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def seeds(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import seeds

    yield seeds
    sys.modules.pop("seeds")


def test_the_authors_seed_comes_first_and_is_not_among_the_others(seeds):
    assert seeds.seeds_of("scene15") == [1, 0, *range(2, 21)]
    assert seeds.seeds_of("cub", 3) == [42, 0, 1, 2]
    assert seeds.seeds_of("handwritten", 0) == [19]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_row_is_a_fit_of_the_papers_procedure_and_is_not_run_again(seeds, tmp_path, monkeypatch):
    monkeypatch.setattr(seeds, "MASKS", (1, 2))
    cub = load_dataset("cub")
    tiny = {"hidden": (8,), "pretrain_epochs": 1, "epochs": 1}
    path = tmp_path / "seeds.jsonl"
    seeds.run("cub", 30.0, 1, path, "cpu", tiny)
    before = path.read_text()
    rows = [json.loads(line) for line in before.splitlines()]
    assert [(row["seed"], row["mask"]) for row in rows] == [(42, 1), (0, 1), (42, 2), (0, 2)]
    model = ACOVA.preset("cub", recipe="paper", random_state=0, device="cpu", **tiny)
    model.fit(cub.views, observed=make_observed(600, 2, 0.3, random_state=2))
    assert rows[3]["acc"] == clustering_accuracy(cub.labels, model.labels_)
    seeds.run("cub", 30.0, 1, path, "cpu", tiny)
    assert path.read_text() == before


def test_seeds_are_compared_by_their_means_over_masks(seeds, tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "seeds.jsonl"
    scores = {seed: rng.uniform(0.6, 0.8, 5) for seed in (42, 0, 1, 2)}
    rows = [
        {"dataset": "cub", "missing_percent": 30.0, "seed": seed, "mask": mask, "acc": float(acc)}
        for seed, of_seed in scores.items()
        for mask, acc in enumerate(of_seed, 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (line,) = seeds.summary(seeds.stored(path)).to_dict("records")
    others = [scores[seed].mean() for seed in (0, 1, 2)]
    assert (line["seeds"], line["masks"], line["published"]) == (4, 5, 0.7563)
    assert line["authors"] == pytest.approx(scores[42].mean())
    assert line["others"] == pytest.approx(np.mean(others))
    assert line["others_std"] == pytest.approx(np.std(others, ddof=1))
    assert line["best"] == pytest.approx(max(others))
    assert line["better"] == sum(other > scores[42].mean() for other in others)
    seeds.draw(seeds.stored(path), path)
    assert (tmp_path / "seeds.svg").stat().st_size > 1000
