"""How often planted features are among those that `explain` names first.

    OMP_NUM_THREADS=1 python benchmarks/explanations.py --runs 3

Two views of 30 features and 300 samples in three groups, half of them incomplete. Five features a view tell the
groups (standard deviation 0.7 within a group, 1.4 between the groups' means), one more is a copy of the first, 24 are
noise. Printed are the share of planted features and copies among each sample's ten first (precision at 10; of as many
as there are, six for a sample with one view; by chance 0.27), the same for `cluster_profiles`, the share of
contributions that noise gets, and the largest error of the sums. ACOVA trains once (n_init=1).
"""

import argparse
import time

import numpy as np
import pandas as pd

PLANTED = [f"planted_{j}" for j in range(5)] + ["copy"]


def planted_views(run: int) -> tuple[dict[str, pd.DataFrame], np.ndarray]:
    """Return two views with planted features, and what is observed."""
    from acova.data import make_observed

    numbers = np.random.default_rng(run)
    groups = np.arange(300) % 3
    frames = {}
    for name in ("first", "second"):
        centers = numbers.normal(size=(3, 5))
        centers *= 2.5 / np.linalg.norm(centers - centers.mean(axis=0), axis=0)
        signal = centers[groups] + numbers.normal(size=(300, 5)) * 0.7
        copy = signal[:, :1] + 0.05 * numbers.normal(size=(300, 1))
        noise = numbers.normal(size=(300, 24))
        columns = [*PLANTED, *(f"noise_{j}" for j in range(24))]
        frames[name] = pd.DataFrame(np.hstack([signal, copy, noise]), columns=columns)
    return frames, make_observed(300, 2, 0.5, random_state=run)


def measure(run: int) -> dict[str, float]:
    """Return the figures of one run."""
    from acova import ACOVA

    frames, observed = planted_views(run)
    model = ACOVA(3, n_init=1, random_state=run).fit(frames, observed=observed)
    start = time.process_time()
    found = model.explain(frames, observed=observed)
    seconds = time.process_time() - start
    top = found.top(10)
    hits = top["feature"].isin(PLANTED).groupby(top["sample"]).sum()
    possible = np.minimum(10, 6 * observed.sum(axis=1))
    total = sum(table.to_numpy().sum(axis=1) for table in found.features.values())
    wanted = (found.samples["log_odds"] - found.samples["baseline"]).to_numpy()
    sizes = pd.concat([table.abs().sum() for table in found.features.values()])
    profiles = model.cluster_profiles().groupby("cluster").head(10)
    return {
        "run": run,
        "precision at 10": float((hits / possible).mean()),
        "profiles, precision at 10": float(profiles["feature"].isin(PLANTED).mean()),
        "share of noise": float(sizes[~sizes.index.isin(PLANTED)].sum() / sizes.sum()),
        "largest error of a sum": float((np.abs(total - wanted) / np.maximum(np.abs(wanted), 1)).max()),
        "seconds": seconds,
    }


def main() -> None:
    """Print a row per run, and their mean."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    table = pd.DataFrame([measure(run) for run in range(parser.parse_args().runs)])
    print(table.round(4).to_string(index=False), "\n\nmean\n", table.mean().round(3).to_string())


if __name__ == "__main__":
    main()
