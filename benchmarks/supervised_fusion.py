"""A supervised network with missing modalities: learned correlation of errors against the product of experts.

    OMP_NUM_THREADS=1 python benchmarks/supervised_fusion.py --runs 3

Made data: two targets, standard normal. Each of four modalities sees them with errors of standard deviation 0.7, of
which the share rho is common to all modalities, through a random nonlinear map to 20 features. 2,000 samples train,
4,000 test; half of them lack some modalities. One small network per modality says mean and standard deviation, which
`acova.networks.CorrelatedFusion` fuses; the loss is the Gaussian likelihood of the targets. The same networks, seeds
and order of batches are trained with R = I ("product"). Printed are error and mean negative log-likelihood on test
samples, the share of targets in the 90 % intervals by the number of modalities, and the mean correlation that was
learned.
"""

import argparse

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

VIEWS, FEATURES, TRAINED, TESTED = 4, 20, 2000, 4000
FUSIONS = {
    "learned, marginal": {"missing": "marginal"},
    "learned, precision": {"missing": "precision"},
    "product": {"learn": False},
}


def made(run: int, rho: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return features (N, V, 20), targets (N, 2) and what is observed (N, V)."""
    from acova.data import make_observed

    count = TRAINED + TESTED
    numbers = np.random.default_rng(run)
    targets = numbers.normal(size=(count, 2))
    common, own = numbers.normal(size=(count, 1, 2)), numbers.normal(size=(count, VIEWS, 2))
    seen = targets[:, None] + 0.7 * (np.sqrt(rho) * common + np.sqrt(1 - rho) * own)
    hidden = np.tanh(0.5 * np.einsum("nvd,vdh->nvh", seen, numbers.normal(size=(VIEWS, 2, 40))))
    features = np.einsum("nvh,vhp->nvp", hidden, numbers.normal(size=(VIEWS, 40, FEATURES)) / 6)
    observed = make_observed(count, VIEWS, 0.5, random_state=run)
    return torch.tensor(features).float(), torch.tensor(targets).float(), torch.tensor(observed)


class Estimator(nn.Module):
    """One small network per modality, and the fusion of what they say."""

    def __init__(self, fusion: nn.Module) -> None:
        super().__init__()
        layers = [nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, 4)) for _ in range(VIEWS)]
        self.encoders, self.fusion = nn.ModuleList(layers), fusion

    def forward(self, features: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and variances of the targets."""
        said = torch.stack([encoder(part) for encoder, part in zip(self.encoders, features.unbind(1), strict=True)], 1)
        mean, scale = said.chunk(2, dim=-1)
        fused = self.fusion(mean, nn.functional.softplus(scale) + 1e-3, observed)
        return fused.mean, fused.variance


def measure(run: int, rho: float, name: str, epochs: int) -> dict[str, float]:
    """Train one network; return how well it does on new samples."""
    from acova.networks import CorrelatedFusion

    torch.manual_seed(run)
    network = Estimator(CorrelatedFusion(VIEWS, **FUSIONS[name]))
    features, targets, observed = made(run, rho)
    optimiser = torch.optim.Adam(network.parameters(), lr=3e-3)
    order = torch.Generator().manual_seed(run)
    for _ in range(epochs):
        for rows in torch.randperm(TRAINED, generator=order).split(100):
            mean, variance = network(features[rows], observed[rows])
            loss = nn.functional.gaussian_nll_loss(mean, targets[rows], variance, full=True)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        mean, variance = network(features[TRAINED:], observed[TRAINED:])
        true, seen = targets[TRAINED:], observed[TRAINED:].sum(1)
        inside = ((mean - true).abs() <= 1.6449 * variance.sqrt()).float().mean(1)
        matrix = network.fusion.correlation()
        found = {
            "error": float((mean - true).square().mean().sqrt()),
            "nll": float(nn.functional.gaussian_nll_loss(mean, true, variance, full=True)),
            **{f"in 90 %, {count}": float(100 * inside[seen == count].mean()) for count in range(1, VIEWS + 1)},
            "learned rho": float((matrix.sum() - VIEWS) / (VIEWS * (VIEWS - 1))),
        }
    return {"run": run, "rho": rho, "fusion": name, **found}


def main() -> None:
    """Print the mean over the runs, and the spread of the likelihood."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    given = parser.parse_args()
    rows = [
        measure(run, rho, name, given.epochs) for rho in (0.0, 0.8) for name in FUSIONS for run in range(given.runs)
    ]
    table = pd.DataFrame(rows).groupby(["rho", "fusion"], sort=False)
    print(table.mean().drop(columns="run").round(3).to_string(), "\n")
    print(table["nll"].std().round(4).to_string())


if __name__ == "__main__":
    main()
