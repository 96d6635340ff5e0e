"""The likelihoods of views, one class each; `LIKELIHOODS` has them by name."""

from acova.networks.likelihoods.base import Likelihood
from acova.networks.likelihoods.bernoulli import Bernoulli
from acova.networks.likelihoods.beta import Beta
from acova.networks.likelihoods.categorical import Categorical
from acova.networks.likelihoods.counts import NegativeBinomial, Poisson, ZeroInflatedNegativeBinomial
from acova.networks.likelihoods.gaussian import Gaussian, LearnedGaussian
from acova.networks.likelihoods.laplace import Laplace
from acova.networks.likelihoods.student_t import StudentT

LIKELIHOODS: dict[str, type[Likelihood]] = {
    kind.name: kind
    for kind in (
        *(Gaussian, Bernoulli, Laplace, LearnedGaussian, StudentT),
        *(Poisson, NegativeBinomial, ZeroInflatedNegativeBinomial, Categorical, Beta),
    )
}
"""Every likelihood by its name."""

__all__ = [
    "LIKELIHOODS",
    "Bernoulli",
    "Beta",
    "Categorical",
    "Gaussian",
    "Laplace",
    "LearnedGaussian",
    "Likelihood",
    "NegativeBinomial",
    "Poisson",
    "StudentT",
    "ZeroInflatedNegativeBinomial",
]
