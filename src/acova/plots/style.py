"""Colours and markers that colour-blind readers can tell apart (Okabe and Ito, then Tol); text that fits its place."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PALETTE = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#000000", "#B8A900",
    "#882255", "#7F7F7F", "#332288", "#AA7744",
)  # fmt: skip
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_FONT, _LEAST = 9.0, 5.0
_WIDTH, _HEIGHT = 0.64, 1.3
"""Of a character, in font sizes; digits and most letters are narrower."""


def new_axes(ax: "Axes | None", size: tuple[float, float]) -> Any:
    """Return the given axes, or new ones of a size in inches."""
    if ax is not None:
        return ax
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained").add_subplot()


def short(name: object, limit: int = 20) -> str:
    """Return a name as plain text with its middle left out where it is longer than `limit`."""
    text = " ".join(str(name).split()).replace("$", r"\$")  # a dollar sign would start a formula
    return text if len(text) <= limit else f"{text[: limit - limit // 2 - 1]}…{text[len(text) - limit // 2 :]}"


def settle(ax: "Axes") -> None:
    """Lay out the figure as it will be drawn, so that sizes can be asked for."""
    figure: Any = ax.figure
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)


def points_per_cell(ax: "Axes", rows: int, columns: int) -> tuple[float, float]:
    """Return width and height, in points, of the cells of a table that fills the axes once they are laid out."""
    settle(ax)
    box, dpi = ax.get_window_extent(), ax.figure.dpi
    return box.width / dpi * 72 / max(columns, 1), box.height / dpi * 72 / max(rows, 1)


def write_cells(ax: "Axes", texts: Sequence[Sequence[str]], colours: Sequence[Sequence[str]]) -> None:
    """Write into the cells of a heat map, as large as they allow; nothing where no legible size fits."""
    width, height = points_per_cell(ax, len(texts), len(texts[0]))
    longest = max(len(text) for row in texts for text in row)
    size = min(_FONT, 0.9 * width / (_WIDTH * longest), height / _HEIGHT)
    if size < _LEAST:
        return
    for y, (row, inks) in enumerate(zip(texts, colours, strict=True)):
        for x, (text, ink) in enumerate(zip(row, inks, strict=True)):
            ax.text(x, y, text, ha="center", va="center", color=ink, fontsize=size)


def label_rows(ax: "Axes", names: Sequence[object]) -> float:
    """Name the rows 0, 1, … of an axes; where there is little room in smaller type, or only every n-th.

    Returns
    -------
    float
        The size of type that a line of text in a row may have.
    """
    room = points_per_cell(ax, len(names), 1)[1] / _HEIGHT
    step = next(step for step in (1, 2, 5, 10, 20, 50, len(names) + 1) if room * step >= _LEAST or step > len(names))
    rows = range(0, len(names), step)
    ax.set_yticks(rows, [short(names[row]) for row in rows], fontsize=min(10.0, room * step))
    return min(_FONT, room)


def name_columns(ax: "Axes", names: Sequence[object], *, room: float | None = None) -> None:
    """Name the columns 0, 1, … of an axes, slanted where they would touch; `room` for more columns than names."""
    texts = [short(name) for name in names]
    width = points_per_cell(ax, 1, 1)[0] / (room or len(names))
    if max(map(len, texts)) * _WIDTH * 10 < width:
        ax.set_xticks(range(len(names)), texts)
    else:
        size = min(10.0, width / _HEIGHT)
        ax.set_xticks(range(len(names)), texts, rotation=45, ha="right", rotation_mode="anchor", fontsize=size)
