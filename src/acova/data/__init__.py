"""Views in which samples may be missing: container, masks, scaling, file formats, storage on disk and data sets."""

from acova.data.datasets.catalogue import dataset_names, load_dataset
from acova.data.datasets.synthetic import MadeDataset, make_views
from acova.data.files.formats import Dataset, read_views
from acova.data.files.omics import read_omics, write_omics
from acova.data.findings import Finding
from acova.data.inspection import Inspection, inspect_data
from acova.data.masks import PATTERNS, make_observed
from acova.data.scalers import SCALINGS
from acova.data.scaling import Scaling
from acova.data.stored import StoredViews
from acova.data.summary import Summary
from acova.data.views import Views, stack_views

__all__ = [
    "PATTERNS",
    "SCALINGS",
    "Dataset",
    "Finding",
    "Inspection",
    "MadeDataset",
    "Scaling",
    "StoredViews",
    "Summary",
    "Views",
    "dataset_names",
    "inspect_data",
    "load_dataset",
    "make_observed",
    "make_views",
    "read_omics",
    "read_views",
    "stack_views",
    "write_omics",
]
