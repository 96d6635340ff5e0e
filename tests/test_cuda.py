"""What only a GPU can show; skipped where there is none."""

import numpy as np
import pytest
import torch

from acova import ACOVA
from acova.data import make_observed
from acova.engine import Runs
from acova.engine.runtime import gpu_for_training, network_dtype
from acova.engine.state import Keeper
from acova.engine.step import Step
from acova.engine.trainer import _Draws
from acova.estimators import fit_many
from acova.estimators.registry import METHODS
from acova.functional import Batch, fuse
from acova.metrics import clustering_accuracy
from acova.training import schedule

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


@pytest.mark.parametrize("name", ["DVIMC", "CoDE", "MoE", "WeightedFusion", "MVP", "DCP", "DSIMVC", "CPSPAN", "PMIMC"])
def test_every_method_trains_together_on_the_gpu_as_captured_steps(name, monkeypatch):
    graphs = []
    capture = Step._capture
    monkeypatch.setattr(
        Step, "_capture", lambda self, rows: (capture(self, rows), graphs.extend(self._graphs.values()))
    )
    views, labels = toy()
    known = METHODS[name].setting_names()
    settings = {option: value for option, value in (SHORT | {"epochs": 30}).items() if option in known}
    if name == "DSIMVC":  # collapses when it is narrow or fast
        settings |= {"hidden": (64,), "latent_dim": 32, "learning_rate": 1e-3, "batch_size": 64}
        settings |= {"imputer_epochs": 10, "initial_epochs": 60, "iterations": 60}
    masks = [make_observed(150, 2, 0.3, random_state=run) for run in range(3)]
    models = [METHODS[name].from_settings(3, **settings, random_state=run) for run in range(3)]
    models = fit_many(models, views, masks)
    assert graphs
    assert None not in graphs
    scores = [clustering_accuracy(labels, model.labels_) for model in models]
    assert np.median(scores) > 0.9
    alone = METHODS[name].from_settings(3, **{**settings, "device": "cpu"}, random_state=1)
    alone.fit(views, observed=masks[1])
    assert alone.history_["total"].iloc[0] == pytest.approx(models[1].history_["total"].iloc[0], rel=0.05)


def test_a_fit_on_the_gpu_finds_what_one_on_the_cpu_finds():
    views, labels = toy()
    views[0][:30] = np.nan
    for device in ("cuda", "cpu"):
        model = ACOVA.from_settings(
            3, **SMALL, pretrain_epochs=5, warmup_epochs=10, epochs=10, device=device, random_state=0
        )
        assert clustering_accuracy(labels, model.fit_predict(views)) > 0.95
        assert clustering_accuracy(labels, model.predict([None, views[1]])) > 0.95


def test_captured_steps_are_the_eager_steps(monkeypatch):
    """150 samples in batches of 32: the last, smaller batch has a graph of its own."""
    views, _ = toy()
    captured = ACOVA.from_settings(3, **SHORT, n_init=3, random_state=0).fit(views)
    graphs = []
    capture = Step._capture
    monkeypatch.setattr(Step, "_capture", lambda step, rows: (capture(step, rows), graphs.append(step._graphs)))
    again = ACOVA.from_settings(3, **SHORT, n_init=3, random_state=0).fit(views)
    assert graphs
    assert all(graph is not None for found in graphs for graph in found.values())
    monkeypatch.setattr(Step, "_capture", lambda step, rows: step._graphs.update({rows.shape[1]: None}))
    eager = ACOVA.from_settings(3, **SHORT, n_init=3, random_state=0).fit(views)
    np.testing.assert_allclose(captured.objectives_, again.objectives_, rtol=1e-4)
    np.testing.assert_allclose(captured.objectives_, eager.objectives_, rtol=1e-3)


def test_order_and_noise_drawn_ahead_are_those_drawn_in_time(monkeypatch):
    views, _ = toy()
    drawn = []
    look_ahead = _Draws.look_ahead
    monkeypatch.setattr(_Draws, "look_ahead", lambda draws, epoch: (look_ahead(draws, epoch), drawn.append(epoch)))
    ahead = ACOVA.from_settings(3, **SHORT, n_init=2, random_state=0).fit(views)
    assert drawn
    monkeypatch.setattr(_Draws, "look_ahead", lambda draws, epoch: None)
    in_time = ACOVA.from_settings(3, **SHORT, n_init=2, random_state=0).fit(views)
    np.testing.assert_allclose(ahead.objectives_, in_time.objectives_, rtol=1e-4)


@pytest.mark.parametrize("missing", ["precision", "marginal"])
def test_a_run_among_seven_ends_as_it_does_alone(missing):
    views, _ = toy()
    masks = [make_observed(150, 2, 0.1 * (run + 1), random_state=run) for run in range(7)]
    build = lambda run: ACOVA.from_settings(3, **SHORT, missing=missing, alpha=5.0 + run, random_state=run)  # noqa: E731
    together = fit_many([build(run) for run in range(7)], views, masks)
    for run in (0, 3, 6):
        alone = build(run).fit(views, observed=masks[run])
        assert together[run].objective_ == pytest.approx(alone.objective_, rel=5e-3)
        assert (together[run].labels_ == alone.labels_).mean() > 0.98


def test_runs_are_split_when_memory_runs_out(monkeypatch):
    views, labels = toy()
    sizes = []
    whole = schedule.train_together

    def small_device(jobs, *rest):
        sizes.append(len(jobs))
        if len(jobs) > 2:
            raise torch.cuda.OutOfMemoryError
        return whole(jobs, *rest)

    monkeypatch.setattr(schedule, "train_together", small_device)
    model = ACOVA.from_settings(3, **{**SHORT, "warmup_epochs": 10}, n_init=5, random_state=0).fit(views)
    assert sizes == [5, 3, 2, 2, 1]
    assert clustering_accuracy(labels, model.labels_) > 0.9


@pytest.mark.parametrize(("precision", "far"), [("float32", 1e-4), ("tf32", 1e-2), ("bf16", 5e-2)])
def test_gradients_are_as_exact_as_the_precision_says(precision, far):
    views, _ = toy()
    job = ACOVA.from_settings(3, **{**SHORT, "precision": precision}, random_state=0)._prepare(views, None).jobs[0]
    noise = torch.randn(150, 2, 4, generator=torch.Generator().manual_seed(0))
    results = []
    for dtype, device in ((torch.float64, "cpu"), (torch.float32, "cuda")):
        network = job.network().to(device, dtype)
        if device == "cuda":
            network.compute_in(network_dtype(precision, torch.device("cuda"), network))
        views, targets = ([part.to(device, dtype) for part in parts] for parts in (job.data.views, job.data.targets))
        batch = Batch(views, job.data.observed.to(device), targets)
        with gpu_for_training(precision, torch.device("cuda")):
            network.loss(batch, noise.to(device, dtype))["total"].mean().backward()
        results.append(torch.cat([p.grad.flatten().cpu().double() for p in network.parameters()]))
    exact, ours = results
    assert (ours - exact).norm() < far * exact.norm()
    assert precision != "bf16" or (ours - exact).norm() > 1e-4 * exact.norm()  # it is in use


def test_bf16_finds_the_clusters():
    views, labels = toy()
    views[0][:30] = np.nan
    for n_init in (1, 3):
        settings = {**SMALL, "pretrain_epochs": 5, "warmup_epochs": 10, "epochs": 10, "device": "cuda"}
        model = ACOVA.from_settings(3, **settings, precision="bf16", n_init=n_init, random_state=0).fit(views)
        assert clustering_accuracy(labels, model.labels_) > 0.95


def test_every_run_learns_at_its_own_rate_in_one_computation():
    views, _ = toy()
    build = lambda run: ACOVA.from_settings(3, **{**SHORT, "learning_rate": 1e-3 * (run + 1)}, random_state=run)  # noqa: E731
    together = fit_many([build(run) for run in range(3)], views)
    for run in range(3):
        assert together[run].objective_ == pytest.approx(build(run).fit(views).objective_, rel=5e-3)


@pytest.mark.parametrize(("before", "after"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
@pytest.mark.parametrize("n_init", [1, 3])
def test_a_killed_fit_goes_on_wherever_it_was(tmp_path, monkeypatch, n_init, before, after):
    views, _ = toy()
    settings = {**SHORT, "n_init": n_init, "random_state": 0}
    whole, later = (ACOVA.from_settings(3, **{**settings, "device": device}).fit(views) for device in (before, after))
    settings |= {"checkpoint": tmp_path / "state", "checkpoint_every": 1}
    keep, seen = Keeper.keep, []

    def killed(keeper, state):
        keep(keeper, state)
        seen.append(1)
        if len(seen) == 12:
            raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(Keeper, "keep", killed)
        with pytest.raises(RuntimeError, match="killed"):
            ACOVA.from_settings(3, **{**settings, "device": before}).fit(views)
    model = ACOVA.from_settings(3, **{**settings, "device": after}).fit(views)
    assert model.history_["epoch"].tolist() == whole.history_["epoch"].tolist()
    begun = 1 if before == "cpu" else n_init  # a CPU trains one run after the other, and the GPU those that are left
    expected = [*whole.objectives_[:begun], *later.objectives_[begun:]]
    np.testing.assert_allclose(model.objectives_, expected, rtol=1e-3 if before == after else 1e-2)
    assert (model.labels_ == whole.labels_).mean() > 0.98


def test_streamed_steps_are_captured_too(tmp_path, monkeypatch):
    views, _ = toy()
    paths = []
    for number, view in enumerate(views):
        paths.append(tmp_path / f"{number}.npy")
        np.save(paths[-1], view.astype(np.float32))
    alike = {"neighbor_weight": 0.0, "view_weights": "equal"}  # neighbours are searched in memory alone
    whole = ACOVA.from_settings(3, **SHORT, **alike, random_state=0).fit(views)
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    model = ACOVA.from_settings(3, **SHORT, **alike, random_state=0).fit(paths)
    assert isinstance(model.labels_, np.memmap)
    assert model.objective_ == pytest.approx(whole.objective_, rel=1e-2)


@pytest.mark.parametrize("n_runs", [1, 3])
def test_weights_are_kept_rounded_by_who_moves_them(n_runs, monkeypatch):
    seen = []

    def keeping(runs):
        seen.append([(runs.parameters[name].detach().clone(), kept.clone()) for name, kept in runs.rounded.items()])
        release(runs)

    release = Runs.release
    monkeypatch.setattr(Runs, "release", keeping)
    views, _ = toy()
    models = [ACOVA.from_settings(3, **{**SHORT, "precision": "bf16"}, random_state=run) for run in range(n_runs)]
    models = fit_many(models, views)
    (pairs,) = seen
    assert len(pairs) >= 2
    for weight, kept in pairs:
        assert torch.equal(kept, weight.bfloat16())
    names = [name for model in models for name, _ in model.network_.named_buffers()]
    assert not any(name.endswith("rounded") for name in names)
