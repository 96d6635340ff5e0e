"""The demonstration: ACOVA on embedded data with missing views, beside k-means of imputed tables."""

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acova.data import Dataset, Views, load_dataset, make_observed
from acova.estimators import ACOVA, Concat, KNNImpute, MultiViewClusterer
from acova.metrics import clustering_scores
from acova.plots import save_figures
from acova.training.run_folder import check_free, writing

SETTINGS: dict[str, Any] = {"hidden": (256, 256), "pretrain_epochs": 20, "warmup_epochs": 80, "epochs": 80}
"""Small enough for a laptop; everything else is ACOVA's default."""


@dataclass(frozen=True)
class DemoResult:
    """What the demonstration shows."""

    dataset: Dataset
    views: Views
    model: ACOVA
    scores: dict[str, dict[str, float]]
    seconds: float
    figures: list[Path]
    report: Path


def run_demo(
    folder: str | Path, *, missing: float = 0.5, seed: int = 0, verbose: bool = False, overwrite: bool = False
) -> DemoResult:
    """Cluster ``digits`` with views hidden, save the run, its figures and its report to `folder`, and score it."""
    with writing(folder):
        check_free(folder, overwrite=overwrite)
        return _demonstrated(folder, missing, seed, verbose=verbose, overwrite=overwrite)


def _demonstrated(folder: str | Path, missing: float, seed: int, *, verbose: bool, overwrite: bool) -> DemoResult:
    dataset = load_dataset("digits")
    observed = make_observed(dataset.views.n_samples, dataset.views.n_views, missing, random_state=seed)
    views = dataset.views.hide(observed)
    start = time.perf_counter()
    model = ACOVA.from_settings(10, random_state=seed, verbose=verbose, **SETTINGS).fit(views)
    seconds = time.perf_counter() - start
    model.save(folder, overwrite=overwrite)
    simple: dict[str, MultiViewClusterer] = {
        "mean-filled k-means": Concat(10),
        "KNN-imputed k-means": KNNImpute(10, standardize="auto"),
    }
    fitted = {name: method.set_params(random_state=seed).fit(views) for name, method in simple.items()}
    scores = {
        name: clustering_scores(np.asarray(dataset.labels), method.labels_)
        for name, method in {**fitted, "ACOVA": model}.items()
    }
    figures = save_figures(model, views, Path(folder) / "figures")
    digit = {"digit": np.asarray(dataset.labels, dtype=str)}
    report = model.report(Path(folder) / "report.html", views=views, covariates=digit)
    return DemoResult(dataset, views, model, scores, seconds, figures, report)
