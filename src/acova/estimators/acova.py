"""The estimator of the paper."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from acova.estimators._deep import DeepClusterer
from acova.estimators._settings import Training
from acova.estimators.recipes import PRESETS
from acova.estimators.rules import COUNT, Rule, either
from acova.training.phases import Variational


class ACOVA(DeepClusterer):
    """Incomplete multi-view clustering with learned correlations between views (Xu et al., ICML 2026).

    Each view's encoder gives a Gaussian estimate of one latent vector. The errors of these estimates are
    correlated; a learned matrix says how much, and fuses the views a sample has into one posterior. A
    Gaussian-mixture prior on the latent vector gives the clusters.

    Parameters
    ----------
    n_clusters : int or "auto"
        Number of clusters. ``"auto"`` takes what `select_n_clusters` chooses: 2 to 15, or 1 for no structure.
    recipe : {"shared", "robust", "paper"}
        Values of the keywords that are None by default. ``"shared"`` looks for groups that several views support:
        views count by their agreement, clusters start from a neighbour graph, and several runs vote. ``"robust"`` is
        one run in which every view counts, ``"paper"`` the published procedure. Each of these
        keywords can also be set alone. Where "robust" is named below, "shared" does the same unless it says otherwise.
    latent_dim : int
        Dimension of the latent vector.
    hidden : tuple of int, "auto" or None
        Widths of the encoders' hidden layers; the decoders mirror them. ``"auto"`` (robust) chooses by the number
        of samples: (64, 64, 256) up to 3,000, else (256, 256, 1024); the paper has (500, 500, 2000).
    alpha : float
        Weight of the alignment between the fused posterior and each view's own.
    likelihood : str, one per view (sequence, or dict by view name), or None
        What a view's values are like: ``"gaussian"``, ``"gaussian_learned"``, ``"laplace"``, ``"student_t"``,
        ``"bernoulli"``, ``"categorical"``, ``"beta"``, ``"poisson"``, ``"negative_binomial"`` or
        ``"zero_inflated_negative_binomial"`` (paper: ``"gaussian"``). ``"auto"`` (robust) is ``"bernoulli"`` for
        features of one kind in [0, 1], such as pixels or zeros and ones, else ``"gaussian"``. ``"suited"``
        recognises counts, shares and categories, and gives them ``"negative_binomial"``, ``"beta"`` and
        ``"categorical"``; other views get what ``"auto"`` chooses. Bernoulli and categorical views are not standardised
        (Bernoulli values outside [0, 1] need `standardize="unit_view"`). Counts must be raw; their encoder sees what
        ``standardize="counts"`` makes of them.
    correlation : "learned", "low_rank", "identity", float or array of shape (V, V)
        The correlation of the views' errors: learned with everything else, learned as what five common factors and an
        error of each view's own make of it (for more than 50 views or so: 5·V numbers instead of V²/2), none (the
        product of experts), one constant for all pairs, or a matrix.
    missing : {"precision", "marginal"}
        How an absent view leaves the fusion: the paper's masked precision, or the exact marginal.
    view_weights : {"agreement", "equal"}, sequence or dict of float, or None
        How much each view is trusted, in training and for who counts as a neighbour. ``"agreement"`` (shared): by how
        far its neighbour graph agrees with that of another view, see `view_trust_`; a view that agrees with no other
        hardly counts where others agree. ``"equal"`` (robust and paper): all views alike. Or one number per view, not
        negative, by position or by name.
    standardize : bool, {"auto", "robust", "zscore", "range", "cosine", "counts", "unit", …}, one per view, or None
        Scale features by statistics of observed rows: True or ``"zscore"`` (paper) feature by feature,
        ``"range"`` by one mean and range per view, ``"cosine"`` every row to length 1 and then by one scale per
        view, ``"counts"`` the logarithm of counts in rows brought to the same sum and then feature by feature,
        ``"unit"`` every feature to [0, 1], ``"unit_view"`` the whole view, by its least and largest value.
        ``"auto"`` (robust) is the range for features of one kind, such as pixels, ratings or zeros and ones,
        the cosine for counts of words (nearly all cells are zero), else ``"robust"``: feature by feature, learned
        without samples whose row is unusually long, which are shortened to the length where that begins.
    n_init : int, "auto" or None
        Number of independent runs (shared: ``"auto"``, which is 5 up to 5,000 samples, 3 up to 20,000, else 1; robust
        and paper: 1). Without `consensus`, the run with the lowest trained objective is kept. On a CPU long runs train
        side by side in processes; ``joblib.parallel_config(n_jobs=…)`` says how many.
    consensus : bool or None
        Match the clusters of all runs and average their assignments, in `predict` too (shared: True; robust and paper:
        False).
    epochs : int or None
        Epochs of the whole model (robust: 200, paper: 300). With the robust recipe, the number falls above 2,000
        samples, with the fourth root of their number.
    batch_size : int
        Samples per step of the optimiser.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    device : str
        ``"auto"`` takes a GPU if there is one.
    checkpoint : str, Path or None
        Folder in which the fit keeps its state. An interrupted fit continues from there when it is called again
        with the same settings and data. The folder is deleted when the fit ends.
    random_state : int, RandomState or None
        The same integer gives the same result on the same machine.
    verbose : bool
        Show a progress bar.
    training : Training or None
        Expert settings of the training, such as learning rates; None takes the defaults. In searches they are
        ``training__learning_rate`` and so on.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        Cluster of each training sample. Clusters are numbered by size, the largest first; of two with as many
        samples, the one whose first sample comes first in the order of the index.
    probabilities_ : array of shape (n_samples, n_clusters)
        Probability of each cluster.
    agreement_ : array of shape (n_samples,)
        The share of the runs that give the sample its label; only where several runs vote (`n_voters_` > 1).
    view_weights_ : array of shape (n_samples, V)
        How much each view counted in a sample's latent mean, averaged over the latent dimensions; rows
        sum to 1, a missing view has 0, and correlated views can get negative weights.
    latent_ : array of shape (n_samples, latent_dim)
        Fused latent mean of each training sample, as `transform` gives it.
    likelihoods_ : dict of str to str
        The likelihood of each view, by the view's name.
    covariates_ : dict of str to tuple of str
        The covariates of the fit by name: the levels of words, nothing for numbers; empty for a fit without.
    view_trust_ : array of shape (V,)
        How much each view was trusted, at most 1: its largest agreement with another view over that of the most
        trusted view, or what `view_weights` says.
    view_agreement_ : array of shape (V, V)
        How far the neighbour graphs of every two views agree, from 0 to 1. Ones with ``view_weights`` of your own.
    view_influence_ : array of shape (V,)
        How much the clusters depend on each view: the share of samples that get another cluster if the view is hidden,
        among those that have another view.
    view_support_ : array of shape (V,)
        How well a sample's cluster can be predicted from its nearest neighbours in this view alone: Cohen's kappa, 0 by
        chance. If only one view or column predicts the clusters, `warnings_` names it.
    view_shift_ : array of shape (V,)
        The share of the difference between samples without and with a view that arises when the view is hidden. Near 1,
        the clusters reflect who lacks the view; see `missingness_check`. NaN where no sample lacks the view.
    correlation_ : array of shape (V, V)
        Correlation of the views' errors; of a consensus, the mean over the runs; of several, their mean.
    correlations_ : array of shape (n_correlations, V, V)
        Every one of them.
    n_clusters_ : int
        Number of clusters: what was given, or chosen.
    cluster_numbers_ : ClusterNumbers or None
        With ``n_clusters="auto"``: how well each number fits, and why one was chosen; see `select_n_clusters`.
    weights_, means_, variances_ : arrays of shape (K,), (K, D), (K, D)
        The mixture prior.
    history_ : DataFrame
        One row per epoch: ``phase``, ``epoch``, ``total``, ``reconstruction``, ``kl_z``, ``kl_c``,
        ``alignment`` and ``correlation_distance`` (Frobenius distance of R to the identity); also ``clipped``
        (steps whose gradient was shortened), ``floored`` (mean number of standard deviations of a sample that are
        at `min_std`) and ``empty_clusters``.
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
    empty_cells_ : dict of view → int
        Empty cells of the training samples, for the views with any.
    provenance_ : dict
        Versions, device and time of the fit.
    network_ : torch.nn.Module
        The trained network.
    settings_ : dict
        Every setting of the fit by its name, those of `training` too, with what the recipe chose.

    See Also
    --------
    Training : Expert settings of the training.
    AgreementGraph : Clusters of the same neighbour graph, without a network, in seconds.
    KNNImpute : A strong baseline: k-means after KNN imputation.
    select_n_clusters : Choose the number of clusters.
    acova.report.write_report : One HTML file about a fitted model.

    Examples
    --------
    >>> from acova import ACOVA
    >>> from acova.data import load_dataset, make_observed
    >>> digits = load_dataset("digits")
    >>> views = digits.views.hide(make_observed(1797, 4, 0.5, random_state=0))
    >>> model = ACOVA(n_clusters=10, hidden=(64,), epochs=2, n_init=1, random_state=0)
    >>> model.fit_predict(views).shape
    (1797,)
    """

    method = Variational()
    _rules: ClassVar[Mapping[str, Rule]] = {"n_clusters": either(("auto",), COUNT, "an integer at least 1")}
    presets = PRESETS
    """What the paper tunes; ``ACOVA.preset(dataset, recipe="paper")`` is the paper's procedure as a whole."""

    def __init__(
        self,
        n_clusters: int | str = 8,
        *,
        recipe: str = "shared",
        latent_dim: int = 10,
        hidden: Sequence[int] | str | None = None,
        alpha: float = 10.0,
        likelihood: str | Sequence[str] | Mapping[str, str] | None = None,
        correlation: Any = "learned",
        missing: str = "precision",
        view_weights: str | Sequence[float] | Mapping[str, float] | None = None,
        standardize: bool | str | Sequence[bool | str] | Mapping[str, bool | str] | None = None,
        n_init: int | str | None = None,
        consensus: bool | None = None,
        epochs: int | None = None,
        batch_size: int = 256,
        view_sizes: Sequence[int] | None = None,
        device: str = "auto",
        checkpoint: str | Path | None = None,
        random_state: Any = None,
        verbose: bool = False,
        training: Training | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.recipe = recipe
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.alpha = alpha
        self.likelihood = likelihood
        self.correlation = correlation
        self.missing = missing
        self.view_weights = view_weights
        self.standardize = standardize
        self.n_init = n_init
        self.consensus = consensus
        self.epochs = epochs
        self.batch_size = batch_size
        self.view_sizes = view_sizes
        self.device = device
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose
        self.training = training
