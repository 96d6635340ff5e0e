"""Survival by cluster of the 92 adrenocortical tumours of TCGA, whose file holds the time and event of each patient.

    OMP_NUM_THREADS=1 python benchmarks/survival.py tcga_acc_all.npz --clusters 3 --figure survival.png

The file has ``view_0``, ``view_1``, …, ``observed``, ``time`` and ``event``. Survival is not among the views.
"""

import argparse
import warnings

import numpy as np
import pandas as pd

from acova import AgreementGraph, Views
from acova.plots import SurvivalDisplay


def read_file(path: str) -> tuple[Views, pd.DataFrame]:
    """Return the views, and time and event of every sample."""
    with np.load(path) as stored:
        observed = stored["observed"]
        arrays = [np.where(observed[:, [v]], stored[f"view_{v}"], np.nan) for v in range(int(stored["n_views"]))]
        return Views.of(arrays), pd.DataFrame({"time": stored["time"], "event": stored["event"]})


def main() -> None:
    """Fit, compare and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--clusters", type=int, default=3)
    parser.add_argument("--figure", help="where the curves are drawn to")
    arguments = parser.parse_args()
    views, frame = read_file(arguments.file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AgreementGraph(arguments.clusters, random_state=0).fit(views)
    survival = model.compare(frame, "time", "event").survival
    print(survival)
    if arguments.figure:
        SurvivalDisplay(survival).plot().figure_.savefig(arguments.figure, dpi=120)


if __name__ == "__main__":
    main()
