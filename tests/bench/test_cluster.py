"""Jobs on a cluster, through joblib's backends for Dask and Ray."""

import warnings

import numpy as np
import pytest

from acova.base import OptionError
from acova.bench import BenchSpec, Store, run_bench
from conftest import make_toy


@pytest.fixture
def spec(tmp_path):
    views, labels = make_toy(missing=0.0)
    np.savez(tmp_path / "toy.npz", labels=labels, **dict(zip(views.names, views.arrays, strict=True)))
    held = {"name": "toy", "data": [{"name": "toy", "source": "toy.npz"}], "missing": [30, 60], "runs": 2}
    return BenchSpec.from_dict({**held, "methods": ["Concat", "KNNImpute"]}, folder=str(tmp_path))


def test_a_dask_cluster_gives_the_rows_that_this_process_gives(spec, tmp_path):
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Dask and its event loop warn of is theirs
        options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "processes": True}
        with distributed.LocalCluster(**options) as cluster:
            check_rows(spec, tmp_path, backend="dask", scheduler=cluster.scheduler_address)


def test_a_ray_cluster_gives_them_too(spec, tmp_path):
    ray = pytest.importorskip("ray", reason="ray is not among the packages of the tests; pip install ray")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        try:
            check_rows(spec, tmp_path, backend="ray")
        finally:
            ray.shutdown()


def check_rows(spec, tmp_path, **cluster):
    store = Store(tmp_path / "cluster.jsonl")
    outcome = run_bench(spec, store, **cluster)
    assert (outcome.done, outcome.failed) == (8, 0)
    assert run_bench(spec, store, **cluster).found == 8
    here = Store(tmp_path / "here.jsonl")
    run_bench(spec, here, n_jobs=1)
    assert set(store.rows) == set(here.rows)
    for key, row in here.rows.items():
        assert (store.rows[key]["acc"], store.rows[key]["ari"]) == (row["acc"], row["ari"])


def test_a_cluster_needs_an_address_and_its_package(spec, tmp_path, monkeypatch):
    store = Store(tmp_path / "rows.jsonl")
    with pytest.raises(OptionError, match="give its address with --scheduler"):
        run_bench(spec, store, backend="dask")
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(OptionError, match="needs the package ray: pip install ray"):
        run_bench(spec, store, backend="ray")
    with pytest.raises(OptionError, match=r"backend must be 'local', 'dask', 'ray'; got 'spark'"):
        run_bench(spec, store, backend="spark")
