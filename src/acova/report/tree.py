"""Which clusters are alike, as a drawing."""

from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list

from acova.report.numbers import percent
from acova.report.result import Result

WIDTH = 720
_LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 108, 16, 8, 24, 40


def cluster_tree(result: Result) -> dict[str, Any] | None:
    """Return what the drawing of `cluster_tree_` consists of, and a sentence; None for fewer than three clusters.

    ``leaves`` (cluster, samples, y), ``merges`` (clusters below, height, path, a text) from the first to the last,
    ``ticks`` (text and x).
    """
    count = result.model.n_clusters_
    if count < 3:
        return None
    tree, sizes = result.model.cluster_tree_, result.display.sizes
    bottom = _TOP + count * _ROW
    places = {int(leaf): (_LEFT, _TOP + (row + 0.5) * _ROW) for row, leaf in enumerate(leaves_list(tree))}
    leaves = [{"cluster": leaf, "samples": int(sizes[leaf]), "y": y} for leaf, (_, y) in places.items()]
    below = {leaf: [leaf] for leaf in range(count)}
    merges = []
    for step, (first, second, height, _) in enumerate(tree.tolist()):
        (x_first, y_first), (x_second, y_second) = places[int(first)], places[int(second)]
        x = _LEFT + height * (WIDTH - _LEFT - _RIGHT)
        below[count + step] = sorted(below[int(first)] + below[int(second)])
        places[count + step] = x, (y_first + y_second) / 2
        merges.append(
            {
                "clusters": below[count + step],
                "height": height,
                "path": f"M{x_first:.1f} {y_first:.1f}H{x:.1f}V{y_second:.1f}H{x_second:.1f}",
            }
        )
    ticks = [(f"{share:.0%}", float(_LEFT + share * (WIDTH - _LEFT - _RIGHT))) for share in np.linspace(0, 1, 6)]
    first = merges[0]
    words = (
        f"Clusters {first['clusters'][0]} and {first['clusters'][1]} are the most alike: were they one, "
        f"{percent(first['height'])} of the variance between the clusters would be lost."
    )
    return {
        "leaves": leaves,
        "merges": merges,
        "ticks": ticks,
        "words": words,
        "size": (WIDTH, bottom + _BOTTOM),
        "box": (_LEFT, _TOP, WIDTH - _LEFT - _RIGHT, bottom - _TOP),
    }
