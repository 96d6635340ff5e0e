"""Views with holes: the container, masks, scaling, file formats, storage on disk and data sets."""

from acova.data.categories import given_sizes
from acova.data.datasets.catalogue import dataset_names, load_dataset
from acova.data.datasets.synthetic import MadeDataset, make_views
from acova.data.files.exports import check_table_path, write_table
from acova.data.files.formats import Dataset, has_class, read_views
from acova.data.files.omics import add_results, is_omics, read_omics, write_omics
from acova.data.inputs import from_tensor
from acova.data.inspection import Inspection, inspect_data
from acova.data.masks import PATTERNS, make_observed
from acova.data.scaling import SCALINGS, TO_UNIT, Features, Scaling, features_of, observed_counts, scaled_moments
from acova.data.stored import BLOCK, StoredViews, is_stored
from acova.data.summary import Summary, count_patterns
from acova.data.views import Views, stack_views

__all__ = [
    "BLOCK",
    "PATTERNS",
    "SCALINGS",
    "TO_UNIT",
    "Dataset",
    "Features",
    "Inspection",
    "MadeDataset",
    "Scaling",
    "StoredViews",
    "Summary",
    "Views",
    "add_results",
    "check_table_path",
    "count_patterns",
    "dataset_names",
    "features_of",
    "from_tensor",
    "given_sizes",
    "has_class",
    "inspect_data",
    "is_omics",
    "is_stored",
    "load_dataset",
    "make_observed",
    "make_views",
    "observed_counts",
    "read_omics",
    "read_views",
    "scaled_moments",
    "stack_views",
    "write_omics",
    "write_table",
]
