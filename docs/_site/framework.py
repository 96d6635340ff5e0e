"""Draw the figure of the method: ``python docs/_site/framework.py`` writes ``docs/images/framework.svg``."""

from math import exp
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "images" / "framework.svg"
WIDTH, HEIGHT = 1180, 560
INK, FAINT, PAPER = "#1f2937", "#9ca3af", "#ffffff"
VIEWS = ("#0072b2", "#d55e00", "#009e73")
"""One colour per view, of Okabe and Ito's palette, which colour-blind readers can tell apart."""
CLUSTERS = ("#56b4e9", "#e69f00", "#cc79a7")
ROWS = (130, 250, 370)
"""Heights of the views' middles."""
MISSING = 2
CORRELATION = ((1.0, 0.6, 0.25), (0.6, 1.0, 0.4), (0.25, 0.4, 1.0))

Parts = list[str]


def shape(name: str, **attributes: object) -> str:
    """Return an element; underscores in names of attributes stand for hyphens."""
    return f"<{name} " + " ".join(f'{key.replace("_", "-")}="{value}"' for key, value in attributes.items()) + "/>"


def text(x: float, y: float, words: str, size: int = 14, anchor: str = "middle", **more: object) -> str:
    """Return a line of text."""
    attributes = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in {"fill": INK, **more}.items())
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{attributes}>{words}</text>'


def code(x: float, y: float, words: str, anchor: str = "middle") -> str:
    """Return a name of the library in the type of code."""
    return text(x, y, words, 12, anchor, fill="#4b5563", font_family="ui-monospace, Menlo, Consolas, monospace")


def sub(letter: str, index: str) -> str:
    """Return a letter with an index."""
    return f'{letter}<tspan font-size="75%" dy="3">{index}</tspan><tspan dy="-3">\u200b</tspan>'


def arrow(*points: tuple[float, float], colour: str = INK, dashed: bool = False) -> str:
    """Return a line through the points with a head at the last one."""
    path = " ".join(f"{x:g},{y:g}" for x, y in points)
    more = {"stroke_dasharray": "5 4"} if dashed else {}
    return shape("polyline", points=path, fill="none", stroke=colour, stroke_width=1.6, marker_end="url(#head)", **more)


def bell(x: float, y: float, width: float, height: float, colour: str) -> str:
    """Return a Gaussian curve whose foot is centred at (x, y)."""
    steps = [-3 + 0.25 * step for step in range(25)]
    path = " ".join(f"{x + width * s / 3:.1f},{y - height * exp(-s * s / 2):.1f}" for s in steps)
    return shape("polygon", points=path, fill=colour, fill_opacity=0.25, stroke=colour, stroke_width=1.8)


def network(x: float, y: float, colour: str, *, opens: bool, dashed: bool = False) -> str:
    """Return a trapezium: narrow on the right for an encoder, on the left for a decoder."""
    left, right = (22, 38) if opens else (38, 22)
    points = f"{x},{y - left} {x + 64},{y - right} {x + 64},{y + right} {x},{y + left}"
    if dashed:
        return shape("polygon", points=points, fill="none", stroke=FAINT, stroke_dasharray="5 4")
    return shape("polygon", points=points, fill=colour, fill_opacity=0.18, stroke=colour, stroke_width=1.6)


def table(x: float, y: float, colour: str, *, missing: bool = False) -> Parts:
    """Return a view of a sample as a strip of cells, or its place where it is missing."""
    if missing:
        place = {"x": x, "y": y - 26, "width": 78, "height": 52, "rx": 4}
        return [shape("rect", **place, fill="none", stroke=FAINT, stroke_dasharray="5 4")]
    shades = (0.75, 0.3, 0.55, 0.2, 0.65, 0.4)
    return [
        shape("rect", x=x + 13 * cell, y=y - 26, width=12, height=52, fill=colour, fill_opacity=shade)
        for cell, shade in enumerate(shades)
    ]


def views() -> Parts:
    """Return the inputs and the encoders."""
    parts = [text(20, 52, "one sample", 15, "start", font_weight="600"), text(187, 52, "encode", 15, font_weight="600")]
    for number, (y, colour) in enumerate(zip(ROWS, VIEWS, strict=True)):
        missing = number == MISSING
        parts += table(20, y, colour, missing=missing)
        parts.append(text(59, y + 46, f"{sub('x', str(number + 1))} missing" if missing else sub("x", str(number + 1))))
        parts.append(network(155, y, colour, opens=False, dashed=missing))
        parts.append(text(187, y + 5, sub("φ", str(number + 1)), fill=FAINT if missing else INK))
        if not missing:
            parts += [arrow((102, y), (150, y)), arrow((222, y), (268, y))]
    return [*parts, code(187, 440, "MultiViewVAE"), code(187, 456, ".encode")]


def estimates() -> Parts:
    """Return what the encoders say of the latent vector, view by view."""
    parts = [text(330, 52, "estimates of z", 15, font_weight="600")]
    shapes = ((312, 34, 46), (352, 52, 30))
    for number, ((x, width, height), y) in enumerate(zip(shapes, ROWS, strict=False)):
        parts += [shape("line", x1=276, y1=y + 22, x2=396, y2=y + 22, stroke=FAINT)]
        parts += [bell(x, y + 22, width, height, VIEWS[number])]
        moments = f"{sub('μ', str(number + 1))}, {sub('σ', str(number + 1))}"
        parts += [text(330, y + 42, moments), arrow((400, y), (448, y))]
    parts += [
        text(330, 366, "no estimate:", 13, fill="#6b7280"),
        text(330, 384, "nothing is imputed", 13, fill="#6b7280"),
    ]
    return parts


def fusion() -> Parts:
    """Return the correlation of the errors, and how it fuses the estimates."""
    box = shape("rect", x=452, y=76, width=190, height=318, rx=10, fill="#f3f4f6", stroke=INK, stroke_width=1.4)
    parts = [box, text(547, 52, "fuse: correlated errors", 15, font_weight="600")]
    parts.append(text(547, 102, "learned correlation"))
    for row, entries in enumerate(CORRELATION):
        for column, value in enumerate(entries):
            place = {"x": 502 + 30 * column, "y": 116 + 30 * row, "width": 29, "height": 29}
            grey = MISSING in (row, column)
            parts.append(shape("rect", **place, fill="#7c3aed", fill_opacity=value * (0.25 if grey else 0.9)))
    parts += [text(484, 167, "R", 17, font_style="italic"), text(610, 167, "= LLᵀ", 14)]
    parts += [
        text(547, 236, f"{sub('w', 'v')} = {sub('1/σ', 'v')}, hidden: 0"),
        text(547, 262, "A = wᵀ R⁻¹ w"),
        text(547, 288, "ω = w ∘ (R⁻¹ w) / A"),
        text(547, 328, f"μ̃ = Σ {sub('ω', 'v')} {sub('μ', 'v')}", 16),
        text(547, 358, "σ̃² = 1 / A", 16),
    ]
    return [*parts, code(547, 440, "correlation_matrix, fuse"), arrow((646, 235), (692, 235))]


def posterior() -> Parts:
    """Return the fused posterior and the draws from it."""
    foot = 262
    return [
        text(752, 52, "fused posterior", 15, font_weight="600"),
        shape("line", x1=698, y1=foot, x2=806, y2=foot, stroke=FAINT),
        bell(748, foot, 40, 78, "#7c3aed"),
        text(752, foot + 24, "N(μ̃, σ̃²)", 15),
        shape("circle", cx=760, cy=foot - 4, r=4, fill=INK),
        text(774, foot - 10, "z", 15, font_style="italic"),
        code(752, 440, "reparameterise"),
        arrow((812, 222), (858, 170)),
        arrow((812, 282), (838, 282), (838, 330), (862, 330)),
    ]


def prior() -> Parts:
    """Return the mixture and the probabilities of the clusters."""
    parts = [text(958, 52, "assign: Gaussian mixture", 15, font_weight="600")]
    places = ((905, 120, 34, 20, -20), (962, 162, 30, 18, 15), (912, 190, 32, 17, 30))
    for (x, y, wide, high, turn), colour in zip(places, CLUSTERS, strict=True):
        ellipse = {"cx": x, "cy": y, "rx": wide, "ry": high, "transform": f"rotate({turn} {x} {y})"}
        parts.append(shape("ellipse", **ellipse, fill=colour, fill_opacity=0.3, stroke=colour, stroke_width=1.8))
    parts += [shape("circle", cx=952, cy=156, r=4, fill=INK), arrow((1000, 156), (1040, 156))]
    for place, (share, colour) in enumerate(zip((0.12, 0.8, 0.08), CLUSTERS, strict=True)):
        bar = {"x": 1052, "y": 126 + 22 * place, "width": round(96 * share), "height": 16}
        parts.append(shape("rect", **bar, fill=colour))
    parts += [
        shape("line", x1=1051, y1=118, x2=1051, y2=196, stroke=INK),
        text(1100, 222, "q(c | x)", 15),
        code(962, 234, "log_responsibilities"),
    ]
    return parts


def decoders() -> Parts:
    """Return the decoders and the views that they reconstruct."""
    parts = [text(962, 274, "decode: observed views", 15, font_weight="600")]
    for number, y in enumerate((330, 418)):
        parts += [network(868, y, VIEWS[number], opens=True), text(900, y + 5, sub("θ", str(number + 1)))]
        parts += [arrow((936, y), (976, y)), *table(984, y, VIEWS[number])]
        parts.append(text(1098, y + 5, sub("f", str(number + 1)) + "(z)"))
    return [*parts, arrow((838, 330), (838, 418), (862, 418)), code(962, 478, "MultiViewVAE.decode")]


def objective() -> Parts:
    """Return the parts of what is minimised, below the parts of the network that they are about."""
    y, line = 534, 500
    box = shape("rect", x=20, y=line, width=1140, height=50, rx=8, fill="#eef2ff", stroke="none")
    return [
        box,
        text(36, y - 4, "minimised:", 15, "start", font_weight="600"),
        text(140, y - 4, f"reconstruction  Σ ‖{sub('x', 'v')} − {sub('f', 'v')}(z)‖²", 15, "start"),
        text(412, y - 4, f"+  KL to the mixture  {sub('kl', 'z')} + {sub('kl', 'c')}", 15, "start"),
        text(
            668, y - 4, f"+  α · alignment,  mean of KL( N(μ̃, σ̃²) ‖ N({sub('μ', 'v')}, {sub('σ', 'v')}²) )", 15, "start"
        ),
    ]


def drawn() -> str:
    """Return the figure."""
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{INK}"/></marker>'
    )
    frame = shape("rect", x=0, y=0, width=WIDTH, height=HEIGHT, rx=12, fill=PAPER)
    parts = [*views(), *estimates(), *fusion(), *posterior(), *prior(), *decoders(), *objective()]
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif">'
        "<title>How ACOVA clusters a sample that lacks a view</title>"
    )
    return "\n".join([opening, f"<defs>{head}</defs>", frame, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    TARGET.write_text(drawn())
