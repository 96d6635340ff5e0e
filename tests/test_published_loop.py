import importlib.util
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from acova.data import Dataset, Scaling, Views, make_observed
from acova.functional import Fused, correlation_matrix, fuse, log_joint, objective_parts, total_reconstruction
from acova.metrics import clustering_accuracy
from conftest import make_toy

FILE = Path(__file__).resolve().parents[1] / "benchmarks" / "published_loop.py"
SMALL = {"latent_dim": 4, "hidden": (16,), "batch_size": 32, "learning_rate": 3e-3, "alpha": 5.0}


@pytest.fixture(scope="module")
def published():
    spec = importlib.util.spec_from_file_location("published_loop", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _scaled(views: Views) -> tuple[list[np.ndarray], np.ndarray]:
    return Scaling.fit(views, ("zscore",) * views.n_views).transform(views), views.observed


def _observed(n_samples: int, n_views: int) -> torch.Tensor:
    return torch.from_numpy(make_observed(n_samples, n_views, 0.7, random_state=0))


def _packed(theta: torch.Tensor) -> torch.Tensor:
    rows, columns = torch.tril_indices(*theta.shape)
    return theta[rows, columns]


@pytest.mark.parametrize("n_views", [1, 2, 5])
def test_fusion_is_the_librarys_but_for_its_constant(published, n_views):
    torch.manual_seed(n_views)
    theta = torch.randn(n_views, n_views, dtype=torch.float64).abs()
    mean = torch.randn(30, n_views, 4, dtype=torch.float64)
    std = 0.2 + torch.rand(30, n_views, 4, dtype=torch.float64)
    observed = _observed(30, n_views) if n_views > 1 else torch.ones(30, 1, dtype=torch.bool)
    matrix = published.correlation(theta)
    torch.testing.assert_close(matrix, correlation_matrix(_packed(theta)))
    fused_mean, fused_variance = published.aggregate(mean, std, observed, matrix)
    expected = fuse(mean, std, observed, matrix, "precision")
    torch.testing.assert_close(fused_mean, expected.mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fused_variance, expected.variance, rtol=1e-4, atol=1e-4)


def test_loss_is_composed_of_the_librarys_parts(published):
    rng = np.random.default_rng(0)
    sizes, n_samples, likelihoods = (7, 5, 9), 40, ["gaussian", "bernoulli", "gaussian"]
    observed = make_observed(n_samples, 3, 0.7, random_state=0)
    arrays = [rng.random((n_samples, size)) * observed[:, v, None] for v, size in enumerate(sizes)]
    loop = published.PublishedLoop(arrays, observed, 5, latent_dim=3, hidden=(8, 6), likelihoods=likelihoods)
    network = loop.network.double()
    with torch.no_grad():
        network.weights.copy_(torch.linspace(0.1, 0.3, 5))
        network.means.normal_()
        network.stds.uniform_(-1.5, -0.5)  # signs are free
        network.means[0] += 20  # under the floor everywhere
    views, seen = [view.double() for view in loop.views], loop.observed
    noise = torch.randn(2, n_samples, 3, dtype=torch.float64)
    ours = network.loss(views, seen, noise, alpha=7.0)

    estimates = [view(rows) for view, rows in zip(network.views, views, strict=True)]
    mean, std = (torch.stack(parts, 1) for parts in zip(*estimates, strict=True))
    fused = fuse(mean, std, seen, correlation_matrix(_packed(network.theta)))
    precision = 1 / fused.variance
    fused = Fused(fused.mean * precision / (precision + 1e-5), 1 / (precision + 1e-5), fused.weights)
    decoded, assigned = (fused.mean + fused.variance.sqrt() * draw for draw in noise)
    prior = network.weights.log(), network.means, network.stds.square()
    joint = log_joint(assigned, *prior).exp() + 1e-10
    shares = (joint / joint.sum(-1, keepdim=True)).log()
    outputs = [view.decoder(decoded) for view in network.views]
    decoded = total_reconstruction(views, outputs, seen.double(), likelihoods)
    parts = objective_parts(decoded, seen, (mean, std), fused, shares, prior)
    theirs = parts.mean().total(7.0)
    torch.testing.assert_close(ours, theirs)
    parameters = list(network.parameters())
    for one, other in zip(*(torch.autograd.grad(loss, parameters) for loss in (ours, theirs)), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("missing", [0.5, 1.0])
def test_clusters_start_from_averaged_codes(published, missing):
    views, _ = make_toy(missing=missing)
    arrays, observed = _scaled(views)
    loop = published.PublishedLoop(arrays, observed, 3, **SMALL)
    loop.pretrain(2)
    loop.start_clusters()
    with torch.no_grad():
        codes = [network.code(rows).numpy() for network, rows in zip(loop.network.views, loop.views, strict=True)]
    rows = observed.all(1) if missing < 1 else slice(None)
    averaged = [
        np.mean([code[i] for code, seen in zip(codes, observed[i], strict=True) if seen], axis=0)
        for i in np.arange(len(observed))[rows]
    ]
    centres = KMeans(3, n_init=10, random_state=0).fit(np.array(averaged)).cluster_centers_
    np.testing.assert_allclose(np.sort(loop.network.means.detach(), 0), np.sort(centres, 0), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("per_sample_items", [True, False])
def test_separated_clusters_are_found(published, per_sample_items):
    views, labels = make_toy()
    loop = published.PublishedLoop(*_scaled(views), 3, per_sample_items=per_sample_items, **SMALL)
    loop.pretrain(10)
    loop.start_clusters()
    losses = loop.train(15)
    assert losses[-1] < losses[0]
    assert clustering_accuracy(labels, loop.labels()) > 0.9
    assert loop.network.weights.sum().item() == pytest.approx(1.0, abs=1e-5)
    rates = [group["lr"] for group in loop.optimizer.param_groups]
    np.testing.assert_allclose(rates, np.array([3e-3, 5e-2, 1e-2]) * 0.9 ** (15 / 20))


def test_reading_labels_leaves_training_as_it_was(published):
    views, _ = make_toy(n_samples=60)
    runs = []
    for reads in (False, True):
        loop = published.PublishedLoop(*_scaled(views), 3, seed=1, **SMALL)
        runs.append([loop.train_epoch() for _ in range(3) if not reads or len(loop.labels())])
    assert runs[0] == runs[1]


def test_hidden_entries_do_not_count(published):
    views, labels = make_toy(missing=0)
    hidden = ~make_observed(len(views), views.n_views, 0.5, random_state=2)
    poisoned = [np.where(hidden[:, [v]], 1e6, array) for v, array in enumerate(views.arrays)]
    rows = []
    for arrays in (views.arrays, poisoned):
        dataset = Dataset("toy", Views.of(list(arrays)), labels)
        rows.append(published.one_run(dataset, 0.5, 2, pretrain_epochs=3, epochs=3, **SMALL))
    first, second = ({key: value for key, value in row.items() if key != "seconds"} for row in rows)
    assert first == second
    assert first["method"] == "published loop"
    assert {"dataset", "missing", "run", "acc", "nmi", "ari", "purity"} < set(first)
