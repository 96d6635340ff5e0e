"""Rows of unusual length, and the largest agreement of two views, in the data sets of a benchmark spec.

python benchmarks/unusual.py benchmarks/real.toml
"""

import sys
import warnings
from pathlib import Path

import numpy as np

from acova.bench import BenchSpec
from acova.bench.records import n_classes_of
from acova.bench.sources import load_data, mask_of
from acova.clustering.agreement import view_agreement
from acova.data import Scaling


def main() -> None:
    """Print a line per data set: largest agreement, and the share of each view's rows that are shortened."""
    warnings.simplefilter("ignore")  # what is odd about the data is not the question here
    folder = Path(sys.argv[1])
    first = {fit.data.name: fit for fit in reversed(list(BenchSpec.from_toml(folder).fits())) if fit.run == 0}
    for name, fit in sorted(first.items()):
        data = load_data(fit.data, fit.folder, 0)
        views = data.views.hide(mask_of(fit, data))
        scaling = Scaling.fit(views, ("auto",) * views.n_views)
        tables = [table.astype(np.float64) for table in scaling.transform(views)]
        agreement = view_agreement(tables, views.observed, n_classes_of(data))
        shares = []
        for v, limit in enumerate(scaling.limits):
            lengths = np.linalg.norm(tables[v][views.observed[:, v]], axis=1)
            shares.append(float((lengths > 0.999 * limit).mean()))
        largest = agreement[~np.eye(len(agreement), dtype=bool)].max(initial=0.0)
        print(f"{name}: agreement {largest:.2f}, shortened rows {' '.join(f'{share:.1%}' for share in shares)}")


if __name__ == "__main__":
    main()
