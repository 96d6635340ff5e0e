"""How many threads a computation takes, and that nobody else notices."""

import threading

import pytest
import torch

from acova import ACOVA
from acova.base import OptionError
from acova.engine import parallel
from acova.engine.parallel import multiplications, single_threaded, threads, threads_for
from acova.networks import MultiViewVAE
from conftest import SMALL

OF_A_THREAD = parallel._PRODUCTS_OF_A_THREAD


@pytest.fixture(autouse=True)
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def in_new_thread(act):
    found = []
    thread = threading.Thread(target=lambda: found.append(act()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(
    ("products", "number"),
    [(0, 1), (OF_A_THREAD, 1), (2 * OF_A_THREAD - 1, 1), (2 * OF_A_THREAD, 2), (3.5 * OF_A_THREAD, 3), (1e15, 3)],
)
def test_the_number_follows_the_products_up_to_torchs_own(products, number):
    with threads_for(products):
        assert torch.get_num_threads() == number
    assert torch.get_num_threads() == 3


def test_blocks_inside_blocks_know_the_setting_outside():
    with threads_for(0):
        assert torch.get_num_threads() == 1
        with threads_for(2 * OF_A_THREAD):
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1


def test_the_number_can_be_set(monkeypatch):
    with threads(2), threads_for(1e15):
        assert torch.get_num_threads() == 2
    with threads(5), threads_for(0):
        assert torch.get_num_threads() == 5
    monkeypatch.setenv("ACOVA_THREADS", "4")
    with threads_for(0):
        assert torch.get_num_threads() == 4
        with threads(2), threads_for(0):
            assert torch.get_num_threads() == 2
    assert torch.get_num_threads() == 3


def test_a_number_that_cannot_be(monkeypatch):
    with pytest.raises(OptionError, match=r"threads: count must be an integer at least 1; got 0"), threads(0):
        pass
    monkeypatch.setenv("ACOVA_THREADS", "many")
    with pytest.raises(OptionError, match=r"ACOVA_THREADS must be a number of threads, at least 1; got 'many'"):
        ACOVA.from_settings(2, **SMALL).fit([[[0.0], [1.0], [2.0]]])


def test_other_threads_keep_their_number():
    """torch.set_num_threads() is for the thread that calls it, and for those that start after it."""
    inside, done = threading.Event(), threading.Event()

    def other():
        torch.get_num_threads()  # a thread takes over the last setting when it first asks
        torch.set_num_threads(2)
        inside.set()
        done.wait()
        return torch.get_num_threads()

    found = []
    thread = threading.Thread(target=lambda: found.append(other()))
    thread.start()
    inside.wait()
    torch.set_num_threads(3)
    with threads_for(0):
        assert in_new_thread(torch.get_num_threads) == 3
    done.set()
    thread.join()
    assert found == [2]
    assert in_new_thread(torch.get_num_threads) == 3


def test_a_small_fit_takes_one_thread_a_large_one_more(toy, monkeypatch):
    """Training, and inference after it and later."""
    seen, encode = [], MultiViewVAE.encode

    def watched(network, *given):
        seen.append(torch.get_num_threads())
        return encode(network, *given)

    monkeypatch.setattr(MultiViewVAE, "encode", watched)
    model = ACOVA.from_settings(3, **SMALL).fit(toy[0])
    model.predict(toy[0])
    assert set(seen) == {1}
    assert torch.get_num_threads() == 3
    products = multiplications(model.network_, SMALL["batch_size"])
    seen.clear()
    monkeypatch.setattr(parallel, "_PRODUCTS_OF_A_THREAD", products // 2)
    ACOVA.from_settings(3, **SMALL).fit(toy[0]).score(toy[0])
    assert {2, 3} <= set(seen)  # a step has 32 rows, and inference all
    assert torch.get_num_threads() == 3


def test_multiplications_of_a_network():
    assert multiplications(torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 2)), 10) == 10 * (15 + 10)


def test_several_blocks_of_one_blas_thread_end_where_they_began():
    """The number is the process's: the first out must not give it back, the last must."""
    from threadpoolctl import threadpool_info, threadpool_limits

    def blas():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        first, second = single_threaded(), single_threaded()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas() == {1}
        second.__exit__(None, None, None)
        assert blas() == {2}
