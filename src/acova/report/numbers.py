"""Numbers as people read them: every number of the page is written by a function of this module."""

import math
from collections.abc import Sequence


def number(value: float, *, most: float = math.inf) -> str:
    """Return a number to three digits, or to the unit from 1,000 on.

    Parameters
    ----------
    value : float
        NaN is a dash.
    most : float
        A larger size, also an infinite one, is written as ``> most``.
    """
    if math.isnan(value):
        return "–"
    if abs(value) > most:
        return f"{'< −' if value < 0 else '> '}{number(most)}"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    rounded = float(f"{value:.3g}")  # 999.9 has four digits once it is rounded
    if 1000 <= abs(rounded) < 1e6:
        text = f"{value:,.0f}"
    elif rounded == 0 or 1e-4 <= abs(rounded) < 1e6:
        text = f"{rounded:z.3g}"
    else:
        digits, power = f"{rounded:.2e}".split("e")
        text = f"{float(digits):g}e{int(power)}"
    return text.replace("-", "−")


def fixed(value: float, *, signed: bool = False) -> str:
    """Return a number to two decimals, with its sign if asked; never a negative zero."""
    if math.isnan(value):
        return "–"
    return f"{value:{'+' if signed else ''}z.2f}".replace("-", "−")


def percent(share: float) -> str:
    """Return a share from 0 to 1 in whole percent; 0% and 100% mean none and all."""
    if math.isnan(share):
        return "–"
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def listed(words: Sequence[object], most: int = 10) -> str:
    """Return words as a list in a sentence: ``a, b and c``; more than `most` are counted."""
    shown = [str(word) for word in words[:most]]
    if len(words) > most:
        shown.append(f"{len(words) - most:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
