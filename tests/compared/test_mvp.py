import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from acova import MVP
from acova.base import OptionError
from acova.data import make_observed
from acova.engine import Trainer
from acova.engine.distributed import ALONE
from acova.engine.state import Keeper
from acova.estimators import fit_many
from acova.metrics import clustering_accuracy
from acova.training.schedule import train_runs, train_together
from conftest import SMALL, make_toy

TINY = {option: value for option, value in SMALL.items() if option in MVP().get_params()}


@pytest.fixture(scope="module")
def model(toy):
    return MVP(3, **TINY).fit(toy[0])


def test_labels_are_k_means_on_the_fused_common_variables(toy, model):
    latent = model.transform(toy[0])
    plain = KMeans(3, n_init=10, random_state=0).fit_predict(latent)
    assert clustering_accuracy(plain, model.labels_) == 1
    distances = np.linalg.norm(latent[:, None] - model.means_, axis=-1)
    np.testing.assert_array_equal(distances.argmin(1), model.labels_)
    np.testing.assert_allclose(np.ptp(model.variances_), 0, atol=1e-6)
    np.testing.assert_allclose(model.weights_, 1 / 3, atol=1e-6)


def test_the_history_tells_both_phases_and_their_parts(model):
    history = model.history_
    assert history["phase"].value_counts(sort=False).to_dict() == {"warmup": 10, "train": 10}
    expected = history["reconstruction"] + 5 * history["view_exchange"] + 2.5 * history["common_exchange"]
    np.testing.assert_allclose(history["total"], expected, rtol=1e-5)
    assert model.score(make_toy()[0]) == pytest.approx(-model.objective_)


def test_runs_train_together_as_they_do_alone():
    masks = [make_observed(120, 3, 0.4, random_state=run) for run in range(2)]
    build = lambda: [MVP(3, **{**TINY, "random_state": run}) for run in range(2)]  # noqa: E731
    full = make_toy(n_samples=120, missing=0.0)[0]
    for together, alone, mask in zip(fit_many(build(), full, masks), build(), masks, strict=True):
        np.testing.assert_array_equal(together.labels_, alone.fit(full, observed=mask).labels_)
    jobs = [job for model, mask in zip(build(), masks, strict=True) for job in model._prepare(full, mask).jobs]
    single = [train_runs([job])[0] for job in jobs]
    for ours, theirs in zip(train_together(jobs, None, Keeper(), ALONE), single, strict=True):
        assert ours.records[-1]["total"] == pytest.approx(theirs.records[-1]["total"], rel=1e-3)
        torch.testing.assert_close(ours.network.prior.means, theirs.network.prior.means, rtol=0.02, atol=0.02)


def test_interrupted_training_goes_on(toy, model, tmp_path, monkeypatch):
    whole = Trainer._epoch

    def stopping(self, phase, step, draws, stopping, epoch, skip):
        if phase.name == "train" and epoch == 5:
            raise KeyboardInterrupt
        whole(self, phase, step, draws, stopping, epoch, skip)

    monkeypatch.setattr(Trainer, "_epoch", stopping)
    settings = {**TINY, "checkpoint": tmp_path / "kept", "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        MVP(3, **settings).fit(toy[0])
    monkeypatch.setattr(Trainer, "_epoch", whole)
    np.testing.assert_array_equal(MVP(3, **settings).fit(toy[0]).probabilities_, model.probabilities_)


def test_authors_settings_per_data_set():
    scene, digits, birds = (MVP.preset(name) for name in ("scene15", "handwritten", "cub"))
    assert [m.warmup_epochs + m.epochs for m in (scene, digits, birds)] == [250, 150, 150]
    assert (digits.likelihood, digits.reconstruction_weight, digits.permutation_weight) == ("laplace", 2.5, 2.0)
    assert (scene.hidden, scene.batch_size, scene.clip_norm, scene.latent_dim) == ((512, 512, 2048), 512, 12.0, 16)
    assert scene.warmup_epochs + scene.decay_every == 200


def test_bad_settings_are_named(toy):
    with pytest.raises(OptionError, match=r"MVP: output must be 'tanh', 'linear', 'sigmoid'; got 'tan'. Did you"):
        MVP(3, **TINY, output="tan").fit(toy[0])
    with pytest.raises(OptionError, match="MVP: permutation_weight must be a number at least 0; got -1"):
        MVP(3, **TINY, permutation_weight=-1).fit(toy[0])
