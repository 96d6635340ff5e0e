"""Who belongs nowhere, by how networks explain samples: measures against another computation, their level, errors."""

import numpy as np
import pytest
import torch
from quick import make_tiny
from sklearn.metrics import roc_auc_score

from acova import ACOVA
from acova.base import DataError, OptionError
from acova.data import make_observed, make_views
from acova.training.inference import batch_of
from conftest import SMALL

SIZES = {name: {"n_features": 15, "separation": 1.0} for name in "abc"}


def drawn(seed=0, count=240):
    made = make_views(2 * count, 3, SIZES, random_state=seed)
    observed = make_observed(2 * count, 3, 0.3, random_state=seed)
    return made.views.hide(observed), made


@pytest.fixture(scope="module")
def model():
    train = drawn()[0].take(range(240))
    return ACOVA.from_settings(3, **SMALL).fit(train).calibrate_outliers(train, n_folds=3)


def test_measures_are_those_of_one_sample_after_the_other(model):
    some = drawn()[0].take(range(240, 252))
    far, apart = model._misfits(some)
    batch, network = batch_of(some, model._scaling, torch.device("cpu")), model.network_
    log_weights, means, variances = network.prior()
    components = torch.distributions.Independent(torch.distributions.Normal(means, variances.sqrt()), 1)
    mixture = torch.distributions.MixtureSameFamily(torch.distributions.Categorical(logits=log_weights), components)

    def posterior(row, seen):
        rows = [view[[row]] for view in batch.views]
        return network.posterior(rows, torch.tensor([[v in seen for v in range(3)]]))

    def squared(row, v, latent):
        output = network.decode([latent] * 3, torch.ones(1, 3, dtype=torch.bool))[v][0, :15]
        return (output - batch.views[v][row]).square().mean().item()

    with torch.no_grad():
        for row, observed in enumerate(some.observed):
            seen = np.flatnonzero(observed).tolist()
            whole = posterior(row, seen).mean
            assert far[row, 3] == pytest.approx(-mixture.log_prob(whole).item(), rel=1e-4)
            for v in range(3):
                others = [u for u in seen if u != v]
                expected = squared(row, v, whole) if v in seen else np.nan
                assert far[row, v] == pytest.approx(expected, rel=1e-4, nan_ok=True)
                if v not in seen or not others:
                    assert np.isnan(apart[row, [v, 3 + v]]).all()
                    continue
                own, rest = posterior(row, [v]), posterior(row, others)
                assert apart[row, v] == pytest.approx(squared(row, v, rest.mean), rel=1e-4)
                apart_by = ((own.mean - rest.mean) ** 2 / (own.variance + rest.variance)).mean().item()
                assert apart[row, 3 + v] == pytest.approx(apart_by, rel=1e-3)


def test_new_samples_like_those_of_training_are_called_odd_as_often_as_stated(model):
    share = (model.outliers(drawn()[0].take(range(240, 480)))["p_value"] <= 0.1).mean()
    assert 0.03 < share < 0.16  # 0.1 ± three standard errors
    assert 0.08 < (model.outlier_scores_ >= 0.9).mean() < 0.12


def test_shuffled_views_are_found_and_named(model):
    made = drawn()[1]
    clean = [array[240:480].copy() for array in made.views.arrays]
    labels = made.labels[240:480]
    shifted = [array.copy() for array in clean]
    shifted[1] = clean[1][[np.flatnonzero(labels != label)[0] for label in labels]]
    both = dict(zip("abc", [np.vstack(pair) for pair in zip(clean, shifted, strict=True)], strict=True))
    table, odd = model.outliers(both), np.repeat([False, True], 240)
    assert roc_auc_score(odd, -table["p_value"]) > 0.75
    np.testing.assert_allclose(model.score_samples(both), np.log(table["p_value"]))
    named = table.loc[odd & (table["p_value"] <= 0.05).to_numpy(), "odd_views"]
    assert named.str.contains("b").mean() > 0.7


def test_a_saved_model_gives_the_same(model, tmp_path):
    model.save(tmp_path / "run")
    again = ACOVA.load(tmp_path / "run")
    np.testing.assert_array_equal(again.outlier_scores_, model.outlier_scores_)
    new = drawn()[0].take(range(300, 310))
    np.testing.assert_allclose(again.score_samples(new), model.score_samples(new))


def test_what_is_usual_must_be_learned_first():
    train = drawn()[0].take(range(240))
    model = make_tiny("ACOVA").fit(train)
    assert not hasattr(model, "outlier_scores_")
    assert not hasattr(model, "score_samples")
    for act in (lambda: model.outlier_scores_, lambda: model.outliers(train)):
        with pytest.raises(AttributeError, match=r"ACOVA does not know yet what is usual: .* calibrate_outliers\(X\)"):
            act()
    with pytest.raises(DataError, match="X must be the training samples, in the same order"):
        model.calibrate_outliers(train.take(range(100)))
    with pytest.raises(OptionError, match="n_folds must be an integer at least 2"):
        model.calibrate_outliers(train, n_folds=1)
    with pytest.raises(OptionError, match="this needs a network that fuses and decodes"):
        make_tiny("DCP").fit(train).calibrate_outliers(train)
