"""Benchmarks: what to compare (`BenchSpec`), doing it (`run_bench`), keeping it (`Store`), tables and figures."""

from acova.bench.entries import DataSpec, Fit, MethodSpec
from acova.bench.runner import Outcome, run_bench
from acova.bench.spec import BenchSpec, paper_names, paper_spec
from acova.bench.store import Store

__all__ = [
    "BenchSpec",
    "DataSpec",
    "Fit",
    "MethodSpec",
    "Outcome",
    "Store",
    "paper_names",
    "paper_spec",
    "run_bench",
]
