"""What only a GPU can show; skipped where there is none."""

import numpy as np
import pytest
import torch

from acova import ACOVA
from acova.functional import fuse

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


def test_a_fit_on_the_gpu_matches_one_on_the_cpu():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(3, 20)) * 3
    labels = np.repeat(np.arange(3), 50)
    views = [centres[labels] + rng.normal(size=(150, 20)) for _ in range(2)]
    views[0][:30] = np.nan
    settings = {"hidden": (32,), "pretrain_epochs": 3, "warmup_epochs": 3, "epochs": 3, "random_state": 0}
    gpu = ACOVA(3, device="cuda", **settings).fit(views)
    cpu = ACOVA(3, device="cpu", **settings).fit(views)
    np.testing.assert_allclose(gpu.transform(views), cpu.transform(views), rtol=2e-3, atol=2e-3)
    np.testing.assert_array_equal(gpu.labels_, cpu.labels_)
