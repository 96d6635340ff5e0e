import numpy as np
import pytest
import torch

from acova.base import OptionError, Streams, TrainingError
from acova.engine import ParameterGroup, Phase, draw_noise, resolve_device, seeded, train


def quadratic(weight: torch.nn.Parameter):
    """Mean over the batch of (x·w - noise)²: small enough to follow by hand."""

    def loss(views, observed, noise):
        errors = (views[0] @ weight - noise[:, 0]).square()
        return {"total": errors.mean(), "first": errors.mean() * 2}

    return loss


def phase_of(weight, **settings):
    groups = [ParameterGroup([weight], 0.1)]
    return Phase("fit", **{"epochs": 4, "batch_size": 4, "loss": quadratic(weight), "groups": groups, **settings})


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return [torch.from_numpy(rng.normal(size=(10, 3)))], torch.ones(10, 1, dtype=torch.bool)


def new_weight():
    return torch.nn.Parameter(torch.zeros(3, dtype=torch.float64))


def test_is_adam_on_the_named_order_and_noise(data):
    """A second implementation: plain numpy Adam, decay and clipping."""
    weight = new_weight()
    train(phase_of(weight, noise_shape=(1,), decay=0.5, clip_norm=0.7), *data, Streams(7))
    x = data[0][0].numpy()
    w, m, v, step = np.zeros(3), np.zeros(3), np.zeros(3), 0
    streams = Streams(7).child("fit")
    for epoch in range(4):
        order = streams.numpy("order", epoch).permutation(10)
        noise = draw_noise(streams.integer("noise", epoch), 10, 1).numpy()[:, 0]
        for rows in np.split(order, [4, 8]):
            gradient = 2 * x[rows].T @ (x[rows] @ w - noise[rows]) / len(rows)
            gradient *= min(1.0, 0.7 / (np.linalg.norm(gradient) + 1e-6))
            step += 1
            m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
            w = w - 0.1 * 0.5**epoch * (m / (1 - 0.9**step)) / (np.sqrt(v / (1 - 0.999**step)) + 1e-8)
    np.testing.assert_allclose(weight.detach().numpy(), w, rtol=1e-6)


def test_records_are_means_over_samples_whatever_the_batches(data):
    weight = new_weight()
    phase = phase_of(weight, groups=[ParameterGroup([weight], 0.0)], noise_shape=(1,), measure=lambda: {"extra": 5.0})
    records = train(phase, *data, Streams(0))
    noise = draw_noise(Streams(0).child("fit").integer("noise", 0), 10, 1)
    assert records[0]["total"] == pytest.approx(noise.square().mean().item())
    assert records[0]["first"] == pytest.approx(2 * records[0]["total"])
    assert [(r["phase"], r["epoch"], r["extra"]) for r in records] == [("fit", e, 5.0) for e in (1, 2, 3, 4)]


def test_reporting_and_other_random_draws_change_nothing(data):
    weights = [new_weight(), new_weight()]
    train(phase_of(weights[0], noise_shape=(1,)), *data, Streams(1))

    def nosy(*_):
        torch.manual_seed(0)
        torch.randn(100)
        np.random.default_rng().normal(size=3)

    train(phase_of(weights[1], noise_shape=(1,)), *data, Streams(1), nosy)
    assert torch.equal(*weights)


def test_reports_every_epoch(data):
    seen = []
    train(phase_of(new_weight(), noise_shape=(1,)), *data, Streams(1), lambda *call: seen.append(call[:3]))
    assert seen == [("fit", epoch, 4) for epoch in (1, 2, 3, 4)]


def test_a_phase_of_no_epochs_does_nothing(data):
    weight = new_weight()
    assert train(phase_of(weight, epochs=0), *data, Streams(1)) == []
    assert (weight == 0).all()


def test_training_that_diverges_says_so(data):
    weight = new_weight()
    phase = phase_of(weight, loss=lambda *_: {"total": weight.sum() * torch.inf}, noise_shape=(1,))
    with pytest.raises(TrainingError, match=r"non-finite in epoch 1 of phase 'fit'.*standardize=True"):
        train(phase, *data, Streams(1))


def test_seeding_leaves_the_global_state_alone():
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    with seeded(1):
        first = torch.randn(3)
    assert torch.equal(torch.randn(3), expected)
    with seeded(1):
        assert torch.equal(torch.randn(3), first)


def test_devices_resolve_or_say_why_not():
    assert resolve_device("cpu").type == "cpu"
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(OptionError, match=r"device must be 'auto'.*got 'gpu'.*device='cpu'"):
        resolve_device("gpu")
