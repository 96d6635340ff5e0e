"""Settings of methods: the expert settings of training in one object, and all of them by flat names."""

import inspect
from collections.abc import Mapping
from functools import cache
from inspect import Parameter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from acova.base import OptionError
from acova.base.errors import near_miss


class Training(BaseEstimator):
    """Expert settings of how `ACOVA` and its relatives train.

    Keywords that are None take the value of the estimator's recipe: "robust" and "shared" agree on them unless a
    keyword says otherwise.

    Parameters
    ----------
    pretrain_epochs : int or None
        Epochs of the separate auto-encoders (robust: 100, paper: 200).
    warmup_epochs : int or None
        Epochs of all views together under a standard normal prior, before the clusters are placed (robust:
        100, paper: 0).
    learning_rate : float or None
        Adam's learning rate for the encoders and decoders (robust: 0.002, up to 3,000
        samples 0.001; paper: 0.001).
    prior_learning_rate : float or None
        Learning rate of the mixture's means and scales (robust: 0.01, paper: 0.05).
    weight_learning_rate : float
        Learning rate of the mixture weights' logits; 0 keeps the weights. It is slow because fast weights
        empty clusters before the views agree, and because the published program renormalises its
        weights in a way that holds them near 1/K.
    correlation_learning_rate : float
        Learning rate of the correlation's parameter.
    pretrain_learning_rate : float
        Learning rate of the separate auto-encoders.
    learning_rate_decay : float
        Factor on the learning rates (but pretraining's) after each epoch of the whole model.
    warmup_kl : float
        Weight of the divergence from the standard normal during the warm-up.
    cluster_start : {"graph", "fused", "codes", "neighbors"} or None
        Where the clusters start. ``"graph"``: a spectral clustering of the neighbour graph of the fused latent means
        (shared). ``"fused"``: k-means in the fused latent means, with the latent dimensions scaled so that the mixture
        fits best (robust). ``"codes"``: k-means in the averaged codes of complete samples, or of all samples when fewer
        than ten per cluster are complete (paper). ``"neighbors"``: k-means in the decoder targets, see
        `neighbor_weight`; its clusters are then carried over to the latent space.
    final_clusters : {"graph", "mixture"} or None
        Which clusters are the result. ``"mixture"``: the components of the mixture as they were trained (robust and
        paper). ``"graph"``: after training, the components are placed anew on the clusters that a spectral clustering
        finds in the neighbour graph of the fused latent means and of the views together (shared).
    temperature : float, "auto" or None
        By how much the log probabilities of the clusters are divided after training. ``"auto"`` (shared): so that the
        mean confidence of a consensus is the share of labels that another run confirms without one of the sample's
        views; 5 for a single run. 1 (robust and paper): not at all. It does not change which cluster of a run is the
        most probable.
    balance : float, False or None
        Count every view's reconstruction error in units of the view's own variance, times the view's width to
        the power of 1 - `balance`: with 1 every view weighs the same, with 0 every feature (robust: 0.5). Bernoulli
        views, whose errors are nats, share one unit. False sums the errors as they come (paper).
    reconstruction_scale : float, False or None
        What reconstruction costs, all views together, when every view is decoded to its mean: the errors are scaled
        to this number (robust: 1000), so that divergences and alignment weigh the same beside narrow views as beside
        wide ones. False leaves the errors as they come (paper).
    neighbor_weight : float, "auto" or None
        How strongly the decoder target is smoothed over the sample's nearest neighbours: 0 reconstructs the sample
        itself (paper), 1 reconstructs the mean of its neighbours. Views the sample lacks are reconstructed from its
        neighbours with weight ``neighbor_weight ** 2``. ``"auto"`` (robust) is 0.5 up to 2,000 samples and falls with
        the square of their number, to 0 above 20,000. Needs the views in memory; for views on disk it is 0.
    n_neighbors : int
        Number of neighbours with ``view_weights="equal"``. Otherwise samples are linked to about half a cluster of
        neighbours, between 5 and 30.
    assignment : {"draw", "exact"} or None
        Responsibilities in training: at a draw from the posterior (both recipes), or those that minimise the
        objective, which need no draw.
    correlation_start : {"random", "identity", "similarity"}, float or array of shape (V, V)
        Where a learned correlation starts: a random positive one (as published), none, the cosine
        similarity of the pretrained codes, a constant or a matrix.
    n_correlations : int
        Number of learned correlation matrices: 1 for all latent dimensions, `latent_dim` for one each, or any number in
        between for stretches of dimensions that share one.
    elbo_weight : float
        Weight of the evidence bound; 0 trains by the alignment alone, which is an ablation.
    clip_norm : float or None
        Longest gradient; longer ones are shortened to it.
    min_std : float
        Floor of the encoders' standard deviations.
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs;
        None trains all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    covariate_use : {"both", "adjust", "decode", "encode"}
        What a fit with covariates does with them. ``"adjust"``: shifts of features that go with them, among samples
        that are alike, are taken off before anything else. ``"decode"``: the decoders are told them beside the latent
        vector, which then need not explain them; encoders and neighbour graphs see the views as they are.
        ``"encode"``: the encoders are told as well. ``"both"``: shifts are taken off, and the decoders are told.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks in training; ``"auto"`` is bfloat16 where the GPU has it, and where the CPU has it
        and layers are large, else float32. The fusion is always exact.
    checkpoint_every : int
        Epochs between checkpoints.

    See Also
    --------
    ACOVA : Takes it as ``training=``.

    Examples
    --------
    >>> from acova import ACOVA, Training
    >>> ACOVA(n_clusters=3, training=Training(learning_rate=1e-3, patience=20))
    ACOVA(n_clusters=3, training=Training(learning_rate=0.001, patience=20))
    """

    def __init__(
        self,
        *,
        pretrain_epochs: int | None = None,
        warmup_epochs: int | None = None,
        learning_rate: float | None = None,
        prior_learning_rate: float | None = None,
        weight_learning_rate: float = 0.0001,
        correlation_learning_rate: float = 0.01,
        pretrain_learning_rate: float = 0.001,
        learning_rate_decay: float = 0.995,
        warmup_kl: float = 0.1,
        cluster_start: str | None = None,
        final_clusters: str | None = None,
        temperature: float | str | None = None,
        balance: float | None = None,
        reconstruction_scale: float | None = None,
        neighbor_weight: float | str | None = None,
        n_neighbors: int = 10,
        assignment: str | None = None,
        correlation_start: Any = "random",
        n_correlations: int = 1,
        elbo_weight: float = 1.0,
        clip_norm: float | None = 1000.0,
        min_std: float = 0.0001,
        patience: int | None = None,
        tol: float = 0.001,
        covariate_use: str = "both",
        precision: str = "auto",
        checkpoint_every: int = 10,
    ) -> None:
        self.pretrain_epochs = pretrain_epochs
        self.warmup_epochs = warmup_epochs
        self.learning_rate = learning_rate
        self.prior_learning_rate = prior_learning_rate
        self.weight_learning_rate = weight_learning_rate
        self.correlation_learning_rate = correlation_learning_rate
        self.pretrain_learning_rate = pretrain_learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.warmup_kl = warmup_kl
        self.cluster_start = cluster_start
        self.final_clusters = final_clusters
        self.temperature = temperature
        self.balance = balance
        self.reconstruction_scale = reconstruction_scale
        self.neighbor_weight = neighbor_weight
        self.n_neighbors = n_neighbors
        self.assignment = assignment
        self.correlation_start = correlation_start
        self.n_correlations = n_correlations
        self.elbo_weight = elbo_weight
        self.clip_norm = clip_norm
        self.min_std = min_std
        self.patience = patience
        self.tol = tol
        self.covariate_use = covariate_use
        self.precision = precision
        self.checkpoint_every = checkpoint_every


NESTED = "training"
"""The keyword that takes a `Training`."""


@cache
def training_parameters() -> dict[str, Parameter]:
    """Return the keywords of `Training`."""
    return dict(inspect.signature(Training).parameters)


def setting_parameters(cls: type) -> dict[str, Parameter]:
    """Return all settings of a method by their flat names: its keywords, with those of `Training` where it has one."""
    parameters = dict(inspect.signature(cls).parameters)
    if parameters.pop(NESTED, None) is None:
        return parameters
    without = getattr(cls, "_without", ())
    return parameters | {name: each for name, each in training_parameters().items() if name not in without}


def nested(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keywords of a method for settings by their flat names."""
    known, own = setting_parameters(cls), inspect.signature(cls).parameters
    for name in settings:
        if name not in known and name not in own:
            msg = f"{cls.__name__}() got an unexpected setting {name!r}.{near_miss(name, known)}"
            raise TypeError(msg)
    keywords = {name: value for name, value in settings.items() if name in own}
    training = {name: value for name, value in settings.items() if name not in own}
    if training:
        given = _checked(cls, keywords.get(NESTED))
        keywords[NESTED] = Training(**{**given.get_params(deep=False), **training})
    return keywords


def unnested(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their flat names alone: those that a `Training` among them has other than by default."""
    keywords = dict(settings)
    if NESTED not in inspect.signature(cls).parameters or keywords.get(NESTED) is None:
        return keywords
    training = _checked(cls, keywords.pop(NESTED)).get_params(deep=False)
    return {**other_than_default(training, training_parameters()), **keywords}


def other_than_default(settings: Mapping[str, Any], known: Mapping[str, Parameter]) -> dict[str, Any]:
    """Return the settings that somebody chose, and those that are not known."""
    return {
        name: value
        for name, value in settings.items()
        if name not in known or type(value) is not type(known[name].default) or value != known[name].default
    }


def flat(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the settings of an estimator as they are given, by their flat names."""
    own = estimator.get_params(deep=False)
    training = own.pop(NESTED, None)
    names = setting_parameters(type(estimator))
    if NESTED in inspect.signature(type(estimator)).parameters:
        own = {**_checked(type(estimator), training).get_params(deep=False), **own}
    return {name: own[name] for name in names}


def _checked(cls: type, training: Any) -> Training:
    """Return what a user gave as `training`, with None as the defaults, or raise `OptionError`."""
    if training is None:
        return Training()
    if isinstance(training, Training):
        return training
    msg = (
        f"{cls.__name__}: training must be a Training, such as Training(learning_rate=0.001), or None; got "
        f"{training!r}."
    )
    raise OptionError(msg)


def plain(value: Any) -> Any:
    """Return a setting with Python's own numbers and booleans in the place of numpy's."""
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value
