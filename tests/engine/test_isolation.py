"""A fit neither reads nor leaves anything in the process: generators, switches, modes."""

import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest
import torch

from acova import kernels
from acova.base import OptionError
from acova.base.seeds import draw_seed
from acova.engine.runtime import gpu_for_training
from acova.estimators import fit_many
from acova.estimators._deep import DeepClusterer
from acova.estimators.registry import METHODS
from conftest import SMALL, make_toy

TINY = {**SMALL, "pretrain_epochs": 2, "warmup_epochs": 2, "epochs": 2, "device": "cpu"}
TINY |= {"imputer_epochs": 2, "initial_epochs": 2, "iterations": 2}
DEEP = [name for name in METHODS if issubclass(METHODS[name], DeepClusterer)]


@pytest.fixture(scope="module")
def data():
    return make_toy(n_samples=90)[0]


def new(name, seed=0, **more):
    known = METHODS[name].setting_names()
    settings = {k: v for k, v in {**TINY, **more}.items() if k in known}
    return METHODS[name].from_settings(3, **settings | {"random_state": seed})


def bits(model):
    """All that a fit found, as bytes."""
    state = model.network_.state_dict() if hasattr(model, "network_") else {}
    arrays = [value.numpy() for value in state.values()]
    return [array.tobytes() for array in (*arrays, model.labels_, model.history_["total"].to_numpy())]


def state_of_the_process():
    return (
        torch.get_rng_state().numpy().tobytes(),
        repr(np.random.get_state()),  # noqa: NPY002 - it is the global one that must stay
        torch.get_num_threads(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.is_grad_enabled(),
        kernels.usable(torch.zeros(1)),
        kernels._mode.get(),
    )


# --- several Python threads ---------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ACOVA", "MVP", "CPSPAN", "Concat"])
def test_fits_in_threads_are_those_alone(data, name):
    alone = [bits(new(name, seed).fit(data)) for seed in range(4)]
    before = state_of_the_process()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda seed: bits(new(name, seed % 4).fit(data)), range(12)))
    assert [number for number, found in enumerate(together) if found != alone[number % 4]] == []
    assert state_of_the_process() == before


def test_fits_beside_draws_in_another_thread(data):
    alone = bits(new("ACOVA").fit(data))
    with ThreadPoolExecutor(1) as pool:
        stop = []

        def draw():
            while not stop:
                torch.randn(1000)

        drawing = pool.submit(draw)
        found = [bits(new("ACOVA").fit(data)) for _ in range(5)]
        stop.append(True)
        drawing.result()
    assert found == [alone] * 5


# --- random numbers -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(METHODS))
@pytest.mark.parametrize("seed", [0, None])
def test_a_fit_uses_no_global_generator(data, name, seed):
    before = state_of_the_process()
    new(name, seed).fit(data)
    assert state_of_the_process() == before


@pytest.mark.parametrize("name", DEEP)
def test_initial_weights_are_those_of_torchs_generator_with_the_same_seed(data, name, monkeypatch):
    """Results of earlier versions, which seeded the global generator, stay valid."""
    job = new(name)._prepare(data, None).jobs[0]
    ours = job.network().state_dict()
    seeds, modules = [], [module for name, module in sys.modules.items() if name.startswith("acova.")]
    for module in (module for module in modules if hasattr(module, "generator")):
        monkeypatch.setattr(module, "generator", seeds.append)  # which gives None: the global generator
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.streams.integer("weights"))
        theirs = job.network().state_dict()
    assert seeds == [job.streams.integer("weights")]
    assert ours.keys() == theirs.keys()
    for key, value in ours.items():
        assert torch.equal(value, theirs[key]), key


def test_an_integer_gives_the_seed_that_it_always_gave():
    expected = int(np.random.RandomState(3).randint(2**31 - 1))
    assert draw_seed(3, "X") == draw_seed(np.int64(3), "X") == draw_seed(np.random.RandomState(3), "X") == expected
    assert draw_seed(np.random.default_rng(3), "X") == np.random.default_rng(3).integers(2**31 - 1)
    generator = np.random.default_rng(3)
    assert draw_seed(generator, "X") != draw_seed(generator, "X")


def test_without_a_seed_every_fit_draws_its_own():
    before = np.random.get_state()  # noqa: NPY002
    first = draw_seed(None, "X")
    np.random.set_state(before)  # noqa: NPY002
    assert draw_seed(None, "X") != first


@pytest.mark.parametrize("value", [-1, 2**32, 1.5, "7", True])
def test_what_is_no_seed(value, data):
    for name in ("ACOVA", "Concat"):
        with pytest.raises(OptionError, match=rf"{name}: random_state must be an integer from 0 to .*got {value!r}\."):
            new(name, value).fit(data)


# --- switches and modes of torch ----------------------------------------------------------------


@pytest.mark.parametrize("word", ["medium", "high"])
def test_torch_still_tells_its_precision_after_a_fit(data, word):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(word)
        new("ACOVA").fit(data)
        assert torch.get_float32_matmul_precision() == word
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def default_dtype(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


SETTINGS = {
    "inference mode": torch.inference_mode,
    "no gradients": torch.no_grad,
    "float64": lambda: default_dtype(torch.float64),
    "another device": lambda: torch.device("meta"),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", list(METHODS))
def test_settings_of_torch_around_a_fit_do_not_reach_it(data, name, setting, tmp_path):
    model = new(name).fit(data)
    with SETTINGS[setting]():
        other = new(name).fit(data)
        labels = other.predict(data)
        model.save(tmp_path / "model")
        loaded = METHODS[name].load(tmp_path / "model").predict(data)
    assert bits(other) == bits(model)
    for found in (labels, loaded):
        np.testing.assert_array_equal(found, model.predict(data))


def test_fits_together_do_not_see_them_either(data):
    models = [new("ACOVA", seed).fit(data) for seed in range(2)]
    with torch.inference_mode():
        others = fit_many([new("ACOVA", seed) for seed in range(2)], data)
    assert [bits(model) for model in others] == [bits(model) for model in models]


@pytest.mark.parametrize("word", ["highest", "medium"])
def test_tf32_is_as_before_when_the_last_fit_on_a_gpu_ends(word):
    """Fits in threads, on two devices: TF32 is used while all allow it."""
    first, second = (torch.device("cuda", number) for number in range(2))
    quick, exact = gpu_for_training("auto", first), gpu_for_training("float32", second)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(word)
        allowed = torch.backends.cuda.matmul.allow_tf32
        quick.__enter__()
        assert torch.backends.cuda.matmul.allow_tf32
        exact.__enter__()
        assert not torch.backends.cuda.matmul.allow_tf32
        quick.__exit__(None, None, None)
        assert not torch.backends.cuda.matmul.allow_tf32
        exact.__exit__(None, None, None)
        assert torch.backends.cuda.matmul.allow_tf32 == allowed
        assert torch.get_float32_matmul_precision() == word
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_cpu_leaves_the_switch_alone(monkeypatch):
    monkeypatch.setattr("acova.engine.runtime._tf32_switch", lambda: pytest.fail("the switch was touched"))
    with gpu_for_training("auto", torch.device("cpu")):
        pass


# --- kernels ------------------------------------------------------------------------------------


def test_kernels_are_chosen_in_the_thread_that_trains():
    def mode():
        return kernels._mode.get()

    with ThreadPoolExecutor(1) as pool, kernels.fused():
        assert mode() == "alone"
        assert pool.submit(mode).result() is None
        with kernels.fused(alone=False):
            assert mode() == "several"
        assert mode() == "alone"
    assert mode() is None


def test_what_cannot_be_compiled_is_logged_once(monkeypatch, caplog):
    """A GPU and Triton that are not there: importing the kernels, or calling them, fails."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(kernels, "find_spec", lambda _: object())
    monkeypatch.setitem(__import__("sys").modules, "acova.kernels.adam", None)
    kernels.compile_here.cache_clear()
    kernels.warn_once.cache_clear()
    try:
        assert not kernels.compile_here()
        kernels.compile_here.cache_clear()
        assert not kernels.compile_here()
    finally:
        kernels.compile_here.cache_clear()
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("acova", "WARNING")
    assert "Kernels cannot be compiled here" in record.getMessage()


def test_a_step_that_cannot_be_captured_is_logged(monkeypatch, caplog):
    from acova.engine.step import Step

    @contextmanager
    def failing(graph, **_):
        raise RuntimeError("operation not permitted when stream is capturing")
        yield

    monkeypatch.setattr(torch.cuda, "CUDAGraph", nullcontext)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "graph", failing)
    kernels.warn_once.cache_clear()
    step = Step.__new__(Step)
    step._rows, step._graphs = {}, {}
    for size in (4, 5):
        step._capture(torch.zeros(1, size))
    assert step._graphs == {4: None, 5: None}
    (record,) = caplog.records
    assert "not captured as a CUDA graph" in record.getMessage()
    assert "not permitted" in record.getMessage()
