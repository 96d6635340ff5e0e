import pytest
import torch

from acova.base import Streams
from acova.engine import RunData, StratifiedData
from acova.engine.data import batch_sizes


@pytest.mark.parametrize(
    ("rule", "expected"),
    [("never", [4, 4, 1]), ("joined", [4, 5]), ("partial", [4, 4]), ("always", [4, 4])],
)
def test_what_becomes_of_the_last_batch(rule, expected):
    assert batch_sizes(9, 4, rule) == expected
    assert batch_sizes(8, 4, rule) == ([4] if rule == "always" else [4, 4])
    assert batch_sizes(3, 4, rule) == ([] if rule in ("partial", "always") else [3])
    assert batch_sizes(1, 4, "joined") == [1]


def data_of(n=10, runs=2):
    return RunData([torch.zeros(runs, n, 3)], torch.ones(runs, n, 1, dtype=torch.bool))


def test_an_epoch_goes_through_the_chosen_rows_only():
    rows = torch.tensor([[1, 3, 5], [2, 4, 6]])
    data = RunData(data_of().views, data_of().observed, rows=rows)
    for epoch in range(3):
        (window,) = data.windows([Streams(0), Streams(1)], epoch)
        parts = torch.cat([part for part, _ in window.batches(2)], dim=1)
        assert torch.equal(parts.sort(1).values, rows)


def test_groups_are_gone_through_in_turn_and_batches_depend_on_their_number_alone():
    groups = [torch.arange(7).expand(2, -1), torch.arange(7, 10).expand(2, -1)]
    streams = [Streams(0), Streams(1)]

    def batch(step):
        (window,) = StratifiedData(data_of(), groups, 5).windows(streams, step)
        return window.order

    drawn = torch.stack([batch(step) for step in range(21)], dim=1)
    assert torch.equal(batch(11), drawn[:, 11])
    for run in range(2):
        many, few = drawn[run, :, :5].flatten(), drawn[run, :, 5:].flatten()
        for start in range(0, 105, 7):
            assert sorted(many[start : start + 7].tolist()) == list(range(7))
        for start in range(0, 105, 3):
            assert sorted(few[start : start + 3].tolist()) == [7, 8, 9]
    assert not torch.equal(drawn[0], drawn[1])


def test_what_training_wrote_to_the_data_comes_back():
    data = RunData([torch.randn(1, 4, 3)], torch.ones(1, 4, 1, dtype=torch.bool), derived=True)
    kept = {name: value.clone() for name, value in data.state().items()}
    data.views[0].zero_()
    data.load(kept)
    assert torch.equal(data.views[0], kept["data.0"])
    assert data_of().state() == {}
