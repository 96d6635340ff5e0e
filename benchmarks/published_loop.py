"""The published program's training loop in plain PyTorch, written anew from its description: a baseline.

    python benchmarks/published_loop.py handwritten --missing 0.3 --runs 0 1 2 --device cuda --out runs.jsonl

It shares no code with `acova` beyond data, scaling and scores, and keeps what the published program does: samples
fetched one by one, a general inverse of batch × latent covariances, mixture weights that are free and renormalised
after each step, responsibilities with a floor, no bound on any scale. A run in which one of these breaks (weights can
turn negative) ends in NaN and is reported as it is. The protocol is the honest one: hidden entries are seen by nothing,
the scaling included; mask seed = training seed = run index; the final model of every run counts. --plain-batches cuts
batches from tensors on the device instead of collecting samples: the same mathematics without the data loader's cost.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from acova.data import Scaling, load_dataset, make_observed
from acova.estimators import PRESETS
from acova.metrics import clustering_scores

PRECISION_EPS = 1e-5
DENSITY_FLOOR = 1e-10
CLIP_NORM = 1000.0
PRETRAIN_LEARNING_RATE = 1e-3

Batch = tuple[list[Tensor], Tensor]


class Samples(Dataset):
    """Samples one at a time: the rows of all views, and which of them are observed."""

    def __init__(self, views: Sequence[Tensor], observed: Tensor) -> None:
        self.views = views
        self.observed = observed

    def __len__(self) -> int:
        return len(self.observed)

    def __getitem__(self, index: int) -> Batch:
        return [view[index] for view in self.views], self.observed[index]


class ViewNetwork(nn.Module):
    """Encoder to a mean and a standard deviation, and the mirrored decoder, of one view."""

    def __init__(self, n_features: int, hidden: Sequence[int], latent_dim: int) -> None:
        super().__init__()
        inward, outward = [n_features, *hidden], [latent_dim, *reversed(hidden)]
        self.body = nn.Sequential(*_layers(inward))
        self.mean = nn.Linear(inward[-1], latent_dim)
        self.scale = nn.Linear(inward[-1], latent_dim)
        self.decoder = nn.Sequential(*_layers(outward), nn.Linear(outward[-1], n_features))

    def code(self, rows: Tensor) -> Tensor:
        """Return the means (B, D) alone."""
        return self.mean(self.body(rows))

    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and standard deviations, each (B, D)."""
        features = self.body(rows)
        return self.mean(features), F.softplus(self.scale(features))

    def autoencoder_parameters(self) -> list[nn.Parameter]:
        """Return what pretraining moves: all but the head of the standard deviation."""
        return [*self.body.parameters(), *self.mean.parameters(), *self.decoder.parameters()]


class Network(nn.Module):
    """The views' networks, the mixture prior and the correlation's parameter."""

    def __init__(
        self, sizes: Sequence[int], n_clusters: int, latent_dim: int, hidden: Sequence[int], likelihoods: Sequence[str]
    ) -> None:
        super().__init__()
        self.likelihoods = likelihoods
        self.views = nn.ModuleList(ViewNetwork(size, hidden, latent_dim) for size in sizes)
        self.weights = nn.Parameter(torch.full((n_clusters,), 1 / n_clusters))
        self.means = nn.Parameter(torch.zeros(n_clusters, latent_dim))
        self.stds = nn.Parameter(torch.ones(n_clusters, latent_dim))
        self.theta = nn.Parameter(torch.randn(len(sizes), len(sizes)).abs())

    def prior_parameters(self) -> list[nn.Parameter]:
        """Return weights, means and standard deviations of the mixture."""
        return [self.weights, self.means, self.stds]

    def posterior(self, views: Sequence[Tensor], observed: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the views' means and deviations (B, V, D), and the fused means and variances (B, D)."""
        estimates = [network(rows) for network, rows in zip(self.views, views, strict=True)]
        mean, std = (torch.stack(parts, dim=1) for parts in zip(*estimates, strict=True))
        return mean, std, *aggregate(mean, std, observed, correlation(self.theta))

    def log_joint(self, latent: Tensor) -> Tensor:
        """Return log π_k + log N(z; μ_k, σ_k²), (B, K), for latents (B, D)."""
        variance = self.stds**2
        distance = (latent.unsqueeze(1) - self.means) ** 2 / variance
        return torch.log(self.weights) - 0.5 * (torch.log(2 * torch.pi * variance) + distance).sum(-1)

    def responsibilities(self, latent: Tensor) -> Tensor:
        """Return q(c | z), (B, K), every joint density raised by the floor."""
        joint = torch.exp(self.log_joint(latent)) + DENSITY_FLOOR
        return joint / joint.sum(-1, keepdim=True)

    def loss(self, views: Sequence[Tensor], observed: Tensor, noise: Tensor, alpha: float) -> Tensor:
        """Return the mean objective of a batch, for standard normal noise (2, B, D)."""
        mean, std, fused_mean, fused_variance = self.posterior(views, observed)
        decoded, assigned = fused_mean + fused_variance.sqrt() * noise
        shares = self.responsibilities(assigned)
        to_components = kl(fused_mean.unsqueeze(1), fused_variance.unsqueeze(1), self.means, self.stds**2)
        to_views = kl(fused_mean.unsqueeze(1), fused_variance.unsqueeze(1), mean, std**2)
        seen = observed.to(mean.dtype)
        reconstruction = self._reconstruction(views, decoded, seen)
        kl_z = (shares * to_components).sum(-1)
        kl_c = (shares * torch.log(shares / self.weights)).sum(-1)
        alignment = (seen * to_views).sum(-1) / seen.sum(-1)
        return (reconstruction + kl_z + kl_c + alpha * alignment).mean()

    def _reconstruction(self, views: Sequence[Tensor], latent: Tensor, seen: Tensor) -> Tensor:
        """Return the reconstruction loss (B,), summed over features and observed views."""
        total = torch.zeros_like(seen[:, 0])
        for v, (network, rows, likelihood) in enumerate(zip(self.views, views, self.likelihoods, strict=True)):
            output = network.decoder(latent)
            if likelihood == "bernoulli":
                error = F.binary_cross_entropy_with_logits(output, rows, reduction="none")
            else:
                error = F.mse_loss(output, rows, reduction="none")
            total = total + seen[:, v] * error.sum(-1)
        return total


class PublishedLoop:
    """Pretrain, start the clusters, train, read the labels.

    Parameters
    ----------
    views : list of V float32 arrays of shape (N, P_v)
        Scaled; zero where hidden.
    observed : array of bool, shape (N, V)
    n_clusters : int
    latent_dim, alpha, learning_rate, prior_learning_rate, correlation_learning_rate, learning_rate_decay, batch_size
        As in `acova.ACOVA`; the decay applies to every group after each epoch.
    likelihoods : sequence of V names, optional
        ``"gaussian"`` (default) or ``"bernoulli"``.
    hidden : sequence of int
        Widths of the encoders' hidden layers.
    device : str
    seed : int
        Seeds torch's own stream, from which everything is drawn, and k-means.
    per_sample_items : bool
        True: a `DataLoader` collects samples one by one on the host. False: batches are cut from tensors
        on the device.
    """

    def __init__(
        self,
        views: Sequence[np.ndarray],
        observed: np.ndarray,
        n_clusters: int,
        *,
        latent_dim: int = 10,
        alpha: float = 10.0,
        learning_rate: float = 1e-3,
        prior_learning_rate: float = 5e-2,
        correlation_learning_rate: float = 1e-2,
        learning_rate_decay: float = 0.9 ** (1 / 20),
        batch_size: int = 256,
        likelihoods: Sequence[str] | None = None,
        hidden: Sequence[int] = (500, 500, 2000),
        device: str = "cpu",
        seed: int = 0,
        per_sample_items: bool = True,
    ) -> None:
        torch.manual_seed(seed)
        self.n_clusters, self.alpha, self.batch_size, self.seed = n_clusters, alpha, batch_size, seed
        self.device = torch.device(device)
        self.per_sample_items = per_sample_items
        home = torch.device("cpu") if per_sample_items else self.device
        self.views = [torch.from_numpy(np.asarray(view, dtype=np.float32)).to(home) for view in views]
        self.observed = torch.from_numpy(np.asarray(observed, dtype=bool)).to(home)
        sizes = [view.shape[1] for view in self.views]
        likelihoods = likelihoods or ["gaussian"] * len(sizes)
        self.network = Network(sizes, n_clusters, latent_dim, hidden, likelihoods).to(self.device)
        groups = [
            {"params": self.network.views.parameters(), "lr": learning_rate},
            {"params": self.network.prior_parameters(), "lr": prior_learning_rate},
            {"params": [self.network.theta], "lr": correlation_learning_rate},
        ]
        self.optimizer = torch.optim.Adam(groups)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, learning_rate_decay)

    def pretrain(self, epochs: int) -> None:
        """Train each view's auto-encoder on its observed rows, one view after the other, through the mean."""
        for v, network in enumerate(self.network.views):
            seen = self.observed[:, v]
            rows, present = [self.views[v][seen]], self.observed[seen, v : v + 1]
            optimizer = torch.optim.Adam(network.autoencoder_parameters(), lr=PRETRAIN_LEARNING_RATE)
            for _ in range(epochs):
                for (batch,), _ in self._batches(rows, present):
                    loss = F.mse_loss(network.decoder(network.code(batch)), batch)
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()

    @torch.no_grad()
    def start_clusters(self) -> None:
        """Place the prior's means by k-means on the averaged codes of complete rows.

        With fewer than ten complete rows per cluster all rows are taken, each averaged over what it has.
        """
        codes = [
            torch.stack([network.code(rows) for network, rows in zip(self.network.views, views, strict=True)], dim=1)
            for views, _ in self._chunks()
        ]
        seen = self.observed.cpu().unsqueeze(-1)
        averaged = (torch.cat(codes).cpu() * seen).sum(1) / seen.sum(1)
        complete = self.observed.all(1).cpu()
        points = averaged[complete] if complete.sum() >= 10 * self.n_clusters else averaged
        fitted = KMeans(self.n_clusters, n_init=10, random_state=self.seed).fit(points.numpy())
        self.network.means.copy_(torch.from_numpy(fitted.cluster_centers_))
        self.network.stds.fill_(1.0)
        self.network.weights.fill_(1 / self.n_clusters)

    def train_epoch(self) -> float:
        """Train on every sample once; return the mean objective over the samples."""
        total = torch.zeros((), device=self.device)
        for views, observed in self._batches(self.views, self.observed):
            noise = torch.randn(2, len(observed), self.network.means.shape[1], device=self.device)
            loss = self.network.loss(views, observed, noise, self.alpha)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), CLIP_NORM)
            self.optimizer.step()
            with torch.no_grad():
                self.network.weights.div_(self.network.weights.sum())
            total += loss.detach() * len(observed)
        self.schedule.step()
        return float(total) / len(self.observed)

    def train(self, epochs: int) -> list[float]:
        """Train for some epochs; return the mean objective of each."""
        return [self.train_epoch() for _ in range(epochs)]

    @torch.no_grad()
    def labels(self) -> np.ndarray:
        """Return the cluster of each sample, (N,): the largest joint density at the fused mean."""
        labels = []
        for views, observed in self._chunks():
            _, _, fused_mean, _ = self.network.posterior(views, observed)
            labels.append(self.network.log_joint(fused_mean).argmax(-1))
        return torch.cat(labels).cpu().numpy()

    def _batches(self, views: Sequence[Tensor], observed: Tensor) -> Iterator[Batch]:
        """Yield shuffled batches on the device, the last one shorter."""
        if self.per_sample_items:
            for rows, present in DataLoader(Samples(views, observed), self.batch_size, shuffle=True):
                yield [part.to(self.device) for part in rows], present.to(self.device)
        else:
            for index in torch.randperm(len(observed), device=self.device).split(self.batch_size):
                yield [view[index] for view in views], observed[index]

    def _chunks(self) -> Iterator[Batch]:
        """Yield all samples in order, some at a time, on the device; nothing is drawn."""
        for start in range(0, len(self.observed), 4096):
            rows = slice(start, start + 4096)
            yield [view[rows].to(self.device) for view in self.views], self.observed[rows].to(self.device)


def correlation(theta: Tensor) -> Tensor:
    """Return R (V, V): LLᵀ of the lower triangle with exponentiated diagonal, scaled to unit diagonal."""
    factor = theta.tril(-1) + torch.diag(theta.diagonal().exp())
    product = factor @ factor.T
    scale = product.diagonal().sqrt()
    return product / (scale.unsqueeze(0) * scale.unsqueeze(1))


def aggregate(mean: Tensor, std: Tensor, observed: Tensor, matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Fuse the views by the observed block of every inverse error covariance.

    Parameters
    ----------
    mean, std : Tensor of shape (B, V, D)
    observed : Tensor of bool, shape (B, V)
    matrix : Tensor of shape (V, V)
        Correlation of the errors.

    Returns
    -------
    pair of tensors of shape (B, D)
        Fused means and variances.
    """
    centre, deviation = mean.transpose(1, 2), std.transpose(1, 2)
    covariance = deviation.unsqueeze(-1) * matrix * deviation.unsqueeze(-2)
    seen = observed.to(mean.dtype)
    both = (seen.unsqueeze(-1) * seen.unsqueeze(-2)).unsqueeze(1)
    inverse = torch.linalg.inv(covariance) * both
    precision = inverse.sum((-2, -1)) + PRECISION_EPS
    return (inverse @ centre.unsqueeze(-1)).sum((-2, -1)) / precision, 1 / precision


def kl(mean: Tensor, variance: Tensor, other_mean: Tensor, other_variance: Tensor) -> Tensor:
    """Return KL(N(mean, variance) ‖ N(other_mean, other_variance)), summed over the last axis; all broadcast."""
    terms = torch.log(other_variance) - torch.log(variance) + (variance + (mean - other_mean) ** 2) / other_variance - 1
    return 0.5 * terms.sum(-1)


def one_run(dataset, missing: float, run: int, *, pretrain_epochs: int, epochs: int, **settings) -> dict:
    """Train and score one run; labels are used for the scores alone.

    `settings` are keywords of `PublishedLoop` that replace the data set's own.
    """
    preset = {"n_clusters": dataset.n_classes, **PRESETS.get(dataset.name, {})}
    likelihood, standardize = preset.pop("likelihood", "gaussian"), preset.pop("standardize", True)
    kind = {True: "zscore", False: "none"}.get(standardize, standardize)
    views = dataset.views
    views = views.hide(make_observed(len(views), views.n_views, missing, random_state=run))
    kinds = ("none" if likelihood == "bernoulli" else kind,) * views.n_views
    settings = {"seed": run, "likelihoods": (likelihood,) * views.n_views, **preset, **settings}
    start = time.perf_counter()
    loop = PublishedLoop(Scaling.fit(views, kinds).transform(views), views.observed, **settings)
    loop.pretrain(pretrain_epochs)
    loop.start_clusters()
    losses = loop.train(epochs)
    labels = loop.labels()
    return {
        "dataset": dataset.name,
        "missing": missing,
        "run": run,
        "seconds": time.perf_counter() - start,
        **clustering_scores(dataset.labels, labels),
        "method": "published loop",
        "objective": losses[-1] if losses else None,
        "epochs": [pretrain_epochs, epochs],
        "device": torch.cuda.get_device_name() if loop.device.type == "cuda" else loop.device.type,
        "torch": torch.__version__,
        "settings": settings,
    }


def main() -> None:
    """Run the protocol, one JSON line per run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--missing", type=float, default=0.3)
    parser.add_argument("--runs", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--pretrain-epochs", type=int, default=200)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--plain-batches", action="store_true")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    dataset = load_dataset(arguments.dataset)
    rows = []
    for run in arguments.runs:
        row = one_run(
            dataset,
            arguments.missing,
            run,
            pretrain_epochs=arguments.pretrain_epochs,
            epochs=arguments.epochs,
            device=arguments.device,
            per_sample_items=not arguments.plain_batches,
        )
        print(f"run {run}: acc {row['acc']:.4f}  nmi {row['nmi']:.4f}  {row['seconds']:.1f} s", flush=True)
        if arguments.out:
            with arguments.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
        rows.append(row)
    for metric in ("acc", "nmi", "ari", "purity"):
        values = np.array([row[metric] for row in rows])
        print(f"{metric:8s} {values.mean():.4f} ± {values.std(ddof=1) if len(values) > 1 else 0:.4f}")


def _layers(sizes: Sequence[int]) -> list[nn.Module]:
    return [layer for width, following in pairwise(sizes) for layer in (nn.Linear(width, following), nn.ReLU())]


if __name__ == "__main__":
    main()
