"""CPSPAN: samples and prototypes aligned between views."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from scipy.optimize import linear_sum_assignment
from torch import Tensor
from torch.nn.functional import normalize

from acova.base import Streams
from acova.clustering.kmeans import k_means_centers
from acova.engine import Trainer
from acova.estimators.aligned import OWN, AlignedClusterer, codes_of
from acova.estimators.coded import NOT_THEIRS
from acova.estimators.method_presets import CPSPAN_PRESETS
from acova.estimators.variants import variant
from acova.functional import group_means, nearest_centers
from acova.networks import PrototypeAlignment
from acova.networks.aligned import ALIGNMENTS
from acova.training.phases import Job

_LLOYD_STEPS = 5


@variant(
    fixed=NOT_THEIRS,
    own={
        **OWN,
        "latent_dim": 10,
        "hidden": (500, 500, 2000),
        "epochs": 50,
        "prototypes": "matched",
        "instance_weight": 1e-3,
        "prototype_weight": 1e-3,
    },
)
class CPSPAN(AlignedClusterer):
    """Cross-view partial sample and prototype alignment (Jin et al., CVPR 2023).

    Auto-encoders of the views, then their codes aligned: those of one sample in two views, and prototypes of the views,
    matched to each other. The code of a missing view is that of the most similar sample that has it, and k-means
    clusters the codes of all views side by side. A new sample is encoded, lent codes of training samples, and given the
    nearest centre in the same way.

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
    standardize : bool or {"zscore", "range", "cosine", "unit", "unit_view"}
        Scale features by statistics of observed rows; ``"unit"`` brings every feature to [0, 1], ``"unit_view"`` the
        view as a whole.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks on a GPU, in training.

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
    """

    presets = CPSPAN_PRESETS
    _words: ClassVar[Any] = {**AlignedClusterer._words, "prototypes": ALIGNMENTS}
    _network_class = PrototypeAlignment

    @classmethod
    def _before_epoch(
        cls, trainer: Trainer, jobs: Sequence[Job], networks: Sequence[PrototypeAlignment]
    ) -> Callable[[int], None] | None:
        """Return what finds and matches the prototypes anew, or nothing where there are none."""
        if jobs[0].settings.prototypes != "matched" or networks[0].n_views == 1:
            return None

        def renew(epoch: int) -> None:
            for run, (job, network) in enumerate(zip(jobs, networks, strict=True)):
                views, observed = trainer.data.of_run(run)
                _renew_centers(network, codes_of(network, views, observed), observed, None if epoch else job.streams)

        return renew


@torch.no_grad()
def _renew_centers(network: PrototypeAlignment, codes: Tensor, observed: Tensor, start: Streams | None) -> None:
    """Move every view's centres to its codes, from k-means at the `start`, and number them like the first view's."""
    found = []
    for v, (mine, seen) in enumerate(zip(codes.unbind(1), observed.unbind(1), strict=True)):
        centers = network.centers[v]
        if start is not None:
            centers = k_means_centers(mine[seen], len(centers), start.integer("prototypes", v))
        for _ in range(_LLOYD_STEPS):
            means, sizes = group_means(mine, nearest_centers(mine, centers), seen.to(mine.dtype), len(centers))
            centers = torch.where((sizes > 0).unsqueeze(-1), means, centers)
        found.append(centers)
    likeness = [(normalize(found[0], dim=-1) @ normalize(other, dim=-1).mT).cpu().numpy() for other in found]
    orders = [linear_sum_assignment(table, maximize=True)[1].tolist() for table in likeness]
    network.centers.copy_(torch.stack([centers[order] for centers, order in zip(found, orders, strict=True)]))
