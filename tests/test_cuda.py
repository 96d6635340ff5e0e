"""What only a GPU can show; skipped where there is none."""

import numpy as np
import pytest
import torch

from acova import ACOVA
from acova.data import make_observed
from acova.engine.step import Step
from acova.estimators import fit_many, recipe
from acova.functional import fuse
from acova.metrics import clustering_accuracy

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.fixture
def tf32_allowed():
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    yield
    torch.backends.cuda.matmul.allow_tf32 = before


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_fusion_ignores_tf32_and_autocast_forward_and_backward(tf32_allowed, missing):
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(64, 6, 10, generator=generator)
    std = torch.rand(64, 6, 10, generator=generator) + 0.1
    observed = torch.rand(64, 6, generator=generator) < 0.6
    observed[:, 0] = True
    correlation = torch.full((6, 6), 0.95, dtype=torch.float64).fill_diagonal_(1.0)
    results = []
    for device, dtype in (("cpu", torch.float64), ("cuda", torch.float32)):
        inputs = [t.to(device, dtype).requires_grad_() for t in (mean, std)]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            fused = fuse(*inputs, observed.to(device), correlation.to(device), missing)
        (fused.mean.sum() + fused.variance.sum()).backward()
        results.append([fused.mean.detach(), fused.variance.detach(), *(t.grad for t in inputs)])
    for exact, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours.cpu().double(), exact, rtol=2e-5, atol=2e-5)


def toy():
    rng = np.random.default_rng(0)
    labels = np.arange(150) % 3
    latent = 4 * rng.normal(size=(3, 6))[labels] + 0.3 * rng.normal(size=(150, 6))
    return [latent @ rng.normal(size=(6, width)) + 0.2 * rng.normal(size=(150, width)) for width in (8, 12)], labels


SMALL = {"hidden": (32,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3}
SHORT = {**SMALL, "pretrain_epochs": 3, "warmup_epochs": 6, "epochs": 8, "precision": "float32", "device": "cuda"}


def test_a_fit_on_the_gpu_finds_what_one_on_the_cpu_finds():
    views, labels = toy()
    views[0][:30] = np.nan
    for device in ("cuda", "cpu"):
        model = ACOVA(3, **SMALL, pretrain_epochs=5, warmup_epochs=10, epochs=10, device=device, random_state=0)
        assert clustering_accuracy(labels, model.fit_predict(views)) > 0.95
        assert clustering_accuracy(labels, model.predict([None, views[1]])) > 0.95


def test_captured_steps_are_the_eager_steps(monkeypatch):
    """150 samples in batches of 32: the last, smaller batch has a graph of its own."""
    views, _ = toy()
    captured = ACOVA(3, **SHORT, n_init=3, random_state=0).fit(views)
    graphs = []
    capture = Step._capture
    monkeypatch.setattr(Step, "_capture", lambda step, rows: (capture(step, rows), graphs.append(step._graphs)))
    again = ACOVA(3, **SHORT, n_init=3, random_state=0).fit(views)
    assert graphs
    assert all(graph is not None for found in graphs for graph in found.values())
    monkeypatch.setattr(Step, "_capture", lambda step, rows: step._graphs.update({rows.shape[1]: None}))
    eager = ACOVA(3, **SHORT, n_init=3, random_state=0).fit(views)
    np.testing.assert_allclose(captured.objectives_, again.objectives_, rtol=1e-4)
    np.testing.assert_allclose(captured.objectives_, eager.objectives_, rtol=1e-3)


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_a_run_among_seven_ends_as_it_does_alone(missing):
    views, _ = toy()
    masks = [make_observed(150, 2, 0.1 * (run + 1), random_state=run) for run in range(7)]
    build = lambda run: ACOVA(3, **SHORT, missing=missing, alpha=5.0 + run, random_state=run)  # noqa: E731
    together = fit_many([build(run) for run in range(7)], views, masks)
    for run in (0, 3, 6):
        alone = build(run).fit(views, observed=masks[run])
        assert together[run].objective_ == pytest.approx(alone.objective_, rel=5e-3)
        assert (together[run].labels_ == alone.labels_).mean() > 0.98


def test_runs_are_split_when_memory_runs_out(monkeypatch):
    views, labels = toy()
    sizes = []
    whole = recipe._train_together

    def small_device(jobs, *rest):
        sizes.append(len(jobs))
        if len(jobs) > 2:
            raise torch.cuda.OutOfMemoryError
        return whole(jobs, *rest)

    monkeypatch.setattr(recipe, "_train_together", small_device)
    model = ACOVA(3, **{**SHORT, "warmup_epochs": 10}, n_init=5, random_state=0).fit(views)
    assert sizes == [5, 3, 2, 2, 1]
    assert clustering_accuracy(labels, model.labels_) > 0.9
