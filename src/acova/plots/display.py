"""What all displays share: a notebook draws them."""

from io import BytesIO
from typing import Any


class Display:
    """Draws itself in a notebook, as the last value of a cell.

    A figure of `matplotlib.pyplot`, which notebooks show anyway, is not shown twice.
    """

    def plot(self) -> Any:
        """Draw on a new figure."""
        raise NotImplementedError

    def _repr_png_(self) -> bytes | None:
        figure = getattr(self, "figure_", None)
        if figure is None:
            figure = self.plot().figure_
        if figure.canvas.manager is not None:
            return None
        stream = BytesIO()
        figure.savefig(stream, format="png", dpi=100)
        return stream.getvalue()
