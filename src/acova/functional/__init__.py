"""The mathematics of the paper as pure tensor functions.

No state, no random numbers, no files. Letters in the shapes: N samples, V views, D latent dimensions,
K clusters, P features of a view; ``...`` stands for any leading axes.
"""

from acova.functional.contrast import (
    column_misfit,
    group_means,
    label_contrast,
    mean_errors,
    mean_over,
    mutual_information,
    nearest_centers,
    neighbourhood_divergence,
    partner_misfit,
    robust_matching,
    shortened,
    spectral_contrast,
)
from acova.functional.correlation import (
    constant_correlation,
    correlation_matrix,
    correlation_parameter,
    distance_to_identity,
)
from acova.functional.cycles import exchange, random_cycles
from acova.functional.fusion import (
    Fused,
    fuse,
    fuse_constant,
    fuse_whitened,
    mixture_of_experts,
    product_of_experts,
    weighted_average,
    whitener_of,
)
from acova.functional.gaussian import kl_diagonal, log_density, reparameterise
from acova.functional.mixture import (
    distant_log_responsibilities,
    expected_kl_to_components,
    kl_assignment,
    log_joint,
    log_responsibilities,
    mixture_scale,
    mixture_scale_parameter,
    optimal_log_responsibilities,
)
from acova.functional.neighbours import Lenders, cross_view_lenders, same_view_lenders
from acova.functional.objectives import (
    LIKELIHOODS,
    ObjectiveParts,
    alignment,
    log_constant,
    objective_parts,
    reconstruction,
    total_reconstruction,
)

__all__ = [
    "LIKELIHOODS",
    "Fused",
    "Lenders",
    "ObjectiveParts",
    "alignment",
    "column_misfit",
    "constant_correlation",
    "correlation_matrix",
    "correlation_parameter",
    "cross_view_lenders",
    "distance_to_identity",
    "distant_log_responsibilities",
    "exchange",
    "expected_kl_to_components",
    "fuse",
    "fuse_constant",
    "fuse_whitened",
    "group_means",
    "kl_assignment",
    "kl_diagonal",
    "label_contrast",
    "log_constant",
    "log_density",
    "log_joint",
    "log_responsibilities",
    "mean_errors",
    "mean_over",
    "mixture_of_experts",
    "mixture_scale",
    "mixture_scale_parameter",
    "mutual_information",
    "nearest_centers",
    "neighbourhood_divergence",
    "objective_parts",
    "optimal_log_responsibilities",
    "partner_misfit",
    "product_of_experts",
    "random_cycles",
    "reconstruction",
    "reparameterise",
    "robust_matching",
    "same_view_lenders",
    "shortened",
    "spectral_contrast",
    "total_reconstruction",
    "weighted_average",
    "whitener_of",
]
