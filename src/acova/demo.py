"""The demonstration: ACOVA on embedded data with missing views, against mean-filled k-means."""

import time
from dataclasses import dataclass
from pathlib import Path

from acova.base import DataError
from acova.data import Dataset, Views, load_dataset, make_observed
from acova.estimators import ACOVA, Concat
from acova.estimators.storage import check_free, writing
from acova.metrics import clustering_scores
from acova.plots import save_figures

SETTINGS = {"hidden": (256, 256), "pretrain_epochs": 20, "warmup_epochs": 80, "epochs": 80}
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
    model = ACOVA(n_clusters=10, random_state=seed, verbose=verbose, **SETTINGS).fit(views)  # type: ignore[arg-type]
    seconds = time.perf_counter() - start
    model.save(folder, overwrite=overwrite)
    if dataset.labels is None:
        msg = "the embedded digits have lost their classes; install acova again."
        raise DataError(msg)
    baseline = Concat(n_clusters=10, random_state=seed)
    scores = {
        "mean-filled k-means": clustering_scores(dataset.labels, baseline.fit_predict(views)),
        "ACOVA": clustering_scores(dataset.labels, model.labels_),
    }
    figures = save_figures(model, views, Path(folder) / "figures")
    return DemoResult(dataset, views, model, scores, seconds, figures, model.report(Path(folder) / "report.html"))
