"""Benchmarks: what to compare (`BenchSpec`), doing it (`run_bench`), keeping it (`Store`), tables and figures."""

from acova.bench.runner import Outcome, run_bench
from acova.bench.spec import BenchSpec, DataSpec, Job, MethodSpec, paper_names, paper_spec
from acova.bench.store import Store

__all__ = [
    "BenchSpec",
    "DataSpec",
    "Job",
    "MethodSpec",
    "Outcome",
    "Store",
    "paper_names",
    "paper_spec",
    "run_bench",
]
