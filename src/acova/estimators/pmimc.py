"""PMIMC: neighbourhoods and prototypes matched between views."""

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from acova.estimators.aligned import OWN, AlignedClusterer
from acova.estimators.coded import NOT_THEIRS
from acova.estimators.method_presets import PMIMC_PRESETS
from acova.estimators.variants import variant
from acova.networks import AlignedAutoencoders, PrototypeMatching
from acova.networks.aligned import PROTOTYPES
from acova.training.phases import Job


@variant(
    fixed=NOT_THEIRS,
    own={
        **OWN,
        "latent_dim": 256,
        "hidden": (512, 512, 1024),
        "epochs": 100,
        "prototypes": "centers",
        "prototype_rate": 0.3,
        "instance_weight": 1e-4,
        "prototype_weight": 1e-2,
    },
)
class PMIMC(AlignedClusterer):
    """Prototype matching for incomplete multi-view clustering (Yuan et al., TIP 2025).

    Auto-encoders of the views, then their codes aligned: two views must see the neighbourhood of a sample alike, and
    prototypes of one view must be most like their partners in another. The code of a missing view is that of the most
    similar sample of a pool, and k-means clusters the codes of all views side by side. A new sample is encoded, lent
    codes of the pool, and given the nearest centre in the same way.

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

    presets = PMIMC_PRESETS
    _words: ClassVar[Any] = {**AlignedClusterer._words, "prototypes": PROTOTYPES}
    _numbers: ClassVar[Any] = {
        **AlignedClusterer._numbers,
        "prototype_rate": {"minimum": 0, "maximum": 1, "strict": True},
    }
    _network_class = PrototypeMatching
    prototype_rate: float

    def _network_settings(self) -> dict[str, Any]:
        return {"prototype_rate": self.prototype_rate}

    @classmethod
    def _set_donors(cls, job: Job, network: AlignedAutoencoders, codes: Tensor, observed: Tensor) -> None:
        count = -(-len(codes) * job.settings.prototype_rate // 1)
        chosen = np.sort(job.streams.numpy("pool").permutation(len(codes))[: int(count)])
        pool = torch.from_numpy(chosen).to(codes.device)
        if not observed[pool].any(0).all():  # a view that nobody in the pool has
            pool = torch.arange(len(codes), device=codes.device)
        network.donors.set(codes[pool], observed[pool])
