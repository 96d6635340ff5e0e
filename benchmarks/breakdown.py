"""Where the time of a training step goes.

    python benchmarks/breakdown.py noisymnist --runs 20
    python benchmarks/breakdown.py handwritten --runs 1 --device cpu

Kernels of one epoch (on a GPU after the steps are captured; on a CPU torch's operations, without those they call),
counted by torch's profiler and grouped by what they do.

On a CPU one epoch's products, and its calls of Adam, are then called again with nothing between them: what no training
that multiplies by torch can do without. Beside it, the time of the published program's loop (published_loop.py).
"""

import argparse
import re
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile
from torch.utils._python_dispatch import TorchDispatchMode

from acova.data import load_dataset
from acova.engine.runtime import resolve_device
from acova.estimators import PRESETS
from acova.training.schedule import train_runs
from speed import jobs_of, published_seconds, seconds_of

GPU_KINDS = {
    "Adam and clipping": r"^_move",
    "gradient norms": r"^_sum_squares|^_shorten",
    "bias and ReLU, there and back": r"^_add_bias_relu|^_through_bias_relu",
    "reconstruction, there and back": r"^_misfit",
    "fusion, there and back": r"^_fuse",
    "products of the networks": r"nvjet|s1688gemm|tf32|bf16gemm|splitK|gemmSN",
    "products of the fusion (float64)": r"f64f64|dgemm|trsm|potr|getr",
    "rounding to bfloat16": r"bfloat16_copy",
    "bias gradients": r"reduce_kernel.*BFloat16",
    "ReLU and its gradient": r"launch_clamp|threshold|BinaryFunctor<c10::BFloat16",
    "copies (bias into products, stacking)": r"direct_copy|CatArray|Memcpy|Memset",
    "gather of the batch": r"index_",
    "sums": r"reduce_kernel",
    "element-wise": r"elementwise|softmax|softplus",
}
CPU_KINDS = {
    "products of the networks": r"^aten::(addmm|mm|bmm|baddbmm)$",
    "Adam": r"adam|Adam",
    "clipping": r"norm|_foreach_mul",
    "ReLU and its gradient": r"relu|clamp_min|threshold",
    "gather and scatter of rows": r"index|aten::cat|aten::stack|nonzero|new_zeros|zero_|fill_",
    "copies": r"copy_|contiguous|clone",
    "reconstruction": r"Misfit",
    "sums": r"aten::(sum|mean|logsumexp)",
    "factor of R": r"linalg|cholesky|triangular",
    "element-wise": r"aten::(mul|add|sub|div|pow|exp|log|sqrt|square|softplus|sigmoid|masked_fill|where|neg)",
    "the custom gradients' own Python": r"^_(Affine|PerView)",
}


PRODUCTS = tuple(getattr(torch.ops.aten, name).default for name in ("mm", "bmm", "addmm", "baddbmm"))
PROFILED, RECORDED = 7, 5
"""Epochs before the one that is looked at."""


class Recorder(TorchDispatchMode):
    """Keeps every call of a product and of Adam, with what it was called with."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        keywords = keywords or {}
        if function in PRODUCTS or "fused_adam" in str(function):
            self.calls.append((function, arguments, keywords))
        return function(*arguments, **keywords)

    @torch.no_grad()
    def again(self, *, products_only: bool) -> None:
        """Call everything again."""
        for function, arguments, keywords in self.calls:
            if function in PRODUCTS or not products_only:
                function(*arguments, **keywords)


def asked() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    arguments = parser.parse_args()
    if arguments.device == "cpu" and arguments.runs > 1:
        parser.error("on a CPU runs train one after the other; use --runs 1.")
    return arguments


def main() -> None:
    """Profile one epoch and print milliseconds per step."""
    arguments = asked()
    dataset = load_dataset(arguments.dataset)
    settings = {"n_clusters": dataset.n_classes, "recipe": "paper", **PRESETS.get(arguments.dataset, {})}
    settings |= {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 9}
    jobs = jobs_of(dataset.views, arguments.runs, resolve_device(arguments.device), **settings)
    on_gpu = arguments.device == "cuda"
    kinds = GPU_KINDS if on_gpu else CPU_KINDS
    profiler = profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU])
    marks = {}
    recorder = Recorder()

    def report(phase: str, epoch: int, *_: object) -> None:
        if on_gpu:
            torch.cuda.synchronize()
        marks[epoch] = time.perf_counter()
        if epoch == PROFILED:
            profiler.start()
        if epoch == PROFILED + 1:
            profiler.stop()
        if not on_gpu and epoch == RECORDED:
            recorder.__enter__()
        if not on_gpu and epoch == RECORDED + 1:
            recorder.__exit__(None, None, None)

    train_runs(jobs, report)
    steps = -(-len(dataset.views) // jobs[0].settings.batch_size)
    found = {name: [0.0, 0.0] for name in (*kinds, "other")}
    for event in profiler.key_averages():
        kind = next((name for name, pattern in kinds.items() if re.search(pattern, event.key)), "other")
        spent = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        found[kind][0] += spent / 1e3 / steps
        found[kind][1] += event.count / steps
    wall = (marks[PROFILED] - marks[PROFILED - 1]) / steps * 1e3
    busy = sum(milliseconds for milliseconds, _ in found.values())
    name = torch.cuda.get_device_name() if on_gpu else f"CPU, {torch.get_num_threads()} threads"
    print(f"{arguments.dataset}, {arguments.runs} runs, {name}: {wall:.2f} ms per step")
    for name, (milliseconds, kernels) in sorted(found.items(), key=lambda item: -item[1][0]):
        print(f"{milliseconds:7.3f} ms {milliseconds / wall:6.1%} {kernels:6.0f} kernels  {name}")
    rest = "between kernels" if wall > busy else "kernels that ran side by side"
    print(f"{wall - busy:7.3f} ms {1 - busy / wall:6.1%}                 {rest}")
    if not on_gpu:
        show_floor(recorder, steps, published_seconds(dataset, jobs[0]))


def show_floor(recorder: Recorder, steps: int, published: float) -> None:
    """Print what the calls of an epoch take by themselves, and the published loop's epoch beside it, per step."""
    products, both = (
        1e3 * seconds_of(lambda only=only: recorder.again(products_only=only), torch.device("cpu")) / steps
        for only in (True, False)
    )
    published *= 1e3 / steps
    print(
        f"Called again with nothing between: products {products:.1f} ms, products and Adam {both:.1f} ms.\n"
        f"A step of the published loop: {published:.1f} ms; a third of it: {published / 3:.1f} ms."
    )


if __name__ == "__main__":
    main()
