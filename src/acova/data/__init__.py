"""Views with holes: the container, masks, scaling, file formats and data sets."""

from acova.data.catalogue import dataset_names, load_dataset
from acova.data.formats import Dataset, read_views
from acova.data.masks import PATTERNS, make_observed
from acova.data.preprocessing import SCALINGS, Scaling
from acova.data.views import Views, stack_views

__all__ = [
    "PATTERNS",
    "SCALINGS",
    "Dataset",
    "Scaling",
    "Views",
    "dataset_names",
    "load_dataset",
    "make_observed",
    "read_views",
    "stack_views",
]
