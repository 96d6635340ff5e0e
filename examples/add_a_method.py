"""Add a method: a network, its training and an estimator, in one file.

    python examples/add_a_method.py

Every view has an auto-encoder. The code of a sample is the mean of the codes of the views it has: each of these views
is decoded from it, and their own codes are drawn towards it. k-means on the codes gives the clusters.

The class works as it is: ``AgreeingCodes(10).fit(views)``, ``AgreeingCodes.load(folder)``, `fit_many`, and in a
benchmark beside this file ``use = "add_a_method:AgreeingCodes"``. One line in the ``pyproject.toml`` of your package
registers it, so that `make_method`, `load_method` and ``acova fit --method AgreeingCodes`` know it by its name::

    [project.entry-points."acova.methods"]
    AgreeingCodes = "your_package.add_a_method:AgreeingCodes"
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import torch

from acova.data import load_dataset, make_observed
from acova.engine import ParameterGroup, Phase, generator
from acova.estimators import DeepClusterer, make_method
from acova.estimators.rules import NOT_NEGATIVE
from acova.functional import Fused
from acova.metrics import clustering_accuracy
from acova.networks import MixturePrior, Perceptrons
from acova.networks.base import ClusteringNetwork
from acova.training.method import Method
from acova.training.starts import place_by_k_means


class AgreeingNetwork(ClusteringNetwork):
    """An auto-encoder per view; N samples, V views, D latent dimensions."""

    def __init__(self, view_sizes, settings, numbers):
        super().__init__()
        widths = [*settings.hidden, settings.latent_dim]
        self.encoders = Perceptrons([view_sizes, *widths], len(view_sizes), generator=numbers)
        self.decoders = Perceptrons([*reversed(widths), view_sizes], len(view_sizes), generator=numbers)
        self.prior = MixturePrior(settings.n_clusters, settings.latent_dim)
        self.agreement = settings.agreement

    def compute_in(self, dtype):
        """Round products in training to this type."""
        self.encoders.dtype = self.decoders.dtype = dtype

    def encode(self, views, observed):
        """Return the codes of the views (N, V, D), and their mean over the views that each sample has."""
        codes = torch.stack(self.encoders(views, together=True), dim=1)
        weights = (observed / observed.sum(1, keepdim=True)).unsqueeze(-1).expand_as(codes)
        mean = (weights * codes).sum(1)
        return codes, Fused(mean, torch.zeros_like(mean), weights)

    def posterior(self, views, observed):
        """Return where samples are in the latent space."""
        return self.encode(views, observed)[1]

    def loss(self, batch, noise):
        """Return what is minimised, (N,), by name; rows of hidden views mean nothing."""
        codes, fused = self.encode(batch.views, batch.observed)
        outputs = self.decoders([fused.mean] * len(batch.views), together=True)
        errors = [(view - output).square().mean(1) for view, output in zip(batch.views, outputs, strict=True)]
        distances = (codes - fused.mean.unsqueeze(1)).square().sum(2)
        costs = torch.stack(errors, dim=1) + self.agreement * distances
        return {"total": torch.where(batch.observed, costs, 0.0).sum(1)}


class Agreeing(Method):
    """Training in one phase, then k-means."""

    epochs = ("epochs",)  # the settings that count epochs

    def build(self, job):
        """Return a network with weights drawn from the seed of its run."""
        return AgreeingNetwork(job.sizes, job.settings, generator(job.streams.integer("weights")))

    def phases(self, group):
        """Yield the only phase, for all runs that train together."""
        groups = [ParameterGroup(group.parameters("encoders.", "decoders."), group.rates("learning_rate"))]
        yield Phase("train", group.settings.epochs, group.settings.batch_size, AgreeingNetwork.loss, groups)

    def finish(self, group):
        """Place the clusters of every run by k-means on the codes of its samples."""
        place_by_k_means(group, [group.latent(run) for run in range(len(group.jobs))])


class AgreeingCodes(DeepClusterer):
    """k-means on codes that the views of a sample agree on.

    Parameters
    ----------
    n_clusters, latent_dim : int
        As for `ACOVA`, like all settings here that are not explained.
    hidden : tuple of int
    agreement : float
        Weight of the squared distance between the codes of a sample's views and their mean.
    learning_rate : float
        Adam's learning rate.
    epochs, batch_size, n_init : int
    consensus : bool
    standardize : bool or str
    view_sizes : sequence of int or None
    device : str
    checkpoint : str, Path or None
    random_state : int, RandomState or None
    verbose : bool
    """

    method = Agreeing()
    _fixed: ClassVar = {"precision": "float32"}  # a setting of other methods that has one value here
    _rules: ClassVar = {"agreement": NOT_NEGATIVE}  # what may be given for a setting that no other method has

    def __init__(
        self, n_clusters=8, *, latent_dim=10, hidden=(256,), agreement=0.1, learning_rate=1e-3, epochs=100,
        batch_size=256, n_init=1, consensus=False, standardize=True, view_sizes=None, device="auto", checkpoint=None,
        random_state=None, verbose=False,
    ):  # fmt: skip
        self.n_clusters, self.latent_dim, self.hidden, self.agreement = n_clusters, latent_dim, hidden, agreement
        self.learning_rate, self.epochs, self.batch_size = learning_rate, epochs, batch_size
        self.n_init, self.consensus, self.standardize, self.view_sizes = n_init, consensus, standardize, view_sizes
        self.device, self.checkpoint, self.random_state, self.verbose = device, checkpoint, random_state, verbose


if __name__ == "__main__":
    digits = load_dataset("digits")
    views = digits.views.hide(make_observed(len(digits.views), 4, 0.5, random_state=0))  # half lack some views
    model = AgreeingCodes(10, random_state=0).fit(views)
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "run")
        assert (AgreeingCodes.load(Path(folder) / "run").predict(views) == model.labels_).all()
    for clusterer in (model, make_method("KNNImpute", n_clusters=10, random_state=0).fit(views)):
        print(f"{clusterer}: accuracy {clustering_accuracy(digits.labels, clusterer.labels_):.3f}")
