"""Clipping and Adam of several runs against torch's own optimiser, one for each run."""

import copy
import subprocess
import sys

import pytest
import torch

from acova.engine import ParameterGroup, Phase, Runs
from acova.engine.optimiser import FusedAdam, TorchAdam

ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
KINDS = [
    (TorchAdam, "cpu"),
    pytest.param(TorchAdam, "cuda", marks=ON_GPU),
    pytest.param(FusedAdam, "cuda", marks=ON_GPU),
]
CLIP = 50.0


RATES = [[0.01], [0.02] * 4, [0.01, 0.02, 0.03, 0.02]]


class Pair:
    """Runs optimised by one of ours, and a twin of each by torch's, all on the same gradients of any size."""

    def __init__(self, kind, device, rates):
        self.generator = torch.Generator().manual_seed(0)
        self.twins = [torch.nn.Linear(70, 40, device=device) for _ in rates]
        self.theirs = [
            torch.optim.Adam([{"params": [twin.weight], "lr": rate}, {"params": [twin.bias], "lr": 0.05}])
            for twin, rate in zip(self.twins, rates, strict=True)
        ]
        self.runs = Runs(copy.deepcopy(self.twins))
        self.runs.train_only(["weight", "bias"])
        groups = [ParameterGroup(["weight"], rates), ParameterGroup(["bias"], 0.05)]
        self.ours = kind(Phase("x", 1, 1, None, groups, clip_norm=CLIP), self.runs)

    def draw(self):
        for name, parameter in self.runs.parameters.items():
            shape = (len(self.twins), *self.twins[0].get_parameter(name).shape)
            scale = 10.0 ** torch.randint(-3, 3, shape[:1] + (1,) * (len(shape) - 1), generator=self.generator)
            gradients = (scale * torch.randn(shape, generator=self.generator)).to(parameter.device)
            for twin, gradient in zip(self.twins, gradients.clone(), strict=True):
                twin.get_parameter(name).grad = gradient
            # Stored the other way round: a gradient need not lie in memory as its parameter does.
            parameter.grad = (
                (gradients if self.runs.stacked else gradients[0]).transpose(0, -1).contiguous().transpose(0, -1)
            )

    def step(self):
        """Let both take a step; return whose gradient was clipped, by theirs."""
        clipped = [torch.nn.utils.clip_grad_norm_(twin.parameters(), CLIP) > CLIP for twin in self.twins]
        for adam in self.theirs:
            adam.step()
        assert self.ours.step().tolist() == [bool(one) for one in clipped]
        return torch.stack(clipped).cpu()

    def check(self):
        for network, twin in zip(self.runs.networks, self.twins, strict=True):
            for mine, other in zip(network.parameters(), twin.parameters(), strict=True):
                torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize(("kind", "device"), KINDS)
def test_every_run_is_optimised_as_torch_would_alone(kind, device, rates):
    pair, clipped = Pair(kind, device, rates), []
    for number in range(20):
        pair.draw()
        clipped.append(pair.step())
        if number == 12:
            pair.ours.decay(0.5)
            for group in (group for adam in pair.theirs for group in adam.param_groups):
                group["lr"] *= 0.5
    pair.check()
    assert {True, False} == set(torch.cat(clipped).tolist())


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize(("kind", "device"), KINDS)
def test_steps_after_a_kept_state_can_be_taken_again(kind, device, rates):
    pair = Pair(kind, device, rates)
    for _ in range(3):
        pair.draw()
        pair.step()
    kept = {name: value.clone() for name, value in pair.ours.state().items()}
    before = {name: value.detach().clone() for name, value in pair.runs.parameters.items()}
    for _ in range(2):
        pair.draw()
        pair.ours.step()
        pair.ours.decay(0.1)
    pair.ours.load(kept)
    for name, value in pair.runs.parameters.items():
        value.data.copy_(before[name])
    for _ in range(3):
        pair.draw()
        pair.step()
    pair.check()


def test_what_has_no_gradient_stays():
    network = torch.nn.Linear(3, 2)
    before = network.bias.detach().clone()
    runs = Runs([network])
    runs.train_only(["weight", "bias"])
    optimiser = TorchAdam(Phase("x", 1, 1, None, [ParameterGroup(["weight", "bias"], 0.1)]), runs)
    network.weight.grad = torch.ones_like(network.weight)
    assert optimiser.step() is None
    assert torch.equal(network.bias, before)


def test_a_fit_imports_no_compiler():
    """Torch's own optimisers import one, which takes a second."""
    script = """
import sys
import numpy as np
from acova import ACOVA
ACOVA(2, hidden=(8,), latent_dim=2, epochs=1, device="cpu").fit([np.random.default_rng(0).normal(size=(40, 3))] * 2)
print("torch._dynamo" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
