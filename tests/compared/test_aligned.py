"""The networks of CPSPAN and PMIMC, and what they do besides keeping the contract."""

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

from acova import CPSPAN, PMIMC
from acova.base import DataError, OptionError
from acova.compared.aligned_network import Donors
from acova.compared.cpspan import PrototypeAlignment
from acova.compared.pmimc import PrototypeMatching
from acova.data import make_observed
from acova.engine.distributed import Processes
from acova.functional import Batch
from acova.metrics import clustering_accuracy
from conftest import make_toy

SIZES = (5, 3, 4)
TINY = {
    **{"hidden": (16,), "latent_dim": 4, "batch_size": 32, "learning_rate": 3e-3, "device": "cpu"},
    **{"pretrain_epochs": 3, "epochs": 5},
}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # hardly trained, on purpose


def make(cls, seed=0, **more):
    return cls(3, **{**TINY, "random_state": seed, **more})


@pytest.fixture(scope="module")
def full():
    return make_toy(n_samples=120, missing=0.0)[0]


@pytest.fixture(scope="module")
def masks():
    return [make_observed(120, 3, 0.4, random_state=run) for run in range(3)]


# --- the networks -------------------------------------------------------------------------------


def data(n=24, share=0.6):
    generator = torch.Generator().manual_seed(0)
    observed = torch.rand(n, len(SIZES), generator=generator) < share
    observed[: n // 3] = True
    observed[:, 0] |= ~observed.any(1)
    views = [torch.randn(n, size, generator=generator) for size in SIZES]
    return Batch(
        [torch.where(seen.unsqueeze(-1), view, 0.0) for view, seen in zip(views, observed.T, strict=True)], observed
    )


def aligned(cls=PrototypeAlignment, **settings):
    torch.manual_seed(0)
    common = {"hidden": (8,), "impute": "cross_view", "instance_weight": 1.0, "prototype_weight": 1.0}
    return cls(SIZES, 4, 3, **{**common, **settings})


@pytest.mark.parametrize("impute", ["cross_view", "zero_code"])
def test_missing_codes_are_those_of_training_samples(impute):
    network, (views, observed, *_) = aligned(prototypes="matched", impute=impute), data()
    codes = network.codes(views, observed).detach()
    network.donors.set(codes, observed)
    completed = network.completed(views, observed)
    for v, seen in enumerate(observed.T):
        assert torch.equal(completed[seen, v], codes[seen, v])
        lent = completed[~seen, v]
        assert (lent.unsqueeze(1) == codes[seen, v]).all(-1).any(1).all()
        if impute == "zero_code":
            assert (lent == lent[0]).all()
    everything = torch.ones_like(observed)
    assert torch.equal(network.completed(views, everything), network.codes(views, everything))


def test_hidden_rows_find_the_donor_when_they_may_be_read():
    network, (views, observed, *_) = aligned(prototypes="matched"), data()
    hidden = [torch.randn(24, size) for size in SIZES]
    network.donors.set(network.codes(views, observed), observed)
    honest = network.completed(views, observed)
    informed = network.completed(views, observed, hidden)
    assert not torch.equal(honest, informed)
    v, row = 1, int((~observed[:, 1]).nonzero()[0])
    query = network.codes(hidden, torch.ones_like(observed))[row, v]
    cosines = torch.cosine_similarity(query.unsqueeze(0), network.donors.codes[:, v]).masked_fill(~observed[:, v], -2)
    assert torch.equal(informed[row, v], network.donors.codes[cosines.argmax(), v])
    unknown = [torch.full_like(view, torch.nan) for view in hidden]
    assert torch.equal(network.completed(views, observed, unknown), honest)


def test_donors_of_any_number_are_read_back():
    donors, other = Donors(2, 3), Donors(2, 3)
    donors.set(torch.randn(7, 2, 3), torch.rand(7, 2) < 0.5)
    other.load_state_dict(donors.state_dict())
    assert torch.equal(other.codes, donors.codes)
    assert torch.equal(other.observed, donors.observed)


def test_cpspan_prototypes_do_not_depend_on_their_numbers():
    network, batch = aligned(prototypes="matched"), data()
    network.centers.data.copy_(torch.randn(3, 3, 4))
    before = network.loss(batch)["prototypes"]
    network.centers.data.copy_(network.centers.data[:, [2, 0, 1]].clone())
    torch.testing.assert_close(network.loss(batch)["prototypes"], before)
    network.centers.data[1] = network.centers.data[1, [1, 0, 2]].clone()
    assert not torch.allclose(network.loss(batch)["prototypes"], before)


def test_released_prototypes_of_pmimc_are_of_different_samples_where_views_are_missing():
    batch = data()
    views, observed = batch.views, batch.observed
    losses = {}
    for form in ("centers", "released"):
        network = aligned(PrototypeMatching, prototypes=form, prototype_rate=0.3)
        codes = network.codes(views, observed)
        losses[form] = network.loss(batch)["prototypes"][0]
    rows = [seen.nonzero().squeeze(-1)[:7] for seen in observed.T]
    total = 0.0
    for v, w in ((0, 1), (0, 2), (1, 2)):
        cosines = torch.cosine_similarity(codes[rows[v], v].unsqueeze(1), codes[rows[w], w].unsqueeze(0), dim=-1)
        missed = 1 - cosines.softmax(-1).diagonal()
        total += (missed + missed**2 / 2).mean()
    torch.testing.assert_close(losses["released"], total)
    assert not torch.allclose(losses["centers"], losses["released"])


# --- training -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [CPSPAN, PMIMC])
def test_labels_are_k_means_on_the_codes_side_by_side(cls, toy):
    model = make(cls).fit(toy[0])
    points = model.transform(toy[0])
    assert points.shape == (240, 12)
    plain = KMeans(3, n_init=10, random_state=0).fit_predict(points)
    assert clustering_accuracy(plain, model.labels_) > 0.97
    nearest = np.linalg.norm(points[:, None] - model.means_, axis=-1).argmin(1)
    np.testing.assert_array_equal(nearest, model.labels_)
    np.testing.assert_allclose(model.view_weights_.sum(1), 1, rtol=1e-6)


def test_matched_prototypes_are_matched_and_the_released_form_collapses_codes(full, masks):
    model = make(CPSPAN).fit(full, observed=masks[0])
    centers = model.network_.centers.numpy()
    units = centers / np.linalg.norm(centers, axis=-1, keepdims=True)
    for v in (1, 2):
        np.testing.assert_array_equal(linear_sum_assignment(units[0] @ units[v].T, maximize=True)[1], np.arange(3))
    ranks = {}
    for weight in (0.0, 30.0):
        strong = make(CPSPAN, prototypes="released", prototype_weight=weight, epochs=40, learning_rate=1e-2).fit(full)
        values = np.linalg.svd(strong.transform(full)[:, :4], compute_uv=False)
        ranks[weight] = values[1] / values[0]
    assert ranks[30.0] < 0.5 * ranks[0.0]


@pytest.mark.parametrize("cls", [CPSPAN, PMIMC])
def test_the_leak_warns_reads_hidden_cells_and_stays_out_of_predict(cls, full, masks):
    noise = [np.random.default_rng(0).normal(size=view.shape) * 30 for view in full.arrays]
    other = [
        np.where(masks[0][:, [v]], array, dirt) for v, (array, dirt) in enumerate(zip(full.arrays, noise, strict=True))
    ]
    leaks = []
    for views in (list(full.arrays), other):
        with pytest.warns(UserWarning, match=f"{cls.__name__}: oracle_leak=True finds the donors .* `observed` hides"):
            leaks.append(make(cls, oracle_leak=True).fit(views, observed=masks[0]))
    assert not np.array_equal(leaks[0].probabilities_, leaks[1].probabilities_)
    np.testing.assert_array_equal(
        leaks[0].predict(other, observed=masks[0]), leaks[0].predict(list(full.hide(masks[0]).arrays))
    )
    with pytest.raises(DataError, match="oracle_leak=True reads hidden cells, but X does not hold any; give complete"):
        make(cls, oracle_leak=True).fit(full.hide(masks[0]))


@pytest.mark.parametrize("cls", [CPSPAN, PMIMC])
def test_the_score_is_minus_the_objective_and_there_is_no_mixture(cls, full):
    model = make(cls).fit(full)
    assert model.score(full) == pytest.approx(-model.objective_)
    assert not hasattr(model, "weights_")
    assert not hasattr(model, "variances_")


def test_authors_settings_per_data_set():
    assert (CPSPAN().latent_dim, CPSPAN().epochs, PMIMC().latent_dim, PMIMC().epochs) == (10, 50, 256, 100)
    assert {cls().standardize for cls in (CPSPAN, PMIMC)} == {"unit"}
    assert CPSPAN.preset("caltech5v").get_params() == CPSPAN(7).get_params()


def test_bad_settings_are_named(full):
    with pytest.raises(OptionError, match="CPSPAN: impute must be 'cross_view', 'zero_code'; got 'leak'"):
        make(CPSPAN, impute="leak").fit(full)
    with pytest.raises(OptionError, match="PMIMC: prototype_rate must be a number above 0 and at most 1; got 0"):
        make(PMIMC, prototype_rate=0).fit(full)
    with pytest.raises(OptionError, match="PMIMC: prototypes must be 'centers', 'released'; got 'matched'"):
        make(PMIMC, prototypes="matched").fit(full)
    with pytest.raises(
        OptionError, match=r"PMIMC: .* one process trains it; got a job of 2 processes. Start it without"
    ):
        make(PMIMC)._prepare(full, None, Processes(0, 2))
