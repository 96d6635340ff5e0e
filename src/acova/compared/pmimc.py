"""PMIMC: neighbourhoods and prototypes matched between views."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from acova.compared.aligned import (
    RULES,
    CodeAlignment,
    assigned_by_oracle,
    network_settings,
    with_oracle,
)
from acova.compared.aligned_network import AlignedAutoencoders
from acova.engine.distributed import ALONE, Processes
from acova.estimators._deep import DeepClusterer, Prepared
from acova.estimators.recipes import CLUSTERS_ONLY
from acova.estimators.rules import Rule, number, word
from acova.functional import group_means, mean_over, nearest_centers
from acova.training.consensus import Ensemble
from acova.training.inference import Inferred
from acova.training.job import Job

_LLOYD_STEPS = 3
_FAR = -1e4
"""As good as minus infinity in a sum of exponentials, with a gradient of zero where there is nothing else."""


# --- losses -------------------------------------------------------------------------------------


def neighbourhood_divergence(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return half the sum over samples of (p - q)(log p - log q), how differently two views see their neighbourhoods.

    ``p_i = e^{cos(a_i, b_i)} / Σ_j (e^{cos(a_i, b_j)} + e^{cos(a_i, a_j)})``, and q with the views (N, D) exchanged.
    """
    one, other = normalize(first, dim=-1), normalize(second, dim=-1)
    hidden = rows == 0
    same = (one * other).sum(-1)
    logs = []
    for own, across in ((one, other), (other, one)):
        cosines = torch.cat([own @ across.mT, own @ own.mT], dim=-1)
        logs.append(same - cosines.masked_fill(torch.cat([hidden, hidden]), _FAR).logsumexp(-1))
    p, q = (torch.where(hidden, 0.0, log) for log in logs)
    return 0.5 * ((p.exp() - q.exp()) * (p - q)).sum()


def robust_matching(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the mean over prototypes (M, D) of (1 - Q) + (1 - Q)²/2, Q the softmax of the cosine to its match."""
    cosines = normalize(first, dim=-1) @ normalize(second, dim=-1).mT
    among = cosines.masked_fill(rows == 0, _FAR).logsumexp(-1)
    missed = torch.where(rows == 0, 0.0, 1.0 - (cosines.diagonal(dim1=-2, dim2=-1) - among).clamp(max=0.0).exp())
    return mean_over(missed + 0.5 * missed.square(), rows)


# --- the network and its training ---------------------------------------------------------------


class PrototypeMatching(AlignedAutoencoders):
    """The network of PMIMC; parameters are those of `AlignedAutoencoders`.

    Parameters
    ----------
    prototype_rate : float
        Prototypes as a share of a batch. ``prototypes="centers"`` starts them at the codes of samples that have both
        views and moves them to the centres of what is nearest; ``"released"`` takes each view's first codes as they
        are, so that with missing views the k-th of one view and the k-th of another are of different samples.
    """

    def __init__(
        self, view_sizes: Sequence[int], latent_dim: int, n_clusters: int, *, prototype_rate: float, **settings: Any
    ) -> None:
        super().__init__(view_sizes, latent_dim, n_clusters, **settings)
        self.prototype_rate = prototype_rate

    def instance_misfit(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        """Return how differently two views' codes (N, D) see the samples' neighbourhoods."""
        return neighbourhood_divergence(first, second, rows)

    def prototype_misfit(self, codes: Tensor, observed: Tensor, v: int, w: int, rows: Tensor) -> Tensor:
        """Return how often the prototypes of views v and w miss their partners."""
        count = max(1, int(self.prototype_rate * len(codes)))
        if self.form == "released":
            first, first_exist = _leading(codes[:, v], observed[:, v], count)
            second, second_exist = _leading(codes[:, w], observed[:, w], count)
            return robust_matching(first, second, first_exist * second_exist)
        starts = [_leading(codes[:, view], rows > 0, count) for view in (v, w)]
        moved = [
            _moved(codes[:, view], observed[:, view], start) for view, (start, _) in zip((v, w), starts, strict=True)
        ]
        return robust_matching(moved[0], moved[1], starts[0][1])


def _leading(codes: Tensor, chosen: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the first codes (count, D) of the chosen rows (N,), and which of them there are, (count,)."""
    order = chosen.to(torch.int8).argsort(descending=True, stable=True)[:count]
    return codes[order], chosen[order].to(codes.dtype)


def _moved(codes: Tensor, observed: Tensor, start: Tensor) -> Tensor:
    """Return prototypes (M, D) moved to the means of the observed codes (N, D) nearest to them."""
    rows, centers = observed.to(codes.dtype), start
    for _ in range(_LLOYD_STEPS):
        nearest = nearest_centers(codes.detach(), centers.detach())
        means, sizes = group_means(codes, nearest, rows, len(start))
        centers = torch.where((sizes > 0).unsqueeze(-1), means, centers)
    return centers


@dataclass(frozen=True)
class PooledMatching(CodeAlignment):
    """The training of PMIMC, which keeps the codes of a pool of samples as donors."""

    def build(self, job: Job) -> PrototypeMatching:
        """Return a network with fresh weights."""
        return PrototypeMatching(**network_settings(job), prototype_rate=job.settings.prototype_rate)

    def donors(self, job: Job, codes: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return the codes of a pool drawn at random, or all where it lacks a view."""
        count = -(-len(codes) * job.settings.prototype_rate // 1)
        chosen = np.sort(job.streams.numpy("pool").permutation(len(codes))[: int(count)])
        pool = torch.from_numpy(chosen).to(codes.device)
        if not observed[pool].any(0).all():  # a view that nobody in the pool has
            return codes, observed
        return codes[pool], observed[pool]


# --- the estimator ------------------------------------------------------------------------------


class PMIMC(DeepClusterer):
    """Prototype matching for incomplete multi-view clustering (Yuan et al., TIP 2025).

    Auto-encoders of the views, then their codes aligned: two views must see the neighbourhood of a sample alike, and
    prototypes of one view must be most like their partners in another. The code of a missing view is that of the most
    similar sample of a pool, and k-means clusters the codes of all views side by side. A new sample is encoded, lent
    codes of the pool, and given the nearest centre in the same way. `score` is minus the mean objective per sample:
    there is no generative model whose evidence it could bound.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    latent_dim : int
        Dimension of each view's code.
    hidden : tuple of int
        Widths of the encoders' hidden layers; the decoders mirror them.
    pretrain_epochs : int
        Epochs of the separate auto-encoders.
    epochs : int
        Epochs of the whole objective.
    batch_size : int
        Samples per step of the optimiser.
    learning_rate : float
        Adam's learning rate.
    pretrain_learning_rate : float
        Learning rate of the separate auto-encoders.
    prototypes : {"centers", "released"}
        As meant by the paper, prototypes start at the codes of samples that have both views and move to the centres of
        the codes nearest to them; or, as in the authors' program, they are each view's first codes of the batch, so
        that with missing views partners are of different samples.
    prototype_rate : float
        Prototypes as a share of a batch, and the pool as a share of the samples; above 0, at most 1.
    instance_weight : float
        Weight of the alignment of neighbourhoods.
    prototype_weight : float
        Weight of the matching of prototypes.
    impute : {"cross_view", "zero_code"}
        How the sample that lends a missing code is found: by the views that both have, or by the code of a row of
        zeros, which is the same sample for all.
    drop_last : bool
        Leave out a last batch that is not full in the second phase, as the authors' program does: with fewer samples
        than `batch_size`, there is no second phase.
    oracle_leak : bool
        Find lenders of the training samples with the *hidden* cells, as the authors' program does, and warn. Needs
        complete views and ``observed``; `predict` never reads hidden cells.
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs; None trains
        all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    standardize : bool or {"zscore", "range", "cosine", "unit", "unit_view"}, or one per view (sequence or dict)
        Scale features by statistics of observed rows; ``"unit"`` brings every feature to [0, 1], ``"unit_view"`` the
        view as a whole.
    n_init : int
        Number of independent runs. Without `consensus`, the run with the lowest objective is kept. On a CPU long runs
        train side by side in processes; ``joblib.parallel_config(n_jobs=…)`` says how many.
    consensus : bool
        Match the clusters of all runs and average their assignments, in `predict` too.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training.
    checkpoint : str, Path or None
        Folder in which the fit keeps its state. A fit that was killed or interrupted goes on from there
        when it is called again with the same settings and data; a fit that ends deletes the folder.
    checkpoint_every : int
        Epochs between checkpoints.
    random_state : int, RandomState or None
        The same integer gives the same result on the same machine.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
    probabilities_ : array of shape (n_samples, n_clusters)
        As if every cluster were a round Gaussian around its centre with the clusters' pooled variance.
    means_ : array of shape (n_clusters, V * latent_dim)
        Centres of k-means.
    view_weights_ : array of shape (n_samples, V)
        The views that a sample has, each with the same weight.
    agreement_, history_, objective_, objectives_, n_iter_, network_
        As for `ACOVA`.

    See Also
    --------
    CPSPAN : Aligns every sample's codes, and prototypes of clusters.
    """

    method = PooledMatching()
    presets = CLUSTERS_ONLY  # the authors use one setting for all data sets
    _rules: ClassVar[Mapping[str, Rule]] = {
        **RULES,
        "prototypes": word("centers", "released"),
        "prototype_rate": number(minimum=0, maximum=1, strict=True),
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 256,
        hidden: Sequence[int] = (512, 512, 1024),
        pretrain_epochs: int = 200,
        epochs: int = 100,
        batch_size: int = 256,
        learning_rate: float = 1e-4,
        pretrain_learning_rate: float = 5e-4,
        prototypes: str = "centers",
        prototype_rate: float = 0.3,
        instance_weight: float = 1e-4,
        prototype_weight: float = 1e-2,
        impute: str = "cross_view",
        drop_last: bool = False,
        oracle_leak: bool = False,
        patience: int | None = None,
        tol: float = 1e-3,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] = "unit",
        n_init: int = 1,
        consensus: bool = False,
        view_sizes: Sequence[int] | None = None,
        device: str = "auto",
        precision: str = "tf32",
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.pretrain_epochs = pretrain_epochs
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.pretrain_learning_rate = pretrain_learning_rate
        self.prototypes = prototypes
        self.prototype_rate = prototype_rate
        self.instance_weight = instance_weight
        self.prototype_weight = prototype_weight
        self.impute = impute  # type: ignore[method-assign, assignment]  # a setting here, not the method
        self.drop_last = drop_last
        self.oracle_leak = oracle_leak
        self.patience = patience
        self.tol = tol
        self.standardize = standardize
        self.n_init = n_init
        self.consensus = consensus
        self.view_sizes = view_sizes
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.verbose = verbose

    def _prepare(self, X: Any, observed: Any, processes: Processes = ALONE, y: Any = None) -> Prepared:
        return with_oracle(self, X, super()._prepare(X, observed, processes, y))

    def _infer_training(self, ensemble: Ensemble, prepared: Prepared) -> Inferred:
        return assigned_by_oracle(super()._infer_training(ensemble, prepared), ensemble, prepared.jobs[0])
