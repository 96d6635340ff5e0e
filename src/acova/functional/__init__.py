"""The mathematics of the paper as pure tensor functions.

No state, no random numbers, no files. Letters in the shapes: N samples, V views, D latent dimensions,
K clusters, P features of a view; ``...`` stands for any leading axes.
"""

from acova.functional.averages import group_means, mean_errors, mean_over, nearest_centers
from acova.functional.batch import Batch
from acova.functional.correlation import (
    constant_correlation,
    correlation_matrix,
    correlation_parameter,
    distance_to_identity,
    low_rank_correlation,
    low_rank_loadings,
    remaining_correlation,
    remaining_loadings,
)
from acova.functional.evidence import log_evidence
from acova.functional.fusion import (
    Fused,
    fuse,
    fuse_constant,
    fuse_whitened,
    mixture_of_experts,
    product_of_experts,
    side_by_side,
    weighted_average,
    whitener_of,
)
from acova.functional.gaussian import kl_diagonal, log_density, reparameterise
from acova.functional.mixture import (
    distant_log_responsibilities,
    expected_kl_to_components,
    kl_assignment,
    known_log_responsibilities,
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
    reconstruction_of_cells,
    total_reconstruction,
)

__all__ = [
    "LIKELIHOODS",
    "Batch",
    "Fused",
    "Lenders",
    "ObjectiveParts",
    "alignment",
    "constant_correlation",
    "correlation_matrix",
    "correlation_parameter",
    "cross_view_lenders",
    "distance_to_identity",
    "distant_log_responsibilities",
    "expected_kl_to_components",
    "fuse",
    "fuse_constant",
    "fuse_whitened",
    "group_means",
    "kl_assignment",
    "kl_diagonal",
    "known_log_responsibilities",
    "log_constant",
    "log_density",
    "log_evidence",
    "log_joint",
    "log_responsibilities",
    "low_rank_correlation",
    "low_rank_loadings",
    "mean_errors",
    "mean_over",
    "mixture_of_experts",
    "mixture_scale",
    "mixture_scale_parameter",
    "nearest_centers",
    "objective_parts",
    "optimal_log_responsibilities",
    "product_of_experts",
    "reconstruction",
    "reconstruction_of_cells",
    "remaining_correlation",
    "remaining_loadings",
    "reparameterise",
    "same_view_lenders",
    "side_by_side",
    "total_reconstruction",
    "weighted_average",
    "whitener_of",
]
