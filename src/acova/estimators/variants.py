"""Other members of ACOVA's family: the same network and training with another fusion, or as DVIMC trains it.

A variant takes ACOVA's keywords except those it fixes, with defaults and keywords of its own; so what ACOVA learns to
do, its variants do too, and a comparison changes one thing at a time.
"""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any, TypeVar

import torch

from acova.base import Streams, near_miss
from acova.estimators.acova import ACOVA
from acova.estimators.method_presets import DVIMC_PRESETS
from acova.estimators.presets import OTHERWISE, PRESETS, RECIPES
from acova.estimators.variational import VariationalClusterer
from acova.networks import MultiViewVAE
from acova.training.consensus import Ensemble
from acova.training.correlations import given_correlation

_Class = TypeVar("_Class", bound=type)
_NO_CORRELATION: dict[str, Any] = {
    "correlation": "identity",
    "n_correlations": 1,
    "missing": "marginal",
    "correlation_start": "identity",
    "correlation_learning_rate": 1e-2,
}


def variant(*, fixed: Mapping[str, Any], own: Mapping[str, Any]) -> Callable[[_Class], _Class]:
    """Give a class ACOVA's keywords, some `fixed` to a value, others new or with a default of its `own`, which wins."""
    fixed = {name: value for name, value in fixed.items() if name not in own}

    def complete(cls: _Class) -> _Class:
        offered = inspect.signature(ACOVA).parameters
        names = [name for name in (*offered, *(new for new in own if new not in offered)) if name not in fixed]
        defaults = {name: own[name] if name in own else offered[name].default for name in names}
        for name, value in fixed.items():
            if name not in vars(cls):
                setattr(cls, name, value)
        cls.__init__ = _constructor(defaults)  # type: ignore[misc]
        cls.__doc__ = _documented(cls.__doc__ or "", names)
        return cls

    return complete


def _constructor(defaults: Mapping[str, Any]) -> Callable[..., None]:
    """Return an ``__init__`` that stores its keywords, as scikit-learn asks for, with a signature that tells them."""

    def __init__(self: Any, n_clusters: int = defaults["n_clusters"], **settings: Any) -> None:
        for name in settings:
            if name not in defaults:
                hint = near_miss(name, defaults)
                msg = f"{type(self).__name__}() got an unexpected keyword argument {name!r}.{hint}"
                raise TypeError(msg)
        for name, default in defaults.items():
            setattr(self, name, n_clusters if name == "n_clusters" else settings.get(name, default))

    kinds = {"self": Parameter.POSITIONAL_OR_KEYWORD, "n_clusters": Parameter.POSITIONAL_OR_KEYWORD}
    parameters = [Parameter("self", kinds["self"])]
    for name, default in defaults.items():
        parameters.append(Parameter(name, kinds.get(name, Parameter.KEYWORD_ONLY), default=default))
    __init__.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return __init__


def _documented(doc: str, names: Sequence[str]) -> str:
    """Complete the parameters of a docstring by ACOVA's text of those it takes over."""
    doc, theirs = inspect.cleandoc(doc), inspect.cleandoc(ACOVA.__doc__ or "")
    block = r"(\w+) : [^\n]*\n(?:    [^\n]*\n)+"
    section = re.compile(rf"(?<=Parameters\n----------\n)(?:{block})+")
    told: dict[str, str] = {}
    for text in (theirs, doc):
        found = section.search(text)
        told |= {each[1]: each[0] for each in re.finditer(block, found[0] if found else "")}
    return section.sub(lambda _: "".join(told.get(name, "") for name in names), doc)


@variant(fixed=_NO_CORRELATION, own={})
class MoE(VariationalClusterer):
    """A mixture of experts: the fused posterior has the mean and the variance of an equal mixture of the views'.

    Disagreement between views counts as uncertainty. Network, objective and training are those of `ACOVA`.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.

    Attributes
    ----------
    labels_, probabilities_, agreement_, view_weights_, weights_, means_, variances_, history_, objective_, network_
        As for `ACOVA`; a view's weight is the share of the views that a sample has.
    """

    fusion = "mixture"
    presets = PRESETS  # ours


@variant(fixed=_NO_CORRELATION, own={})
class WeightedFusion(VariationalClusterer):
    """Views averaged with one learned weight each, as DMVCVAE does (Yin, Huang & Gao, AAAI 2020).

    Means and variances of the views that a sample has are averaged with weights that are the same for all samples.
    Network, objective and training are those of `ACOVA`.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    prior_learning_rate : float
        Learning rate of the mixture's means and scales, and of the views' weights.

    Attributes
    ----------
    fusion_weights_ : array of shape (V,)
        The views' weights; they sum to 1. Of a consensus, those of its reference run.
    labels_, probabilities_, agreement_, view_weights_, weights_, means_, variances_, history_, objective_, network_
        As for `ACOVA`.
    """

    fusion = "weighted"
    presets = PRESETS  # ours

    def _adopt(self, ensemble: Ensemble) -> None:
        super()._adopt(ensemble)
        self.fusion_weights_ = torch.softmax(self.network_.fusion_logits, 0).cpu().numpy()


@variant(fixed=_NO_CORRELATION, own={"rho": 0.4})
class CoDE(VariationalClusterer):
    """Experts whose errors all have the same, known correlation (Mancisidor et al., ICML 2025).

    Consensus of dependent experts in closed form; a missing view is marginalised exactly. Network, objective and
    training are those of `ACOVA`: with ``correlation=rho, missing="marginal"`` ACOVA computes the same.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    rho : float
        Correlation of every two views' errors, between -1/(V-1) and 1.

    Attributes
    ----------
    labels_, probabilities_, agreement_, view_weights_, weights_, means_, variances_, history_, objective_, network_
        As for `ACOVA`.
    """

    fusion = "constant"
    presets = PRESETS  # ours
    rho: float

    @property
    def correlation(self) -> float:
        """What `ACOVA` calls the same."""
        return self.rho

    def _new_network(
        self,
        view_sizes: Sequence[int],
        likelihoods: Sequence[str],
        streams: Streams,
        weights: Sequence[float] | None = None,
    ) -> MultiViewVAE:
        given_correlation("rho", self.rho, len(view_sizes), who="CoDE")
        return super()._new_network(view_sizes, likelihoods, streams, weights)


@variant(
    fixed={**_NO_CORRELATION, **RECIPES["paper"], **OTHERWISE, "recipe": "paper", "warmup_kl": 0.0, "n_neighbors": 1},
    own={
        "n_init": 1,
        "consensus": False,
        "latent_dim": 10,
        "alpha": 10.0,
        "hidden": (500, 500, 2000),
        "pretrain_epochs": 200,
        "epochs": 300,
        "batch_size": 256,
        "learning_rate": 5e-4,
        "prior_learning_rate": 5e-2,
        "learning_rate_decay": 0.9,
        "decay_every": 10,
        "clip_norm": 10.0,
        "density_floor": 1e-10,
        "likelihood": "gaussian",
        "standardize": True,
    },
)
class DVIMC(VariationalClusterer):
    """Deep variational incomplete multi-view clustering: a product of experts (Xu et al., AAAI 2024).

    The same family with independent errors, trained as its authors train it: encoders and prior speak of variances,
    learning rates fall in steps, gradients are clipped at 10, clusters start from the averaged codes of complete
    samples.

    Parameters
    ----------
    n_clusters : int
        Number of clusters.
    learning_rate_decay : float
        Factor on the learning rates (but pretraining's) after every `decay_every` epochs of the whole model.
    decay_every : int
        Epochs between two such steps.
    density_floor : float
        Added to the joint densities in training's responsibilities, which become equal far from all clusters; 0
        leaves them exact. Predictions always are.

    Attributes
    ----------
    labels_, probabilities_, agreement_, view_weights_, weights_, means_, variances_, history_, objective_, network_
        As for `ACOVA`.
    """

    fusion = "product"
    scale_is = "variance"
    presets = DVIMC_PRESETS
