"""What every registered method promises; a new method is driven by these tests as soon as it is registered.

A method of another package, registered by an entry point, is driven like those of the library. What the constructors
promise is in test_signatures.py.
"""

from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import torch
from quick import (
    EXAMPLE,
    PLACE,
    QUICK,
    fewest_views,
    known,
    learns_from_complete_samples,
    make,
    make_tiny,
    package,
    reads_from_disk,
)
from sklearn.base import clone

from acova import Views
from acova.base import DataError, OptionError, RunFolderError
from acova.data import StoredViews, make_observed, stack_views
from acova.estimators import list_methods, load_method, make_method
from acova.estimators._tables import TableClusterer
from acova.estimators.registry import HOMES, METHODS
from acova.metrics import clustering_accuracy
from acova.networks import MultiViewVAE
from conftest import AnotherKMeans, make_toy

JUNK = [1e6, np.nan]


@pytest.fixture(scope="module", autouse=True)
def another_package(tmp_path_factory):
    """A package that registers the method of the examples."""
    with package(tmp_path_factory.mktemp("package"), **{EXAMPLE: PLACE}):
        yield


@pytest.fixture(scope="module")
def toy():
    return make_toy(n_samples=160)


@pytest.fixture(scope="module", params=[*list_methods(), EXAMPLE])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name, toy):
    return make(name).fit(toy[0])


def as_dict(views: Views) -> dict[str, np.ndarray]:
    return dict(zip(views.names, views.arrays, strict=True))


def test_a_method_imputes_or_says_that_it_cannot(model, toy):
    views, _ = toy
    if isinstance(getattr(getattr(model, "_ensemble", None), "network", None), MultiViewVAE):
        filled = model.impute(views)
        for v, array in enumerate(filled.arrays):
            np.testing.assert_array_equal(array[views.observed[:, v]], views.rows(v))
            assert np.isfinite(array).all()
        mean, std = model.posterior(views)
        np.testing.assert_array_equal(mean, model.transform(views))
        assert (std > 0).all()
        assert model.sample(3, random_state=0)[1].shape == (3,)
        np.testing.assert_array_equal(model.explain(views).samples["label"], model.predict(views))
        return
    calls = [lambda: model.posterior(views), model.sample, lambda: model.calibrate_imputation(views)]
    calls.append(lambda: model.explain(views))
    if callable(model.impute):  # elsewhere it is a setting
        calls.append(lambda: model.impute(views))
    for call in calls:
        with pytest.raises(OptionError, match="needs a network that fuses and decodes the views"):
            call()


def test_a_method_grows_or_says_that_it_cannot(model, toy):
    views, _ = toy
    last, rest = views.names[-1], views.without([views.names[-1]])
    if isinstance(getattr(getattr(model, "_ensemble", None), "network", None), MultiViewVAE):
        one = deepcopy(model).remove_view(last)
        np.testing.assert_array_equal(one.predict(rest), model.predict(rest))
        one.add_view(views.arrays[-1][rest.index], rest, name=last, epochs=1)
        np.testing.assert_array_equal(one.predict(rest), model.predict(rest))
        assert one.view_names_ == model.view_names_
        assert (one.update(views, epochs=0).labels_ == one.predict(views)).all()
        return
    calls = [lambda: model.remove_view(last), lambda: model.update(views)]
    for call in [*calls, lambda: model.add_view(views.arrays[-1], rest, name="another")]:
        with pytest.raises(OptionError, match="needs a network that encodes, fuses and decodes the views"):
            call()


def test_clusters_have_profiles_and_may_have_names(model, toy):
    profiles = model.cluster_profiles()
    assert len(profiles) == 3 * sum(toy[0].sizes)
    assert (profiles["effect"].abs().groupby(profiles["cluster"]).max() > 1).all()
    plain = model.assignments()
    try:
        table = model.rename_clusters(["a", "b", "c"]).assignments()
    finally:
        model.cluster_names_ = None
    np.testing.assert_array_equal(table["cluster"], np.array(["a", "b", "c"])[table["label"]])
    pd.testing.assert_frame_equal(table.drop(columns="cluster"), plain)


@pytest.mark.parametrize("junk", JUNK)
def test_hidden_cells_change_nothing(name, model, toy, junk):
    views, _ = toy
    dirty = {n: np.where(views.observed[:, [v]], a, junk) for v, (n, a) in enumerate(as_dict(views).items())}
    other = make(name).fit(dirty, observed=views.observed)
    np.testing.assert_array_equal(other.labels_, model.labels_)
    np.testing.assert_array_equal(other.predict(dirty, observed=views.observed), model.predict(views))
    pd.testing.assert_frame_equal(other.assignments(), model.assignments())


def test_the_same_seed_gives_the_same_result_and_leaves_no_trace(name, model, toy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(5)
    before, numpy_before = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again = clone(model).fit(toy[0])
    pd.testing.assert_frame_equal(again.assignments(), model.assignments())
    assert torch.equal(torch.random.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
    assert capsys.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_progress_goes_to_standard_error_and_changes_nothing(name, model, toy, capsys):
    shown = make(name, verbose=True).fit(toy[0])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert name in captured.err
    np.testing.assert_array_equal(shown.labels_, model.labels_)


def test_known_classes_are_not_read(name, model, toy):
    views, labels = toy
    shuffled = np.random.default_rng(0).permutation(labels)
    np.testing.assert_array_equal(make(name).fit_predict(views, shuffled), model.labels_)


def test_every_form_of_input_gives_the_same_clusters(name, model, toy):
    views, _ = toy
    table, sizes = stack_views(views)
    np.testing.assert_array_equal(make(name).fit(list(views.arrays)).labels_, model.labels_)
    np.testing.assert_array_equal(make(name, view_sizes=sizes).fit(table).labels_, model.labels_)
    frames = {n: pd.DataFrame(a).dropna() for n, a in as_dict(views).items()}
    by_name = make(name).fit(frames)
    np.testing.assert_array_equal(by_name.assignments()["label"].sort_index(), model.labels_)


def test_shuffled_rows_keep_their_labels(name, toy):
    frames = {n: pd.DataFrame(a).dropna().add_prefix("f") for n, a in as_dict(toy[0]).items()}
    plain = make(name).fit(frames).assignments()
    shuffled = {n: frame.sample(frac=1, random_state=v) for v, (n, frame) in enumerate(frames.items())}
    model = make(name).fit(shuffled)
    assert list(model.index_) != list(plain.index)
    pd.testing.assert_frame_equal(model.assignments().loc[plain.index], plain)
    assert_numbered_by_size(plain["label"].sort_index().to_numpy())


def assert_numbered_by_size(labels):
    """Check the numbers of labels that are in the canonical order of the samples."""
    sizes = np.bincount(labels, minlength=3)
    first = [np.argmax(labels == k) if size else len(labels) for k, size in enumerate(sizes)]
    assert list(zip(-sizes, first, strict=True)) == sorted(zip(-sizes, first, strict=True))


def test_the_largest_cluster_is_number_0(model, toy):
    assert_numbered_by_size(model.labels_)
    assert_numbered_by_size(model.predict(toy[0]))


def test_clusters_that_other_restarts_find_under_other_numbers_change_nothing(name, monkeypatch):
    views, _ = toy_of_methods(missing=0.2)
    plain = make(name).fit(views)
    monkeypatch.setattr("acova.clustering.kmeans.KMeans", AnotherKMeans)
    other = make(name).fit(views)
    pd.testing.assert_frame_equal(other.assignments(), plain.assignments(), check_exact=True)
    np.testing.assert_array_equal(other.predict(views), plain.predict(views))
    for part in ("weights_", "means_", "variances_", "latent_", "cluster_centers_", "objectives_"):
        if hasattr(plain, part):
            np.testing.assert_array_equal(getattr(other, part), getattr(plain, part), err_msg=part)
    # All but the iterations of k-means, which are those of the restart.
    pd.testing.assert_series_equal(other.history_["total"], plain.history_["total"], check_exact=True)


def test_swapped_views_give_the_same_clusters_to_predict_with(name, model, toy):
    views, labels = toy
    swapped = {n: as_dict(views)[n] for n in ("sound", "image", "text")}
    np.testing.assert_array_equal(model.predict(swapped), model.predict(views))
    other = make(name).fit(swapped)
    assert other.view_names_ == ["sound", "image", "text"]
    scores = [clustering_accuracy(labels, fit.labels_) for fit in (model, other)]
    assert scores[0] == pytest.approx(scores[1], abs=0.05)


def test_training_samples_are_predicted_as_they_were_labelled(model, toy):
    np.testing.assert_array_equal(model.predict(toy[0]), model.labels_)
    np.testing.assert_array_equal(model.predict(toy[0].take([5, 3, 150])), model.labels_[[5, 3, 150]])


def test_complete_data_are_clustered(name):
    views, labels = make_toy(missing=0.0)
    model = make(name).fit(views.take(slice(0, 160)))
    assert clustering_accuracy(labels[:160], model.labels_) > 0.95
    assert clustering_accuracy(labels[160:], model.predict(views.take(slice(160, None)))) > 0.95


def test_rows_that_each_have_a_single_view_are_clustered(name):
    """No sample links the views; what is left is that every view's own rows are told apart."""
    views, labels = make_toy(missing=0.0, sizes=(8, 12))
    observed = np.eye(2, dtype=bool)[np.arange(len(views)) // 3 % 2]
    if learns_from_complete_samples(name):
        with pytest.raises(
            DataError, match=f"{name}: it learns from samples that have every view.*got 0 of n_samples=240.*ACOVA"
        ):
            make(name).fit(views, observed=observed)
        return
    model = make(name).fit(views, observed=observed)
    np.testing.assert_array_equal(model.predict(views, observed=observed), model.labels_)
    apart = [clustering_accuracy(labels[seen], model.labels_[seen]) for seen in observed.T]
    assert max(apart) > 0.6


def test_one_view_and_one_cluster_work(name, toy):
    single, labels = toy[0].take(toy[0].observed[:, 1]).arrays[1], toy[1][toy[0].observed[:, 1]]
    if fewest_views(name) > 1:
        with pytest.raises(
            DataError, match=f"{name}: it compares views with each other and needs at least two; got one"
        ):
            make(name).fit(single)
    else:
        assert clustering_accuracy(labels, make(name).fit_predict(single)) > 0.95
    assert (make(name, n_clusters=1).fit_predict(toy[0]) == 0).all()


def toy_of_methods(missing):
    """Three clusters ten standard deviations apart in two views of 20 features."""
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    views = []
    for _ in range(2):
        corners = 10 / np.sqrt(2) * np.eye(3) @ np.linalg.qr(rng.normal(size=(20, 3)))[0].T
        views.append(corners[labels] + rng.normal(size=(300, 20)))
    return Views.of(views, make_observed(300, 2, missing, random_state=0)), labels


def test_recovers_far_clusters_of_the_toy(name):
    views, labels = toy_of_methods(missing=0.5)
    model = make(name).fit(views)
    score = clustering_accuracy(labels, model.labels_)
    # A row filled by the mean is right by chance at best: of the quarter that lack a view, a third fall right.
    if hasattr(model, "labels_by_view_"):
        assert score == pytest.approx(1 - 0.25 * (1 - 1 / 3), abs=0.05)
    elif isinstance(model, TableClusterer) and "n_neighbors" not in model.get_settings():
        assert score >= 1 - 0.25 * (1 - 1 / 3) - 0.05
    else:
        assert score >= 0.95


def test_a_saved_model_comes_back(name, model, toy, tmp_path):
    views, _ = toy
    model.save(tmp_path / "run")
    for loaded in (type(model).load(tmp_path / "run"), load_method(tmp_path / "run")):
        assert type(loaded) is type(model)
        assert loaded.get_settings() == model.get_settings()
        assert repr(loaded) == repr(model)
        np.testing.assert_array_equal(loaded.labels_, model.labels_)
        np.testing.assert_array_equal(loaded.predict(views), model.predict(views))
        np.testing.assert_array_equal(loaded.predict({"text": views.rows(1)}), model.predict({"text": views.rows(1)}))
        pd.testing.assert_frame_equal(loaded.assignments(), model.assignments())
        pd.testing.assert_frame_equal(loaded.history_, model.history_)
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "config.json",
        "history.csv",
        "labels.csv",
        "model.safetensors",
    ]
    other = next(cls for cls in METHODS.values() if cls is not type(model))
    with pytest.raises(RunFolderError, match=f"holds a model of class '{name}', not '{other.__name__}'"):
        other.load(tmp_path / "run")


def test_views_on_disk_are_streamed_or_refused_with_a_reason(name, tmp_path, monkeypatch):
    views, labels = make_toy(missing=0.0)
    for view, array in as_dict(views).items():
        np.save(tmp_path / f"{view}.npy", array.astype(np.float32))
    np.save(tmp_path / "observed.npy", make_toy()[0].observed)
    monkeypatch.setattr("acova.estimators._base._IN_MEMORY", 0)
    stored = StoredViews.of(tmp_path)
    if reads_from_disk(name):
        assert clustering_accuracy(labels, make(name).fit(stored).labels_) > 0.95
    else:
        with pytest.raises(DataError, match=f"{name}: .* in memory, but these views stay on disk"):
            make(name).fit(stored)


def test_what_cannot_be_done_is_said(name, model, toy):
    views, _ = toy
    with pytest.raises(DataError, match=rf"{name}: n_samples=2 is less than n_clusters=3; lower n_clusters"):
        make(name).fit(views.take([0, 1]))
    with pytest.raises(DataError, match=f"{name}: view 'text' is observed for no sample"):
        make(name).fit(make_toy(n_samples=160, missing=0.0)[0], observed=np.tile([True, False, True], (160, 1)))
    with pytest.raises(OptionError, match=f"{name}: n_clusters must be an integer at least 1; got 0"):
        make(name, n_clusters=0).fit(views)
    with pytest.raises(OptionError, match=f"{name}: standardize must be"):
        make(name, standardize="minmax").fit(views)
    with pytest.raises(DataError, match="was not there when the model was fitted"):
        model.predict({"smell": np.zeros((3, 2))})
    with pytest.raises(ValueError, match="not fitted yet"):
        make(name).predict(views)


def test_presets_have_the_classes_of_their_data_sets(name):
    method = METHODS[name]
    if name not in HOMES and not method.presets:
        pytest.skip("a method of another package may have none")
    assert set(method.presets) == {"handwritten", "caltech5v", "scene15", "fashion", "noisymnist", "cub"}
    assert method.preset("cub", n_clusters=4).n_clusters == 4
    for dataset in method.presets:
        assert method.preset(dataset).n_clusters == {"caltech5v": 7, "scene15": 15}.get(dataset, 10)
    with pytest.raises(OptionError, match=rf"{name}.preset: dataset must be .* Did you mean 'scene15'"):
        method.preset("scene")


@pytest.mark.parametrize(("dataset", "white"), [("fashion", 255.0), ("noisymnist", 1.0)])
def test_presets_of_images_scale_pixels_as_their_data_sets_have_them(name, dataset, white):
    if dataset not in METHODS[name].presets:
        assert name not in HOMES
        pytest.skip("a method of another package may have no presets")
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 60)
    lit = np.kron(np.eye(3), np.ones(8))[labels]
    views = Views.of([white * np.clip(0.8 * lit + rng.normal(0.1, 0.1, lit.shape), 0, 1) for _ in range(2)])
    model = METHODS[name].preset(dataset, **{**known(name, QUICK), "n_clusters": 3}).fit(views)
    assert clustering_accuracy(labels, model.labels_) > 0.9
    if "bernoulli" in getattr(model, "_likelihoods", ()) or getattr(model, "output", "") == "sigmoid":
        scaled = np.concatenate(model._scaling.transform(views))
        np.testing.assert_allclose([scaled.min(), scaled.max()], [0, 1], atol=1e-6)


def test_a_fit_with_a_checkpoint_is_the_same_and_leaves_nothing(name, toy, tmp_path):
    if "checkpoint" not in METHODS[name].setting_names():
        pytest.skip("is fitted in a moment")
    plain = make_tiny(name).fit(toy[0])
    model = make_tiny(name, checkpoint=tmp_path / "state").fit(toy[0])
    pd.testing.assert_frame_equal(model.assignments(), plain.assignments(), check_exact=True)
    assert list(tmp_path.iterdir()) == []


def test_methods_are_made_by_name():
    assert make_method("knnimpute", n_neighbors=3).n_neighbors == 3
    with pytest.raises(OptionError, match=r"method must be one of ACOVA, .* got 'concatt'. Did you mean 'concat'"):
        make_method("concatt")
