"""Experts whose errors have a known correlation."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from acova.estimators._deep import DeepClusterer
from acova.estimators._settings import Training
from acova.estimators.recipes import PRESETS
from acova.estimators.rules import Rule, number
from acova.estimators.variants import NO_CORRELATION
from acova.training.phases import Variational


class CoDE(DeepClusterer):
    """Experts whose errors all have the same, known correlation (Mancisidor et al., ICML 2025).

    Consensus of dependent experts in closed form; a missing view is marginalised exactly. Network, objective and
    training are those of `ACOVA`: with ``correlation=rho, missing="marginal"`` ACOVA computes the same.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    recipe : {"shared", "robust", "paper"}
        What the keywords that are None by default stand for. ``"shared"`` looks for groups that several views support:
        views count by their agreement, clusters start from a neighbour graph, and several runs vote. ``"robust"`` is
        one run in which every view counts, ``"paper"`` the published procedure. Every such keyword can also be given
        alone. Where "robust" is named below, "shared" does the same unless it says otherwise.
    rho : float
        Correlation of every two views' errors, between -1/(V-1) and 1.
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
        features of one kind in [0, 1], such as pixels or zeros and ones, else ``"gaussian"``. Bernoulli and categorical
        views are not standardised (Bernoulli values outside [0, 1] need `standardize="unit_view"`). Counts must be
        raw; their encoder sees what ``standardize="counts"`` makes of them.
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
        Epochs of the whole model (robust: 200, paper: 300). Epochs that are left to the robust recipe get fewer
        above 2,000 samples: as the fourth root of their number grows.
    batch_size : int
        Samples per step of the optimiser.
    view_sizes : sequence of int or None
        Widths of the views when the data come as one array; None means one view.
    device : str
        ``"auto"`` takes a GPU if there is one.
    checkpoint : str, Path or None
        Folder in which the fit keeps its state. A fit that was killed or interrupted goes on from there
        when it is called again with the same settings and data; a fit that ends deletes the folder.
    random_state : int, RandomState or None
        The same integer gives the same result on the same machine.
    verbose : bool
        Show a progress bar.
    training : Training or None
        Expert settings of the training, such as learning rates; None takes the defaults. In searches they are
        ``training__learning_rate`` and so on.

    Attributes
    ----------
    labels_, probabilities_, agreement_, view_weights_, weights_, means_, variances_, history_, objective_, network_
        As for `ACOVA`.

    See Also
    --------
    ACOVA : Fusion with a learned correlation.
    DVIMC : A product of the views' posteriors.
    """

    method = Variational(fusion="constant")
    presets = PRESETS  # ours
    _rules: ClassVar[Mapping[str, Rule]] = {"rho": number(minimum=-1, strict=True)}
    _without = NO_CORRELATION

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        recipe: str = "shared",
        rho: float = 0.4,
        latent_dim: int = 10,
        hidden: Sequence[int] | str | None = None,
        alpha: float = 10.0,
        likelihood: str | Sequence[str] | Mapping[str, str] | None = None,
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
        self.rho = rho
        self.latent_dim = latent_dim
        self.hidden = hidden
        self.alpha = alpha
        self.likelihood = likelihood
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
