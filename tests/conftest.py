import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.cluster import KMeans

from acova.data import Views

SHARED_DATASETS = Path(__file__).resolve().parents[2] / "shared" / "datasets"
SMALL = {
    "n_init": 1,
    "consensus": False,
    "hidden": (32,),
    "latent_dim": 4,
    "pretrain_epochs": 5,
    "warmup_epochs": 10,
    "epochs": 10,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "random_state": 0,
}
"""Settings under which a fit takes a fraction of a second and still finds separated clusters."""

NASTY = ("<script>window.hacked = 1</script>", "a & \"b\" 'c'", "{{ 7 * 7 }}</script><b>")
"""Names that a careless page would run."""

settings.register_profile("no deadline", deadline=None)  # a busy machine is no failure
settings.load_profile("no deadline")

os.environ.setdefault("ACOVA_JOBS", "1")  # tests run side by side themselves

if SHARED_DATASETS.is_dir():
    os.environ.setdefault("ACOVA_DATA", str(SHARED_DATASETS))


class AnotherKMeans(KMeans):
    """k-means as on another machine: other restarts find the clusters, under other numbers and rounded otherwise."""

    restarts_later = 1000

    def fit(self, X, y=None, sample_weight=None):
        self.random_state = (self.random_state + self.restarts_later) % 2**32
        super().fit(X, sample_weight=sample_weight)
        order = np.roll(np.arange(self.n_clusters)[::-1], 1)
        self.cluster_centers_ = self.cluster_centers_[order] * (1 + 1e-15)
        self.labels_ = np.argsort(order)[self.labels_].astype(self.labels_.dtype)
        self.inertia_ *= 1 + 1e-15
        return self


def make_toy(n_samples=240, n_clusters=3, sizes=(8, 12, 5), missing=0.5, seed=0) -> tuple[Views, np.ndarray]:
    """Clusters far apart, seen through noisy linear views, some of them missing."""
    from acova.data import make_observed

    rng = np.random.default_rng(seed)
    labels = np.arange(n_samples) % n_clusters
    centres = 4 * rng.normal(size=(n_clusters, 6))
    latent = centres[labels] + 0.3 * rng.normal(size=(n_samples, 6))
    names = ["image", "text", "sound", "depth"][: len(sizes)]
    arrays = {
        name: latent @ rng.normal(size=(6, size)) + 0.2 * rng.normal(size=(n_samples, size))
        for name, size in zip(names, sizes, strict=True)
    }
    observed = make_observed(n_samples, len(sizes), missing, random_state=seed)
    return Views.of(arrays, observed), labels


@pytest.fixture
def device() -> Iterator[Path]:
    """A device that a careless program cannot replace by a file: its file system holds terminals only."""
    ours, theirs = os.openpty()
    yield Path(os.ttyname(theirs))
    os.close(ours)
    os.close(theirs)


@pytest.fixture(scope="session")
def toy() -> tuple[Views, np.ndarray]:
    return make_toy()


@pytest.fixture(scope="session")
def toy_file(toy, tmp_path_factory):
    """The toy as a file, for fits in processes of their own."""
    path = tmp_path_factory.mktemp("data") / "toy.npz"
    np.savez(path, observed=toy[0].observed, **dict(zip(toy[0].names, toy[0].arrays, strict=True)))
    return path


@pytest.fixture(scope="session")
def fitted(toy):
    from acova import ACOVA

    return ACOVA.from_settings(3, **SMALL).fit(toy[0])


@pytest.fixture
def rival_package(tmp_path, monkeypatch):
    """Install a package that registers methods: two of ours under it, a foreign one, and one that is broken."""
    from acova.estimators.registry import registered

    site = tmp_path / "site"
    (site / "rival-1.0.dist-info").mkdir(parents=True)
    (site / "rival-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: rival\nVersion: 1.0\n")
    (site / "rival-1.0.dist-info" / "entry_points.txt").write_text(
        "[acova.methods]\nRival = rival:Rival\nother-name = rival:Namesake\nForeign = rival:Foreign\n"
        "Broken = rival:Nothing\n"
    )
    (site / "rival.py").write_text(
        "from acova import Concat\n\nclass Rival(Concat): pass\nclass Namesake(Concat): pass\n"
        "class Foreign:\n    def __init__(self, n_clusters): self.n_clusters = n_clusters\n"
        "    def fit_predict(self, views): return [row % self.n_clusters for row in range(len(views[0]))]\n"
    )
    monkeypatch.syspath_prepend(site)
    registered.cache_clear()
    yield site
    registered.cache_clear()
    sys.modules.pop("rival", None)


@pytest.fixture(scope="session")
def nasty():
    """A model whose views, features and samples have names that a careless page would run."""
    import pandas as pd

    from acova import ACOVA

    views, _ = make_toy()
    names = [f"<img src=x onerror='window.hacked=1'> {i}" if i % 2 else f"sample {i}" for i in range(len(views))]
    frames = {
        name: pd.DataFrame(a, index=names, columns=[f"</script><script>window.hacked={i}//" for i in range(a.shape[1])])
        for name, a in zip(NASTY, views.arrays, strict=True)
    }
    return ACOVA.from_settings(3, **SMALL).fit(frames)


@pytest.fixture
def acova(monkeypatch, capsys):
    """Run the command in this process; return exit code, standard output and standard error."""
    from acova.cli import main

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["acova", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        return code, *capsys.readouterr()

    return run
