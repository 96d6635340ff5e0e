from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from acova.base import Streams
from acova.engine import RunData, StreamedData
from acova.engine.data import BLOCK, fill_noise
from acova.engine.distributed import Processes
from acova.functional import Batch

N = 20 * BLOCK + 137


def reader(n_samples=N):
    """Samples that know their number."""
    numbers = torch.arange(n_samples, dtype=torch.float32).unsqueeze(1)

    def read(start, stop):
        rows = numbers[start:stop]
        return Batch([rows, -rows.expand(-1, 2)], torch.ones(stop - start, 2, dtype=torch.bool))

    return read


def streamed(n_samples=N, **settings):
    return StreamedData(reader(n_samples), n_samples, [1, 2], torch.device("cpu"), window_bytes=0, **settings)


def epoch_of(data, epoch=0):
    """Every sample's number as an epoch meets it, with its noise."""
    met, noises = [], []
    for window in data.windows([Streams(3)], epoch):
        noise = torch.zeros(1, data.resident.observed.shape[1], 2)
        fill_noise(noise[0], window.spans, Streams(3), epoch)
        for rows, _ in window.batches(100):
            views, observed, targets, _ = data.resident.batch(rows)
            assert observed.all()
            assert not targets
            assert torch.equal(views[1][0, :, 0], -views[0][0, :, 0])
            met.append(views[0][0, :, 0].long())
            noises.append(noise[0][rows[0]])
    return torch.cat(met), torch.cat(noises)


def test_an_epoch_meets_every_sample_once_in_an_order_of_its_own():
    first, _ = epoch_of(streamed())
    second, _ = epoch_of(streamed(), epoch=1)
    for met in (first, second):
        assert torch.equal(met.sort().values, torch.arange(N))
    assert (first == second).float().mean() < 0.01
    again, _ = epoch_of(streamed())
    assert torch.equal(first, again)
    # A window mixes blocks from all over the file: no run of the epoch is local.
    assert first[:1000].float().std() > 0.2 * N


def test_noise_belongs_to_the_sample_however_it_is_fed():
    whole = torch.empty(N, 2)
    fill_noise(whole, [(0, N)], Streams(3), 0)
    met, noise = epoch_of(streamed())
    assert torch.equal(noise, whole[met])
    assert abs(whole.mean()) < 0.02
    assert whole.std() == pytest.approx(1, abs=0.02)
    other = torch.empty(N, 2)
    fill_noise(other, [(0, N)], Streams(3), 1)
    assert not torch.equal(whole, other)


@given(st.lists(st.integers(0, 5 * BLOCK), min_size=2, max_size=8))
def test_noise_of_any_spans_is_cut_from_the_same(cuts):
    cuts = sorted({0, 5 * BLOCK, *cuts})
    whole = torch.empty(5 * BLOCK, 1)
    fill_noise(whole, [(0, 5 * BLOCK)], Streams(1), "x")
    spans = list(pairwise(cuts))[::-1]
    pieces = torch.empty(5 * BLOCK, 1)
    fill_noise(pieces, spans, Streams(1), "x")
    assert torch.equal(pieces, torch.cat([whole[start:stop] for start, stop in spans]))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("kind", ["resident", "streamed"])
def test_processes_share_every_batch_of_one_process(kind, size):
    def make(processes):
        if kind == "streamed":
            return streamed(processes=processes)
        own = reader()(0, N).rows(processes.share(N))
        parts = [view.unsqueeze(0) for view in own.views]
        return RunData(parts, own.observed.unsqueeze(0), n_samples=N, processes=processes)

    def batches(data):
        found = []
        for window in data.windows([Streams(3)], 0):
            for rows, batch in window.batches(512):
                found.append((set(data.resident.batch(rows).views[0][0, :, 0].long().tolist()), batch))
        return found

    alone = batches(make(Processes(0, 1)))
    shares = [batches(make(Processes(rank, size))) for rank in range(size)]
    for number, (samples, batch) in enumerate(alone):
        parts = [share[number] for share in shares]
        assert set.union(*(part for part, _ in parts)) == samples
        assert sum(len(part) for part, _ in parts) == len(samples) == batch
        assert all(count == batch for _, count in parts)


def test_a_batch_has_the_same_rows_of_every_run_s_own_data_set():
    views, observed = [torch.randn(2, 6, 3), torch.randn(2, 6, 1)], torch.rand(2, 6, 2) < 0.5
    targets = [view + 1 for view in views]
    data = RunData(views, observed, targets=targets, data_set=[1, 0, 1])
    rows = torch.tensor([[0, 5], [3, 3], [2, 1]])
    batch = data.batch(rows)
    for run, of in enumerate([1, 0, 1]):
        whole = data.of_run(run)
        for kind in ("views", "targets"):
            for v, part in enumerate({"views": views, "targets": targets}[kind]):
                assert torch.equal(getattr(batch, kind)[v][run], part[of, rows[run]])
                assert torch.equal(getattr(whole, kind)[v], part[of])
        assert torch.equal(batch.observed[run], observed[of, rows[run]])
        assert torch.equal(whole.observed, observed[of])
    shared = RunData([view[:1] for view in views], observed[:1], targets=[part[:1] for part in targets]).batch(rows)
    assert torch.equal(shared.targets[0], targets[0][0][rows])
    assert torch.equal(shared.observed, observed[0][rows])


def test_a_window_holds_what_its_bytes_allow():
    narrow = StreamedData(reader(), N, [1, 2], torch.device("cpu"), window_bytes=18 * BLOCK * 12)
    assert narrow.blocks == 18
    assert narrow.resident.observed.shape[1] == 18 * BLOCK


def test_samples_to_place_clusters_by_come_from_all_over_the_file():
    views, observed, *_ = streamed().of_run(0)
    numbers = views[0][:, 0].numpy()
    assert len(numbers) == len(observed) == 16 * BLOCK
    assert len(np.unique(numbers)) == len(numbers)
    assert numbers.min() == 0
    assert numbers.max() > 0.9 * N
    few = streamed(BLOCK + 5).of_run(0)
    assert torch.equal(few.views[0][:, 0], torch.arange(BLOCK + 5.0))
