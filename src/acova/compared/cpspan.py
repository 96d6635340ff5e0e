"""CPSPAN: samples and prototypes aligned between views."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.nn.functional import normalize

from acova.base import Streams
from acova.clustering.kmeans import k_means
from acova.compared.aligned import (
    RULES,
    CodeAlignment,
    assigned_by_oracle,
    codes_of,
    network_settings,
    with_oracle,
)
from acova.compared.aligned_network import AlignedAutoencoders
from acova.engine.distributed import ALONE, Processes
from acova.engine.parallel import single_threaded
from acova.estimators._deep import DeepClusterer, Prepared
from acova.estimators.recipes import CLUSTERS_ONLY
from acova.estimators.rules import Rule, word
from acova.functional import Batch, group_means, mean_over, nearest_centers
from acova.training.consensus import Ensemble
from acova.training.inference import Inferred
from acova.training.job import Job
from acova.training.method import Group

_LLOYD_STEPS = 5


# --- losses -------------------------------------------------------------------------------------


def partner_misfit(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the mean over samples of (1 - cos)² between their codes (N, D) in two views."""
    return mean_over((1.0 - (normalize(first, dim=-1) * normalize(second, dim=-1)).sum(-1)).square(), rows)


def column_misfit(first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
    """Return the mean over *all* D² pairs of columns of (1 - cos)², as released by CPSPAN's authors."""
    columns = [normalize((codes * rows.unsqueeze(-1)).mT, dim=-1) for codes in (first, second)]
    return (1.0 - columns[0] @ columns[1].mT).square().mean()


# --- the network and its training ---------------------------------------------------------------


class PrototypeAlignment(AlignedAutoencoders):
    """The network of CPSPAN; parameters are those of `AlignedAutoencoders`.

    ``prototypes="matched"`` compares the means of matched clusters, around centres that are kept in `centers`;
    ``"released"`` compares all columns of the codes, as the authors' program does.
    """

    def __init__(self, view_sizes: Sequence[int], latent_dim: int, n_clusters: int, **settings: Any) -> None:
        super().__init__(view_sizes, latent_dim, n_clusters, **settings)
        self.centers = nn.Parameter(torch.zeros(self.n_views, n_clusters, latent_dim, dtype=torch.float32))

    def instance_misfit(self, first: Tensor, second: Tensor, rows: Tensor) -> Tensor:
        """Return how far two views' codes (N, D) of one sample are apart."""
        return partner_misfit(first, second, rows)

    def prototype_misfit(self, codes: Tensor, observed: Tensor, v: int, w: int, rows: Tensor) -> Tensor:
        """Return how far the prototypes of views v and w are apart."""
        if self.form == "released":
            return column_misfit(codes[:, v], codes[:, w], rows)
        means = []
        for view in (v, w):
            centers, of_view = self.centers[view].detach(), codes[:, view]
            nearest = nearest_centers(of_view.detach(), centers)
            means.append(group_means(of_view, nearest, observed[:, view].to(codes.dtype), len(centers)))
        (first, first_sizes), (second, second_sizes) = means
        exist = ((first_sizes > 0) & (second_sizes > 0)).to(first.dtype)
        return partner_misfit(first, second, exist)

    @torch.no_grad()
    def renew_centers(self, batch: Batch, start: Streams | None) -> None:
        """Move every view's centres to its codes, and number them like the first view's.

        Parameters
        ----------
        batch : Batch
            All samples.
        start : Streams or None
            Where the centres come from a k-means; None goes on from those there are.
        """
        found = []
        for v, (codes, seen) in enumerate(zip(codes_of(self, batch).unbind(1), batch.observed.unbind(1), strict=True)):
            centers = self.centers[v]
            if start is not None:
                points, seed = codes[seen].double().cpu().numpy(), start.integer("prototypes", v)
                with single_threaded():
                    centers = torch.from_numpy(k_means(points, len(centers), seed).centers).to(codes)
            for _ in range(_LLOYD_STEPS):
                means, sizes = group_means(codes, nearest_centers(codes, centers), seen.to(codes.dtype), len(centers))
                centers = torch.where((sizes > 0).unsqueeze(-1), means, centers)
            found.append(centers)
        likeness = [(normalize(found[0], dim=-1) @ normalize(other, dim=-1).mT).cpu().numpy() for other in found]
        orders = [linear_sum_assignment(table, maximize=True)[1].tolist() for table in likeness]
        self.centers.copy_(torch.stack([centers[order] for centers, order in zip(found, orders, strict=True)]))


@dataclass(frozen=True)
class PartialAlignment(CodeAlignment):
    """The training of CPSPAN."""

    def build(self, job: Job) -> PrototypeAlignment:
        """Return a network with fresh weights."""
        return PrototypeAlignment(**network_settings(job))

    def before_epoch(self, group: Group) -> Callable[[int], None] | None:
        """Return what finds and matches the prototypes anew, or nothing where there are none."""
        if group.settings.prototypes != "matched" or group.networks[0].n_views == 1:
            return None

        def renew(epoch: int) -> None:
            for run, (job, network) in enumerate(zip(group.jobs, group.networks, strict=True)):
                network.renew_centers(group.data.of_run(run), None if epoch else job.streams)

        return renew


# --- the estimator ------------------------------------------------------------------------------


class CPSPAN(DeepClusterer):
    """Cross-view partial sample and prototype alignment (Jin et al., CVPR 2023).

    Auto-encoders of the views, then their codes aligned: those of one sample in two views, and prototypes of the views,
    matched to each other. The code of a missing view is that of the most similar sample that has it, and k-means
    clusters the codes of all views side by side. A new sample is encoded, lent codes of training samples, and given the
    nearest centre in the same way. `score` is minus the mean objective per sample: there is no generative model whose
    evidence it could bound.

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
    prototypes : {"matched", "released"}
        As in the paper, clusters of every view's codes, matched one to one by the Hungarian method, are drawn together;
        or, as in the authors' program, *all* pairs of latent dimensions are.
    instance_weight : float
        Weight of the alignment of one sample's codes.
    prototype_weight : float
        Weight of the alignment of prototypes.
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
    PMIMC : Aligns neighbourhoods and prototypes instead.
    """

    method = PartialAlignment()
    presets = CLUSTERS_ONLY  # the authors use one setting for all data sets
    _rules: ClassVar[Mapping[str, Rule]] = {**RULES, "prototypes": word("matched", "released")}

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        latent_dim: int = 10,
        hidden: Sequence[int] = (500, 500, 2000),
        pretrain_epochs: int = 200,
        epochs: int = 50,
        batch_size: int = 256,
        learning_rate: float = 1e-4,
        pretrain_learning_rate: float = 5e-4,
        prototypes: str = "matched",
        instance_weight: float = 1e-3,
        prototype_weight: float = 1e-3,
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
