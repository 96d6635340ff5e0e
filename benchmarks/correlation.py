"""Whether the correlation of the views' errors is found, and what it is good for, where it is known.

    OMP_NUM_THREADS=1 python benchmarks/correlation.py run --out benchmarks/results/correlation.csv
    python benchmarks/correlation.py table --out benchmarks/results/correlation.csv
    OMP_NUM_THREADS=1 python benchmarks/correlation.py network --out benchmarks/results/correlation_network.csv

Linear views: a latent vector z of two standard normal coordinates, V estimates z + e of it with errors of known
standard deviations and known correlation R. Structures: "none"; "equal", every two views 0.5; "blocks", 0.8 within each
half of the views and 0 between; "copies", view 1 is view 0 with a tiny error of its own (0.99), the others independent.
Standard deviations differ from view to view and, unless "constant", from sample to sample, as encoders give them. 800
samples teach, 4,000 others test; with "missing" each view is hidden from 30 % of the samples.

Rules of the fused posterior: R = I; one constant rho, and a free R, in the precision and in the marginal form, learned
by the criterion; the true R. With more than 16 views R is low rank (3 factors) plus a diagonal. Criteria:

- "targets": the likelihood of known z under the fused posterior (as in `benchmarks/supervised_fusion.py`);
- "evidence": the likelihood of the estimates when z is not known, z integrated out with its prior;
- "elbo": the evidence bound as `ACOVA` has it (posterior as fused, a normal prior), decoders and variances being right.

Printed are, with 95 % intervals over ten runs (three with 64 views): the root mean squared error of the entries of R
beside the diagonal ("off"), the error of the fused means, the stated standard deviation over the actual error
("stated"; 1 is right), and the share of z inside 90 % intervals, in percent ("inside").

"network" fits `ACOVA` itself, small (two clusters and latent dimensions, 140 epochs, n_init=1), to 400 samples of such
estimates by four views, each seen through a random nonlinear map to 12 features; latent vectors are mapped to the true
ones by least squares. "R by the evidence of its codes" is learned after the fit with R = I, and fused in its place.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.optimize import minimize
from scipy.stats import t
from torch import Tensor

from acova.functional import (
    constant_correlation,
    correlation_matrix,
    fuse,
    log_evidence,
    low_rank_correlation,
)

LEARNED_FROM, TESTED, DIMENSIONS, FACTORS = 800, 4000, 2, 3
STRUCTURES = ("none", "equal", "blocks", "copies")
COUNTS = (2, 4, 8, 16, 64)
_MOST_DENSE, _STEPS, _RUNS_OF_MANY = 16, 40, 3


def true_correlation(structure: str, n_views: int) -> Tensor:
    """Return the matrix of the errors' correlations."""
    matrix = torch.eye(n_views, dtype=torch.float64)
    if structure == "equal":
        return constant_correlation(n_views, 0.5)
    if structure == "blocks":
        half = torch.arange(n_views) < (n_views + 1) // 2
        return torch.where(half[:, None] == half, 0.8, 0.0).double().fill_diagonal_(1.0)
    if structure == "copies":
        matrix[0, 1] = matrix[1, 0] = 0.99
    return matrix


def made(n: int, matrix: Tensor, generator: torch.Generator, *, missing: bool, constant: bool) -> dict[str, Tensor]:
    """Return latent vectors (n, D), estimates and their standard deviations (n, V, D), and what is observed (n, V)."""
    n_views = len(matrix)
    draw = {"generator": generator, "dtype": torch.float64}
    latent = torch.randn(n, DIMENSIONS, **draw)
    base = 0.5 + torch.rand(n_views, 1, **draw)
    std = base.expand(n, n_views, DIMENSIONS)
    if not constant:
        std = std * torch.exp(0.4 * torch.randn(n, n_views, DIMENSIONS, **draw))
    errors = torch.einsum("vw,nwd->nvd", torch.linalg.cholesky(matrix), torch.randn(n, n_views, DIMENSIONS, **draw))
    observed = torch.ones(n, n_views, dtype=torch.bool)
    if missing:
        observed = torch.rand(n, n_views, generator=generator) > 0.3
        observed[:, 0] |= ~observed.any(1)
    return {"latent": latent, "mean": latent.unsqueeze(1) + std * errors, "std": std, "observed": observed}


# --- criteria: what learns R, each a number to minimise -------------------------------------------


def by_targets(data: dict[str, Tensor], matrix: Tensor, form: str) -> Tensor:
    """Return minus the log likelihood of known latent vectors under the fused posterior."""
    mean, variance, _ = fuse(data["mean"], data["std"], data["observed"], matrix, form)
    return ((data["latent"] - mean).square() / variance + variance.log()).mean() / 2


def by_elbo(data: dict[str, Tensor], matrix: Tensor, form: str) -> Tensor:
    """Return minus the evidence bound, exact in its expectations."""
    mean, variance, _ = fuse(data["mean"], data["std"], data["observed"], matrix, form)
    gap = (data["mean"] - mean.unsqueeze(1)).square() + variance.unsqueeze(1)
    error = (gap / data["std"].square() / 2).masked_fill(~data["observed"].unsqueeze(-1), 0.0).sum(1)
    return (error + (mean.square() + variance - variance.log()) / 2).mean()


def by_evidence(data: dict[str, Tensor], matrix: Tensor, form: str) -> Tensor:
    """Return minus the log density of the estimates."""
    return -log_evidence(data["mean"], data["std"], data["observed"], matrix, form).mean()


CRITERIA: dict[str, Callable[[dict[str, Tensor], Tensor, str], Tensor]] = {
    "targets": by_targets,
    "evidence": by_evidence,
    "elbo": by_elbo,
}


def learned(data: dict[str, Tensor], criterion: str, form: str, kind: str, generator: torch.Generator) -> Tensor:
    """Return the matrix, of a kind, for which a criterion is best."""
    n_views = data["mean"].shape[1]
    if kind == "constant":
        parameter = torch.zeros(1, dtype=torch.float64)
        low = -1 / max(n_views - 1, 1)
        ones = torch.ones(n_views, n_views, dtype=torch.float64)
        eye = torch.eye(n_views, dtype=torch.float64)

        def matrix_of(p: Tensor) -> Tensor:
            rho = low + (0.999 - low) * torch.sigmoid(p - np.log(0.999 / -low))
            return rho * ones + (1 - rho) * eye
    elif n_views > _MOST_DENSE:
        parameter, matrix_of = (
            0.1 * torch.randn(n_views, FACTORS, generator=generator, dtype=torch.float64),
            (low_rank_correlation),
        )
    else:
        parameter, matrix_of = torch.zeros(n_views * (n_views + 1) // 2, dtype=torch.float64), correlation_matrix
    shape = parameter.shape

    def value_and_gradient(numbers: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.from_numpy(numbers.copy()).view(shape).requires_grad_()
        value = CRITERIA[criterion](data, matrix_of(at), form)
        (gradient,) = torch.autograd.grad(value, at)
        if not (value.isfinite() and gradient.isfinite().all()):
            return 1e6, np.zeros(numbers.shape)
        return float(value.detach()), gradient.flatten().numpy()

    options = {"maxiter": _STEPS}
    found = minimize(value_and_gradient, parameter.flatten().numpy(), jac=True, method="L-BFGS-B", options=options)
    return matrix_of(torch.from_numpy(found.x).view(shape))


def scores(data: dict[str, Tensor], matrix: Tensor, form: str, truth: Tensor) -> dict[str, float]:
    """Return how far R is off, and how far the fused posterior can be believed."""
    mean, variance, _ = fuse(data["mean"], data["std"], data["observed"], matrix, form)
    gap, std = (mean - data["latent"]).abs(), variance.sqrt()
    beside = ~torch.eye(len(truth), dtype=torch.bool)
    return {
        "off": float((matrix - truth)[beside].square().mean().sqrt()),
        "error": float(gap.square().mean().sqrt()),
        "stated": float(std.square().mean().sqrt() / gap.square().mean().sqrt()),
        "inside": float(100 * (gap <= 1.6449 * std).double().mean()),
    }


def measured(structure: str, n_views: int, run: int, *, missing: bool, constant: bool) -> list[dict]:
    """Return a row for every rule; without missing views the two forms are the same."""
    truth, generator = true_correlation(structure, n_views), torch.Generator().manual_seed(run)
    data, test = (made(n, truth, generator, missing=missing, constant=constant) for n in (LEARNED_FROM, TESTED))
    known = {"structure": structure, "views": n_views, "run": run, "missing": missing, "constant": constant}
    forms = ("marginal", "precision") if missing else ("precision",)
    rows = [
        {**known, "criterion": "-", "rule": f"true R, {form}", **scores(test, truth, form, truth)} for form in forms
    ]
    identity = torch.eye(n_views, dtype=torch.float64)
    rows.append({**known, "criterion": "-", "rule": "R = I", **scores(test, identity, "precision", truth)})
    for criterion in CRITERIA:
        for kind, form in [("constant", forms[0]), *(("learned", form) for form in forms)]:
            matrix = learned(data, criterion, form, kind, generator)
            found = scores(test, matrix, form, truth)
            rows.append({**known, "criterion": criterion, "rule": f"{kind} R, {form}", **found})
    return rows


# --- the network ----------------------------------------------------------------------------------


def measured_network(structure: str, run: int, missing: bool) -> list[dict]:
    """Return a row for each way of fusing in `ACOVA`, of four views."""
    from acova import ACOVA, Training, Views

    truth, generator = true_correlation(structure, 4), torch.Generator().manual_seed(run)
    data = made(400, truth, generator, missing=missing, constant=True)
    maps = torch.randn(4, DIMENSIONS, 24, generator=generator, dtype=torch.float64)
    hidden = torch.tanh(0.7 * torch.einsum("nvd,vdh->nvh", data["mean"], maps))
    ends = torch.randn(4, 24, 12, generator=generator, dtype=torch.float64)
    features = torch.einsum("nvh,vhp->nvp", hidden, ends).numpy()
    views, observed, latent = list(features.transpose(1, 0, 2)), data["observed"].numpy(), data["latent"].numpy()
    known = {"structure": structure, "views": 4, "run": run, "missing": missing, "constant": True}
    rows = []

    def note(rule: str, mean: np.ndarray, std: np.ndarray, matrix: np.ndarray) -> None:
        way = np.linalg.lstsq(np.column_stack([mean, np.ones(len(mean))]), latent, rcond=None)[0]
        gap, spread = np.abs(mean @ way[:-1] + way[-1] - latent), np.sqrt(np.square(std) @ np.square(way[:-1]))
        off = np.sqrt(np.square(matrix - truth.numpy())[~np.eye(4, dtype=bool)].mean())
        error = np.sqrt(np.square(gap).mean())
        found = {"off": off, "error": error, "stated": np.sqrt(np.square(spread).mean()) / error}
        found["inside"] = 100 * (gap <= 1.6449 * spread).mean()
        shown = {name: float(value) for name, value in found.items()}
        rows.append({**known, "criterion": "network", "rule": rule, **shown, "matrix": np.round(matrix, 3).tolist()})

    for rule, settings in {
        "R = I": {"correlation": "identity"},
        "learned R, marginal": {"missing": "marginal"},
        "learned R, precision": {"missing": "precision"},
    }.items():
        training = Training(pretrain_epochs=40, warmup_epochs=40)
        model = ACOVA(2, latent_dim=DIMENSIONS, n_init=1, epochs=60, random_state=run, training=training, **settings)
        given = Views.of(views, observed)
        note(rule, *model.fit(given).posterior(given), model.correlation_)
        if rule == "R = I":
            matrix, fused = afterwards(model, given, generator)
            note("R by the evidence of its codes", fused.mean.numpy(), fused.variance.sqrt().numpy(), matrix.numpy())
    return rows


def afterwards(model: Any, views: Any, generator: torch.Generator) -> tuple[Tensor, Any]:
    """Return R that the codes of a fitted model are most likely with, and what they fuse to under it.

    Codes are divided by the spread of the latent vectors, which "evidence" takes to be 1.
    """
    from acova.training.inference import batch_of

    batch, network = batch_of(views, model._scaling, torch.device("cpu")), model.network_
    with torch.no_grad():
        mean, std = (part.double() for part in network.encode(batch.views, batch.observed))
        fused = network.posterior(batch.views, batch.observed)
    scale = (fused.mean.var(0) + fused.variance.mean(0)).sqrt().double()
    centre = fused.mean.mean(0).double()
    data = {"mean": (mean - centre) / scale, "std": std / scale, "observed": batch.observed}
    matrix = learned(data, "evidence", "marginal", "learned", generator)
    return matrix, fuse(mean, std, batch.observed, matrix, "marginal")


# --- rows and tables ------------------------------------------------------------------------------


def cells() -> list[dict]:
    """Return what is measured: all numbers of views complete, few with missing views, one with constant errors."""
    whole = [{"n_views": v, "missing": False, "constant": False} for v in COUNTS]
    some = [{"n_views": v, "missing": True, "constant": False} for v in (4, 8)]
    return [*whole, *some, *({"n_views": 4, "missing": missing, "constant": True} for missing in (False, True))]


def rows_of(path: Path) -> pd.DataFrame:
    """Return the rows of a file, none if there is no file."""
    keys = ["structure", "views", "run", "missing", "constant"]
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=keys)


def table(path: Path) -> None:
    """Print means over the runs with half the width of their 95 % intervals."""
    keys = ["structure", "views", "missing", "constant", "criterion", "rule"]
    by = rows_of(path).groupby(keys, sort=False)
    shown = {}
    for score, digits in {"off": 3, "error": 3, "stated": 2, "inside": 1}.items():
        count = by[score].count()
        mean, half = by[score].mean(), t.ppf(0.975, count - 1) * by[score].std() / np.sqrt(count)
        shown[score] = [f"{m:.{digits}f} ± {h:.{digits}f}" for m, h in zip(mean, half, strict=True)]
    print(pd.DataFrame({**shown, "runs": by["run"].count().to_numpy()}, index=by.size().index).to_string())


def run(path: Path, runs: int, *, network: bool) -> None:
    """Append the rows that are not there yet."""
    done = set(rows_of(path)[["structure", "views", "missing", "constant", "run"]].itertuples(index=False, name=None))
    four = {"n_views": 4, "missing": False, "constant": True}
    chosen = [four] if network else cells()
    for number in range(runs):
        for structure in STRUCTURES:
            for cell in chosen:
                if cell["n_views"] > _MOST_DENSE and number >= _RUNS_OF_MANY:
                    continue
                if (structure, cell["n_views"], cell["missing"], cell["constant"], number) in done:
                    continue
                start = time.process_time()
                if network:
                    found = measured_network(structure, number, cell["missing"])
                else:
                    found = measured(structure, run=number, **cell)
                pd.DataFrame(found).round(4).to_csv(path, mode="a", header=not path.exists(), index=False)
                print(number, structure, cell, round(time.process_time() - start, 1), flush=True)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "network", "table"))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.what == "table":
        table(given.out)
    else:
        run(given.out, given.runs, network=given.what == "network")


if __name__ == "__main__":
    main()
