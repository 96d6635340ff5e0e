"""Every method by its name; classes are imported when they are asked for."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any

from acova.base import OptionError, RunFolderError
from acova.base.errors import near_miss

if TYPE_CHECKING:
    from acova.estimators._base import MultiViewClusterer

HOMES: Mapping[str, str] = {
    "ACOVA": "acova.estimators.acova",
    "BSV": "acova.estimators.kmeans",
    "Concat": "acova.estimators.kmeans",
    "KNNImpute": "acova.estimators.kmeans",
    "AgreementGraph": "acova.estimators.agreement_graph",
    "DVIMC": "acova.compared.dvimc",
    "CoDE": "acova.estimators.code",
    "MoE": "acova.estimators.variants",
    "WeightedFusion": "acova.estimators.variants",
    "MVP": "acova.compared.mvp",
    "DCP": "acova.compared.dcp",
    "DSIMVC": "acova.compared.dsimvc",
    "CPSPAN": "acova.compared.cpspan",
    "PMIMC": "acova.compared.pmimc",
}
"""The library's methods and their modules. A new one is one more line."""
ENTRY_POINTS = "acova.methods"
"""The group of entry points by which other packages register methods."""


class _Methods(Mapping[str, "type[MultiViewClusterer]"]):
    """Name → class, of the library's methods and of those that other packages register."""

    def __getitem__(self, name: str) -> "type[MultiViewClusterer]":
        if name in HOMES:
            cls: type[MultiViewClusterer] = getattr(import_module(HOMES[name]), name)
            return cls
        if name not in registered():
            raise KeyError(name)
        return _checked(name, load_registered(name))

    def __contains__(self, name: object) -> bool:  # without an import
        return name in HOMES or name in registered()

    def __iter__(self) -> Iterator[str]:
        return iter([*HOMES, *registered()])

    def __len__(self) -> int:
        return len(list(iter(self)))


METHODS = _Methods()


@cache
def registered() -> Mapping[str, EntryPoint]:
    """Return the entry points by which other packages register methods, by the methods' names."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in HOMES}


def load_registered(name: str) -> Any:
    """Return what a package registered under a name, or say which package is to blame."""
    point = registered()[name]
    try:
        return point.load()
    except Exception as error:
        msg = f"The method {name!r}, registered as {point.value!r}, cannot be imported ({error}). Update its package."
        raise OptionError(msg) from error


def _checked(name: str, cls: Any) -> "type[MultiViewClusterer]":
    """Return a registered class, or raise `OptionError` where it is no clusterer of views."""
    from acova.estimators._base import MultiViewClusterer

    if not (isinstance(cls, type) and issubclass(cls, MultiViewClusterer)):
        place = registered()[name].value
        msg = f"The method {name!r}, registered as {place!r}, must be a subclass of MultiViewClusterer; got {cls!r}."
        raise OptionError(msg)
    return cls


def list_methods() -> list[str]:
    """Return the names of all methods, as `make_method` takes them.

    See Also
    --------
    make_method : An estimator by its name.
    load_method : A saved model of any method.
    """
    return list(METHODS)


def method_class(name: str) -> "type[MultiViewClusterer]":
    """Return the class of a method; capitals do not matter.

    See Also
    --------
    make_method : An estimator by its name.
    """
    known = {word.lower(): word for word in METHODS}
    if str(name).lower() in known:
        return METHODS[known[str(name).lower()]]
    msg = f"method must be one of {', '.join(METHODS)}; got {name!r}.{near_miss(str(name).lower(), known)}"
    raise OptionError(msg)


def make_method(name: str, **settings: Any) -> "MultiViewClusterer":
    """Return an estimator by its method's name, with settings by their flat names.

    See Also
    --------
    list_methods : All names.
    method_class : The class by its name.

    Examples
    --------
    >>> from acova.estimators import make_method
    >>> make_method("concat", n_clusters=10)
    Concat(n_clusters=10)
    """
    return method_class(name).from_settings(**settings)


def load_method(folder: str | Path, *, device: str = "auto") -> "MultiViewClusterer":
    """Read a saved model of any method.

    See Also
    --------
    list_methods : All names.
    acova.ACOVA.load : The same where the method is known.
    """
    from acova.training.reading import read_config

    cls = read_config(folder).estimator
    # A package may register a class under another name than its own.
    names = {point.attr: name for name, point in registered().items()} | {name: name for name in METHODS}
    if cls not in names:
        msg = (
            f"{folder} holds a model of class {cls!r}, which is no method of this version of acova, nor registered by "
            "another package; a class of your own reads it with its method load."
        )
        raise RunFolderError(msg)
    return METHODS[names[cls]].load(folder, device=device)
