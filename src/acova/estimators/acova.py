"""The estimator of the paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acova.estimators.presets import PRESETS
from acova.estimators.variational import VariationalClusterer


class ACOVA(VariationalClusterer):
    """Incomplete multi-view clustering with learned correlations between views (Xu et al., ICML 2026).

    Each view's encoder gives a Gaussian estimate of one latent vector. The errors of these estimates are
    correlated; a learned matrix says how much, and fuses the views a sample has into one posterior. A
    Gaussian-mixture prior on the latent vector gives the clusters.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    recipe : {"shared", "robust", "paper"}
        What the keywords that are None by default stand for. ``"shared"`` looks for groups that several views support:
        views count by their agreement, clusters start from a neighbour graph, and several runs vote. ``"robust"`` is
        one run in which every view counts, ``"paper"`` the published procedure. Every such keyword can also be given
        alone. Where "robust" is named below, "shared" does the same unless it says otherwise.
    latent_dim : int
        Dimension of the latent vector.
    alpha : float
        Weight of the alignment between the fused posterior and each view's own.
    elbo_weight : float
        Weight of the evidence bound; 0 trains by the alignment alone, which is an ablation.
    hidden : tuple of int, "auto" or None
        Widths of the encoders' hidden layers; the decoders mirror them. ``"auto"`` (robust) chooses by the number
        of samples: (64, 64, 256) up to 3,000, else (256, 256, 1024); the paper has (500, 500, 2000).
    likelihood : {"auto", "gaussian", "bernoulli", "laplace"}, one per view (sequence, or dict by view name), or None
        ``"bernoulli"`` is for values in [0, 1], which are then not standardised (others: `standardize="unit_view"`);
        ``"auto"`` (robust) takes it for features of one kind in [0, 1], such as pixels or zeros and ones, else
        ``"gaussian"`` (paper).
    correlation : "learned", "identity", float or array of shape (V, V)
        The correlation of the views' errors: learned with everything else, none (the product of
        experts), one constant for all pairs, or a matrix.
    n_correlations : int
        Number of learned correlation matrices: 1 for all latent dimensions, `latent_dim` for one each, or any number in
        between for stretches of dimensions that share one.
    missing : {"precision", "marginal"}
        How an absent view leaves the fusion: the paper's masked precision, or the exact marginal.
    correlation_start : {"random", "identity", "similarity"}, float or array of shape (V, V)
        Where a learned correlation starts: a random positive one (as published), none, the cosine
        similarity of the pretrained codes, a constant or a matrix.
    n_init : int, "auto" or None
        Number of independent runs (shared: ``"auto"``, which is 5 up to 5,000 samples, 3 up to 20,000, else 1; robust
        and paper: 1). Without `consensus`, the run with the lowest trained objective is kept. On a CPU long runs train
        side by side in processes; ``joblib.parallel_config(n_jobs=…)`` says how many.
    consensus : bool or None
        Match the clusters of all runs and average their assignments, in `predict` too (shared: True; robust and paper:
        False).
    pretrain_epochs : int or None
        Epochs of the separate auto-encoders (robust: 100, paper: 200).
    warmup_epochs : int or None
        Epochs of all views together under a standard normal prior, before the clusters are placed (robust:
        100, paper: 0).
    epochs : int or None
        Epochs of the whole model (robust: 200, paper: 300). Epochs that are left to the robust recipe get fewer
        above 2,000 samples: as the fourth root of their number grows.
    batch_size : int
        Samples per step of the optimiser.
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
    balance : float, False or None
        Count every view's reconstruction error in units of the view's own variance, times the view's width to
        the power of 1 - `balance`: with 1 every view weighs the same, with 0 every feature (robust: 0.5). Bernoulli
        views, whose errors are nats, share one unit. False sums the errors as they come (paper).
    reconstruction_scale : float, False or None
        What reconstruction costs, all views together, when every view is decoded to its mean: the errors are scaled
        to this number (robust: 1000), so that divergences and alignment weigh the same beside narrow views as beside
        wide ones. False leaves the errors as they come (paper).
    view_weights : {"agreement", "equal"}, sequence or dict of float, or None
        How much each view is trusted, in training and for who counts as a neighbour. ``"agreement"`` (shared): by how
        far its neighbour graph agrees with that of another view, see `view_trust_`; a view that agrees with no other
        hardly counts where others agree. ``"equal"`` (robust and paper): all views alike. Or one number per view, not
        negative, by position or by name.
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
    clip_norm : float or None
        Longest gradient; longer ones are shortened to it.
    min_std : float
        Floor of the encoders' standard deviations.
    patience : int or None
        A phase of training ends early when its objective did not improve by `tol` for this many epochs;
        None trains all epochs.
    tol : float
        The least improvement that counts, as a share of the objective.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    standardize : bool, {"auto", "zscore", "range", "cosine", "unit", "unit_view"} or None
        Scale features by statistics of observed rows: True or ``"zscore"`` (paper) feature by feature,
        ``"range"`` by one mean and range per view, ``"cosine"`` every row to length 1 and then by one scale per
        view, ``"unit"`` every feature to [0, 1], ``"unit_view"`` the whole view, by its least and largest value.
        ``"auto"`` (robust) is the range for features of one kind, such as pixels, ratings or zeros and ones,
        the cosine for counts of words (nearly all cells are zero), else feature by feature.
    device : str
        ``"auto"`` takes a GPU if there is one.
    precision : {"auto", "bf16", "tf32", "float32"}
        Products of the networks in training; ``"auto"`` is bfloat16 where the GPU has it, and where the CPU has it
        and layers are large, else float32. The fusion is always exact.
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
        Cluster of each training sample. Clusters are numbered by size, the largest first; of two with as many
        samples, the one whose first sample comes first in the order of the index.
    probabilities_ : array of shape (n_samples, n_clusters)
        Probability of each cluster.
    agreement_ : array of shape (n_samples,)
        Of a consensus: the share of the runs that give the sample its label. Else 1.
    view_weights_ : array of shape (n_samples, V)
        How much each view counted in a sample's latent mean, averaged over the latent dimensions; rows
        sum to 1, a missing view has 0, and correlated views can get negative weights.
    latent_ : array of shape (n_samples, latent_dim)
        Fused latent mean of each training sample, as `transform` gives it.
    view_trust_ : array of shape (V,)
        How much each view was trusted, at most 1: its largest agreement with another view over that of the most
        trusted view, or what `view_weights` says.
    view_agreement_ : array of shape (V, V)
        How far the neighbour graphs of every two views agree, from 0 to 1. Ones with ``view_weights`` of your own.
    correlation_ : array of shape (V, V)
        Correlation of the views' errors; of a consensus, the mean over the runs; of several, their mean.
    correlations_ : array of shape (n_correlations, V, V)
        Every one of them.
    weights_, means_, variances_ : arrays of shape (K,), (K, D), (K, D)
        The mixture prior.
    history_ : DataFrame
        One row per epoch: ``phase``, ``epoch``, ``total``, ``reconstruction``, ``kl_z``, ``kl_c``,
        ``alignment`` and ``correlation_distance`` (Frobenius distance of R to the identity); and how often
        guards acted: ``clipped`` (steps whose gradient was shortened), ``floored`` (standard deviations of a
        sample at `min_std`, on average) and ``empty_clusters``.
    objective_ : float
        Final objective on the training data, as it was trained (with its weights and neighbours), by which `n_init`
        chooses. It compares runs of one fit; `score` is the evidence bound.
    objectives_ : array of shape (n_init,)
        Final objectives of all runs.
    n_iter_ : int
        Epochs trained of the whole model.
    view_names_, view_sizes_, n_features_in_, index_
        See the input: names and widths of the views, their sum, names of the samples.
    summary_ : acova.data.Summary
        What went in: missing patterns, and mean and spread of every feature by cluster.
    provenance_ : dict
        Versions, device and time of the fit.
    network_ : torch.nn.Module
        The trained network.

    Examples
    --------
    >>> from acova import ACOVA
    >>> from acova.data import load_dataset, make_observed
    >>> digits = load_dataset("digits")
    >>> views = digits.views.hide(make_observed(1797, 4, 0.5, random_state=0))
    >>> model = ACOVA(n_clusters=10, hidden=(64,), pretrain_epochs=2, epochs=2, random_state=0)
    >>> model.fit_predict(views).shape
    (1797,)
    """

    presets = PRESETS
    """What the paper tunes; ``ACOVA.preset(dataset, recipe="paper")`` is the paper's procedure as a whole."""

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        recipe: str = "shared",
        latent_dim: int = 10,
        alpha: float = 10.0,
        elbo_weight: float = 1.0,
        hidden: Sequence[int] | str | None = None,
        likelihood: str | Sequence[str] | Mapping[str, str] | None = None,
        correlation: Any = "learned",
        n_correlations: int = 1,
        missing: str = "precision",
        correlation_start: Any = "random",
        n_init: int | str | None = None,
        consensus: bool | None = None,
        pretrain_epochs: int | None = None,
        warmup_epochs: int | None = None,
        epochs: int | None = None,
        batch_size: int = 256,
        learning_rate: float | None = None,
        prior_learning_rate: float | None = None,
        weight_learning_rate: float = 1e-4,
        correlation_learning_rate: float = 1e-2,
        pretrain_learning_rate: float = 1e-3,
        learning_rate_decay: float = 0.995,
        warmup_kl: float = 0.1,
        cluster_start: str | None = None,
        balance: float | None = None,
        reconstruction_scale: float | None = None,
        view_weights: str | Sequence[float] | Mapping[str, float] | None = None,
        neighbor_weight: float | str | None = None,
        n_neighbors: int = 10,
        assignment: str | None = None,
        clip_norm: float | None = 1000.0,
        min_std: float = 1e-4,
        patience: int | None = None,
        tol: float = 1e-3,
        view_sizes: Sequence[int] | None = None,
        standardize: bool | str | None = None,
        device: str = "auto",
        precision: str = "auto",
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.recipe = recipe
        self.latent_dim = latent_dim
        self.alpha = alpha
        self.elbo_weight = elbo_weight
        self.hidden: Any = hidden
        self.likelihood: Any = likelihood
        self.correlation = correlation
        self.n_correlations = n_correlations
        self.missing = missing
        self.correlation_start = correlation_start
        self.n_init: Any = n_init
        self.consensus: Any = consensus
        self.pretrain_epochs: Any = pretrain_epochs
        self.warmup_epochs: Any = warmup_epochs
        self.epochs: Any = epochs
        self.batch_size = batch_size
        self.learning_rate: Any = learning_rate
        self.prior_learning_rate: Any = prior_learning_rate
        self.weight_learning_rate = weight_learning_rate
        self.correlation_learning_rate = correlation_learning_rate
        self.pretrain_learning_rate = pretrain_learning_rate
        self.learning_rate_decay = learning_rate_decay
        self.warmup_kl = warmup_kl
        self.cluster_start: Any = cluster_start
        self.balance: Any = balance
        self.reconstruction_scale: Any = reconstruction_scale
        self.view_weights: Any = view_weights
        self.neighbor_weight: Any = neighbor_weight
        self.n_neighbors = n_neighbors
        self.assignment: Any = assignment
        self.clip_norm = clip_norm
        self.min_std = min_std
        self.patience = patience
        self.tol = tol
        self.view_sizes = view_sizes
        self.standardize: Any = standardize
        self.device = device
        self.precision = precision
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.random_state = random_state
        self.verbose = verbose
