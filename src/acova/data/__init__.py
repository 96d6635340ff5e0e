"""Views with holes: the container, masks, scaling, file formats, storage on disk and data sets."""

from acova.data.catalogue import dataset_names, load_dataset
from acova.data.formats import Dataset, read_views
from acova.data.masks import PATTERNS, make_observed
from acova.data.preprocessing import SCALINGS, Scaling, bounds, observed_counts, share_a_scale, total_variances
from acova.data.stored import BLOCK, StoredViews, is_stored
from acova.data.summary import Summary, count_patterns
from acova.data.views import Views, stack_views

__all__ = [
    "BLOCK",
    "PATTERNS",
    "SCALINGS",
    "Dataset",
    "Scaling",
    "StoredViews",
    "Summary",
    "Views",
    "bounds",
    "count_patterns",
    "dataset_names",
    "is_stored",
    "load_dataset",
    "make_observed",
    "observed_counts",
    "read_views",
    "share_a_scale",
    "stack_views",
    "total_variances",
]
