"""Seconds per run and training epoch, peak memory and share of the hardware's limit; growth with N, V, D and R.

    python benchmarks/speed.py                              every data set that is on this machine
    python benchmarks/speed.py scene15 --runs 1 5 20        one of them
    python benchmarks/speed.py --only-growth                no data sets
    python benchmarks/speed.py --cell                       five whole runs of handwritten (a GPU's work)

Paper-size networks, the paper's settings for its data sets (the defaults for others), 30 % of the samples incomplete,
every run with its own mask and seed. The time of an epoch is the median over --epochs epochs after the first ones
(on a GPU five: the first steps are taken one by one, then captured); it holds all that an epoch does.

On a CPU the loop of the published program (published_loop.py) is timed beside it, in the same process.

Rows go to results/speed.csv and results/growth.csv, replacing those of the same device, and are drawn in
results/speed.png.
"""

import argparse
import csv
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from acova import ACOVA, Views
from acova.data import load_dataset, make_observed
from acova.data.datasets.catalogue import CATALOGUE, find_file
from acova.engine.runtime import network_dtype, resolve_device
from acova.estimators import PRESETS, fit_many
from acova.functional import constant_correlation, fuse
from acova.training.job import Job
from acova.training.schedule import train_runs

RESULTS = Path(__file__).parent / "results"
ON_CPU, ON_GPU = ("digits", "handwritten", "scene15"), ("scene15", "fashion", "noisymnist")
SPEED = ["device", "dataset", "runs", "seconds_per_run_epoch", "peak_memory_mb"]
GROWTH = ["device", "axis", "value", "what", "seconds"]


class Limits:
    """What this device does at best, measured: products of large matrices, and a copy of a large array."""

    def __init__(self, device: torch.device) -> None:
        cuda = device.type == "cuda"
        self.device = torch.cuda.get_device_name(device) if cuda else f"cpu ({torch.get_num_threads()} threads)"
        self.dtype = network_dtype("auto", device, torch.nn.Linear(500, 2000))  # a layer of the paper's
        size = 8192 if cuda else 2048
        left, right = (torch.randn(size, size, device=device, dtype=self.dtype) for _ in range(2))
        self.flops = 2 * size**3 / seconds_of(lambda: left @ right, device)
        source = torch.zeros(2**28 if cuda else 2**25, device=device)
        target = torch.empty_like(source)
        self.bytes = 2 * source.nbytes / seconds_of(lambda: target.copy_(source), device)

    def __str__(self) -> str:
        kind = str(self.dtype).removeprefix("torch.")
        return f"{self.device}: {self.flops / 1e12:.2f} TFLOP/s ({kind} products), {self.bytes / 1e9:.0f} GB/s (copy)"


def seconds_of(call: Callable[[], object], device: torch.device, repeats: int = 7) -> float:
    """Return the median time of a call, warm."""
    times = []
    for _ in range(repeats + 2):
        _wait(device)
        start = time.perf_counter()
        call()
        _wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def jobs_of(views: Views, n_runs: int, device: torch.device, missing: float = 0.3, **settings: object) -> list[Job]:
    """Return runs to train, each with its own mask and seed."""
    jobs = []
    for run in range(n_runs):
        model = ACOVA.from_settings(**settings, device=str(device), random_state=run)
        observed = make_observed(len(views), views.n_views, missing, random_state=run)
        jobs += model._prepare(views, observed).jobs
    return jobs


def epoch_seconds(jobs: list[Job], skip: int) -> float:
    """Return the median time of an epoch of all runs together, after `skip` epochs."""
    marks: list[float] = []
    train_runs(jobs, lambda *_: marks.append(time.perf_counter()))
    if jobs[0].device.type == "cuda":
        return statistics.median(after - before for before, after in pairwise(marks[skip - 1 :]))
    # On a CPU runs go one after the other: leave out the pauses between them, and each run's first epochs.
    epochs = jobs[0].settings.epochs
    runs = [marks[at : at + epochs] for at in range(0, len(marks), epochs)]
    return len(jobs) * statistics.median(b - a for run in runs for a, b in pairwise(run[skip - 1 :]))


def counted(jobs: list[Job]) -> tuple[float, float]:
    """Return the arithmetic (FLOP) and the traffic of parameters (bytes) of one run's epoch.

    Two FLOP forward and four backward for every weight and row, none backward to the data; rows that are hidden count
    on a GPU, which computes them. Adam reads and writes 28 bytes per parameter and step, the gradient's norm reads 4.
    Where products are rounded, weights are written so: 2 bytes by Adam on a GPU, on a CPU 6 in a pass of their own, and
    6 to widen gradients.
    """
    job = jobs[0]
    cuda = job.device.type == "cuda"
    network = job.network()
    rows = [job.n_samples] * len(job.sizes) if cuda else job.data.observed.sum(0).tolist()
    flops = 0.0
    for part in (network.encoders, network.decoders):
        for number, layer in enumerate(part.layers):
            weights = layer.weight if layer.stacked else layer.weights
            back = 4 if part is network.encoders and number == 0 else 6
            flops += sum(back * weight.numel() * n for weight, n in zip(weights, rows, strict=True))
    steps = -(-job.n_samples // job.settings.batch_size)
    rounded = network_dtype("auto", job.device, network) == torch.bfloat16
    each = 28 + 4 + ((2 if cuda else 12) if rounded else 0)
    return flops, steps * each * sum(p.numel() for p in network.parameters())


def speed(name: str, runs: Iterable[int], limits: Limits, device: torch.device, epochs: int) -> Iterable[dict]:
    """Measure one data set."""
    dataset = load_dataset(name)
    skip = 5 if device.type == "cuda" else 1
    settings = {"n_clusters": dataset.n_classes, "recipe": "paper", **PRESETS.get(name, {})}
    settings |= {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": skip + epochs}
    for n_runs in runs:
        jobs = jobs_of(dataset.views, n_runs, device, **settings)
        _reset_peak(device)
        per_run = epoch_seconds(jobs, skip) / n_runs
        flops, traffic = counted(jobs)
        row = {
            "device": limits.device,
            "dataset": name,
            "runs": n_runs,
            "seconds_per_run_epoch": round(per_run, 5),
            "peak_memory_mb": round(_peak(device)),
            "gflop": flops / 1e9,
            "gigabytes": traffic / 1e9,
            "limit": flops / limits.flops + traffic / limits.bytes,
        }
        if device.type == "cpu" and n_runs == 1 and name in PRESETS:
            row["published"] = published_seconds(dataset, jobs[0])
        yield row


def published_seconds(dataset, job: Job) -> float:
    """Return the time of an epoch of the published program's loop on the same data."""
    from published_loop import PublishedLoop

    names = ("latent_dim", "alpha", "hidden", "batch_size", "learning_rate", "prior_learning_rate")
    settings = {name: getattr(job.settings, name) for name in (*names, "correlation_learning_rate")}
    batch = job.data.batch()
    arrays = [view.numpy() for view in batch.views]
    loop = PublishedLoop(
        arrays, batch.observed.numpy(), dataset.n_classes, likelihoods=job.likelihoods, device="cpu", seed=0, **settings
    )
    loop.start_clusters()
    return seconds_of(loop.train_epoch, torch.device("cpu"), repeats=3)


def _reset_peak(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    elif sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def _peak(device: torch.device) -> float:
    """Return the most memory held since `_reset_peak`, in MiB."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 2**20
    if sys.platform == "linux":
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def growth(limits: Limits, device: torch.device) -> Iterable[dict]:
    """Measure how an epoch grows with N, D and R, and the fusion with V (to 128 views)."""
    cuda = device.type == "cuda"
    skip, epochs = (5, 5) if cuda else (1, 3)
    base = {"n_clusters": 10, "hidden": (256, 256), "pretrain_epochs": 0, "warmup_epochs": 0, "epochs": skip + epochs}

    def epoch(n_samples: int = 4096, n_views: int = 3, n_runs: int = 1, **more: object) -> float:
        rng = np.random.default_rng(0)
        views = Views.of([rng.normal(size=(n_samples, 64)).astype(np.float32) for _ in range(n_views)])
        return epoch_seconds(jobs_of(views, n_runs, device, **{**base, **more}), skip)

    def row(axis: str, value: int, what: str, seconds: float) -> dict:
        return {"device": limits.device, "axis": axis, "value": value, "what": what, "seconds": float(f"{seconds:.4g}")}

    for n_samples in (1024, 4096, 16384, 65536):
        yield row("N", n_samples, "epoch", epoch(n_samples))
    for latent_dim in (4, 16, 64, 256):
        yield row("D", latent_dim, "epoch", epoch(latent_dim=latent_dim))
    for n_runs in (1, 2, 5, 10, 20) if cuda else (1, 2, 4):
        yield row("R", n_runs, "epoch of all runs", epoch(n_runs=n_runs))
    for n_views in (2, 4, 8, 16, 32, 64, 128):
        for missing in ("precision", "marginal"):
            yield row("V", n_views, missing, fusion_seconds(n_views, missing, device))


def fusion_seconds(n_views: int, missing: str, device: torch.device) -> float:
    """Return the time of the fusion of a batch of 256 samples in 10 dimensions, forward and backward."""
    generator = torch.Generator().manual_seed(0)
    mean, std = (torch.rand(256, n_views, 10, generator=generator) + 0.1 for _ in range(2))
    observed = torch.rand(256, n_views, generator=generator) < 0.7
    observed[:, 0] = True
    mean, std, observed = (part.to(device) for part in (mean, std, observed))
    correlation = constant_correlation(n_views, 0.3).to(device)
    leaves = [part.requires_grad_() for part in (mean, std, correlation)]

    def step() -> None:
        fused = fuse(mean, std, observed, correlation, missing)
        torch.autograd.grad(fused.mean.sum() + fused.variance.sum(), leaves)

    return seconds_of(step, device)


def cell_seconds(device: torch.device, n_runs: int = 5) -> float:
    """Return the time of a whole cell of the benchmark: runs on handwritten, all phases and k-means included."""
    views = load_dataset("handwritten").views
    masks = [make_observed(len(views), views.n_views, 0.3, random_state=run) for run in range(n_runs)]
    models = [
        ACOVA.preset("handwritten", recipe="paper", random_state=run, device=str(device)) for run in range(n_runs)
    ]
    start = time.perf_counter()
    fit_many(models, views, masks)
    return time.perf_counter() - start


def merged(path: Path, columns: list[str], rows: list[dict], keys: list[str]) -> list[dict]:
    """Write rows into a table, in the place of those with the same keys, and return all."""
    old = list(csv.DictReader(path.open(newline=""))) if path.exists() else []
    new = {tuple(str(row[key]) for key in keys): {column: row[column] for column in columns} for row in rows}
    kept = [row for row in old if tuple(row[key] for key in keys) not in new]
    everything = [*kept, *new.values()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns)
        writer.writeheader()
        writer.writerows(everything)
    return everything


def show(rows: list[dict], limits: Limits) -> None:
    """Print the table."""
    title = f"Seconds per run and training epoch. Limits measured on {limits}"
    table = Table("data set", "R", "seconds", "peak MB", "GFLOP", "GB", "limit, s", "share", "published", title=title)
    for row in rows:
        seconds, published = row["seconds_per_run_epoch"], row.get("published")
        table.add_row(
            row["dataset"],
            str(row["runs"]),
            f"{seconds:.4g}",
            str(row["peak_memory_mb"]),
            f"{row['gflop']:.0f}",
            f"{row['gigabytes']:.2f}",
            f"{row['limit']:.4g}",
            f"{row['limit'] / seconds:.0%}",
            f"{published:.3g} ({seconds / published:.0%})" if published else "",
        )
    Console(width=140).print(table)


def draw(speeds: list[dict], grown: list[dict], path: Path) -> None:
    """Draw seconds per run and epoch against R, and the growth with N, D and V."""
    from matplotlib.figure import Figure

    from acova.plots.style import MARKERS, PALETTE

    figure = Figure(figsize=(12, 7), layout="constrained")
    panels = dict(zip("RNDV", figure.subplots(2, 2).ravel(), strict=True))
    lines: dict[str, dict[str, list[tuple[float, float]]]] = {axis: {} for axis in panels}
    for row in speeds:
        label = f"{row['dataset']}, {_short(row['device'])}"
        lines["R"].setdefault(label, []).append((int(row["runs"]), float(row["seconds_per_run_epoch"])))
    for row in grown:
        if row["axis"] in "NDV":
            label = f"{row['what']}, {_short(row['device'])}"
            lines[row["axis"]].setdefault(label, []).append((int(row["value"]), float(row["seconds"])))
    names = {
        "R": ("runs that train together", "seconds per run and epoch"),
        "N": ("samples", "seconds per epoch"),
        "D": ("latent dimensions", "seconds per epoch"),
        "V": ("views", "seconds per fusion of 256 samples"),
    }
    for axis, panel in panels.items():
        for number, (label, points) in enumerate(lines[axis].items()):
            style = {"color": PALETTE[number % len(PALETTE)], "marker": MARKERS[number % len(MARKERS)]}
            panel.loglog(*zip(*sorted(points), strict=True), label=label, **style)
        panel.set(xlabel=names[axis][0], ylabel=names[axis][1])
        panel.grid(visible=True, which="major", alpha=0.3)
        if lines[axis]:
            panel.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=150)


def _short(device: str) -> str:
    return device.removeprefix("NVIDIA ").split(" (")[0]


def main() -> None:
    """Measure, print, write and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="*")
    parser.add_argument("--runs", type=int, nargs="+", default=[1, 5, 20])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--no-growth", action="store_true")
    parser.add_argument("--only-growth", action="store_true")
    parser.add_argument("--cell", action="store_true", help="only time five whole runs of handwritten, cold and warm")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    device = resolve_device(arguments.device)
    cuda = device.type == "cuda"
    if arguments.cell:
        times = ", ".join(f"{cell_seconds(device):.1f} s" for _ in range(4))
        print(f"five runs of handwritten, 200 + 300 epochs: {times} (the first one cold)")
        return
    limits = Limits(device)
    here = [name for name in (ON_GPU if cuda else ON_CPU) if not CATALOGUE[name].files or find_file(name)]
    rows = []
    for name in [] if arguments.only_growth else arguments.datasets or here:
        epochs = arguments.epochs or (10 if cuda else 2)
        for row in speed(name, arguments.runs, limits, device, epochs):
            rows.append(row)
            print(f"{name} R={row['runs']}: {row['seconds_per_run_epoch']} s", flush=True)
    show(rows, limits)
    grown = [] if arguments.no_growth else list(growth(limits, device))
    for row in grown:
        print(f"{row['axis']} = {row['value']:>6}  {row['what']:18s} {row['seconds']:.4g} s")
    speeds = merged(arguments.out / "speed.csv", SPEED, rows, ["device", "dataset", "runs"])
    grown = merged(arguments.out / "growth.csv", GROWTH, grown, ["device", "axis", "value", "what"])
    draw(speeds, grown, arguments.out / "speed.png")
    print(f"written to {arguments.out}: speed.csv, growth.csv, speed.png")


if __name__ == "__main__":
    main()
