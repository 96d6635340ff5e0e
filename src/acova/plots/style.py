"""Colours and markers that colour-blind readers can tell apart (Okabe and Ito, then Tol)."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000", "#B8A900",
    "#882255", "#7F7F7F", "#332288", "#AA7744",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


def new_axes(ax: "Axes | None", size: tuple[float, float]) -> Any:
    """Return the given axes, or new ones of a size in inches."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()
