"""ACOVA in 200 lines: the whole method in plain torch, to be read in one sitting.

Each sample is seen through several views; any of them may be missing. One encoder per view estimates a shared latent
vector z as a Gaussian. The errors of these estimates are correlated across views, and a learned correlation matrix R
says how much; fusing the observed estimates under R gives one posterior. A Gaussian-mixture prior on z gives the
clusters. (Xu et al., "Beyond Independence", ICML 2026.)

    python examples/acova_in_200_lines.py

clusters scikit-learn's digits, seen as pixels and as Fourier magnitudes, half of the samples lacking one of the two.
"""

from itertools import pairwise

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.metrics.cluster import contingency_matrix
from torch import nn
from torch.nn.functional import softplus

LATENT, CLUSTERS, HIDDEN, ALPHA = 10, 10, (256, 256), 10.0


def mlp(*sizes):
    """Linear layers, each followed by a ReLU."""
    layers = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(sizes)]
    return nn.Sequential(*(layer for pair in layers for layer in pair))


class View(nn.Module):
    """One view's encoder (to a mean and a standard deviation) and decoder."""

    def __init__(self, width):
        super().__init__()
        self.body = mlp(width, *HIDDEN)
        self.mean = nn.Linear(HIDDEN[-1], LATENT)
        self.scale = nn.Linear(HIDDEN[-1], LATENT)
        self.decode = nn.Sequential(*mlp(LATENT, *HIDDEN[::-1]), nn.Linear(HIDDEN[0], width))

    def forward(self, x):
        """Return mean and standard deviation, each (batch, LATENT)."""
        h = self.body(x)
        return self.mean(h), 1e-4 + softplus(self.scale(h))


class Acova(nn.Module):
    """Views, the parameter of R, and the mixture prior."""

    def __init__(self, widths):
        super().__init__()
        self.views = nn.ModuleList(View(width) for width in widths)
        self.theta = nn.Parameter(torch.randn(len(widths) * (len(widths) + 1) // 2).abs())
        self.logits = nn.Parameter(torch.zeros(CLUSTERS))
        self.centres = nn.Parameter(torch.zeros(CLUSTERS, LATENT))
        self.spread = nn.Parameter(torch.full((CLUSTERS, LATENT), 0.5397))  # softplus(0.5397) + 0.001 = 1

    def correlation(self):
        """R = LLᵀ with the rows of L normalised: a correlation matrix whatever theta is."""
        n_views = len(self.views)
        rows, columns = torch.tril_indices(n_views, n_views)
        triangle = torch.zeros(n_views, n_views, dtype=torch.float64)
        triangle[rows, columns] = self.theta.double()
        factor = triangle.tril(-1) + torch.diag(triangle.diagonal().exp())
        factor = factor / factor.norm(dim=1, keepdim=True)
        return factor @ factor.T

    def estimate(self, xs):
        """Return every view's mean and standard deviation, each (batch, V, LATENT)."""
        pairs = [view(x) for view, x in zip(self.views, xs, strict=True)]
        return torch.stack([mean for mean, _ in pairs], 1), torch.stack([std for _, std in pairs], 1)

    def fuse(self, mean, std, observed):
        """Return the fused posterior's mean and variance, (batch, LATENT).

        With w = observed/std, the precision is A = wᵀR⁻¹w and the mean wᵀR⁻¹(w·mean)/A: the paper's masked precision.
        """
        w = observed[:, :, None] / std
        shares = w * (torch.linalg.inv(self.correlation()).float() @ w)
        precision = shares.sum(1)
        return (shares * mean).sum(1) / precision, 1 / precision

    def prior(self):
        """Return log weights, means and variances of the mixture."""
        return self.logits.log_softmax(0), self.centres, (0.001 + softplus(self.spread)).square()

    def log_responsibilities(self, z):
        """Return log q(c|z), exactly, by Bayes' rule."""
        log_weights, centres, variances = self.prior()
        z = z[:, None]
        log_density = -0.5 * ((2 * torch.pi * variances).log() + (z - centres).square() / variances).sum(-1)
        return (log_weights + log_density).log_softmax(-1)


def kl(mean, variance, other_mean, other_variance):
    """KL between diagonal Gaussians, summed over the latent dimensions."""
    ratio = variance / other_variance
    return 0.5 * (ratio - ratio.log() + (mean - other_mean).square() / other_variance - 1).sum(-1)


def loss(model, xs, observed, noise, warmup=False):
    """Return the paper's objective for a batch: reconstruction + KL z + KL c + ALPHA · alignment.

    xs: one (batch, width) tensor per view; observed: (batch, V) of 0 and 1; noise: (batch, 2, LATENT), standard normal.
    In the warm-up a standard normal, with a tenth of the weight, stands in for the mixture.
    """
    mean, std = model.estimate(xs)
    fused_mean, fused_variance = model.fuse(mean, std, observed)
    z, other_z = (fused_mean + fused_variance.sqrt() * noise[:, i] for i in (0, 1))

    errors = [(x - view.decode(z)).square().sum(-1) for view, x in zip(model.views, xs, strict=True)]
    reconstruction = (observed * torch.stack(errors, 1)).sum(-1)

    if warmup:
        divergence = 0.1 * kl(fused_mean, fused_variance, torch.zeros(()), torch.ones(()))
    else:
        log_weights, centres, variances = model.prior()
        log_resp = model.log_responsibilities(other_z)
        kl_z = (log_resp.exp() * kl(fused_mean[:, None], fused_variance[:, None], centres, variances)).sum(-1)
        kl_c = (log_resp.exp() * (log_resp - log_weights)).sum(-1)
        divergence = kl_z + kl_c

    to_views = kl(fused_mean[:, None], fused_variance[:, None], mean, std.square())
    alignment = (observed * to_views).sum(-1) / observed.sum(-1)
    return (reconstruction + divergence + ALPHA * alignment).mean()


def pretrain(model, xs, observed, epochs=20):
    """Train each view's auto-encoder on its own, through the mean alone."""
    optimiser = torch.optim.Adam(model.views.parameters(), lr=1e-3)
    for _ in range(epochs):
        for rows in torch.randperm(len(observed)).split(256):
            optimiser.zero_grad()
            for v, (view, x) in enumerate(zip(model.views, xs, strict=True)):
                seen = rows[observed[rows, v] > 0]
                (view.decode(view.mean(view.body(x[seen]))) - x[seen]).square().mean().backward()
            optimiser.step()


@torch.no_grad()
def start_clusters(model, xs, observed):
    """Place the prior's means by k-means on the fused means of all samples."""
    mean, _ = model.fuse(*model.estimate(xs), observed)
    kmeans = KMeans(CLUSTERS, n_init=10, random_state=0).fit(mean.double().numpy())
    model.centres.copy_(torch.from_numpy(kmeans.cluster_centers_))


def train(model, xs, observed, epochs, warmup=False):
    """Train everything together; gradients are clipped because the first ones are enormous."""
    groups = [
        {"params": model.views.parameters(), "lr": 1e-3},
        {"params": [model.centres, model.spread], "lr": 5e-2},
        {"params": [model.logits], "lr": 1e-4},
        {"params": [model.theta], "lr": 1e-2},
    ]
    optimiser = torch.optim.Adam(groups)
    for _ in range(epochs):
        for rows in torch.randperm(len(observed)).split(256):
            noise = torch.randn(len(rows), 2, LATENT)
            objective = loss(model, [x[rows] for x in xs], observed[rows], noise, warmup)
            optimiser.zero_grad()
            objective.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1000.0)
            optimiser.step()
    print(f"after {epochs} epochs: loss {objective.item():.1f}, R = {model.correlation()[0, 1].item():+.2f}")


@torch.no_grad()
def predict(model, xs, observed):
    """Return the most probable cluster at the posterior mean."""
    mean, _ = model.fuse(*model.estimate(xs), observed)
    return model.log_responsibilities(mean).argmax(-1).numpy()


def main():
    """Cluster the digits and print the accuracy."""
    torch.manual_seed(0)
    digits = load_digits()
    spectrum = np.log1p(np.abs(np.fft.rfft2(digits.images))).reshape(len(digits.images), -1)
    observed = torch.ones(len(spectrum), 2)
    incomplete = torch.randperm(len(spectrum))[: len(spectrum) // 2]
    observed[incomplete, torch.randint(2, incomplete.shape)] = 0
    xs = []
    for v, table in enumerate((digits.data, spectrum)):
        seen = observed[:, v].numpy() > 0
        scaled = (table - table[seen].mean(0)) / np.maximum(table[seen].std(0), 1e-9)
        xs.append(torch.from_numpy(np.where(seen[:, None], scaled, 0.0)).float())  # hidden rows never count
    model = Acova([x.shape[1] for x in xs])
    pretrain(model, xs, observed)
    train(model, xs, observed, epochs=40, warmup=True)
    start_clusters(model, xs, observed)
    train(model, xs, observed, epochs=60)
    counts = contingency_matrix(digits.target, predict(model, xs, observed))
    print(f"accuracy {counts[linear_sum_assignment(-counts)].sum() / counts.sum():.3f}")


if __name__ == "__main__":
    main()
