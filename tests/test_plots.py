import subprocess
import sys
import warnings
from dataclasses import replace
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.text import Text
from sklearn.calibration import calibration_curve
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from acova import ACOVA, Concat
from acova.base import DataError, OptionError
from acova.data.summary import count_patterns
from acova.estimators import ClusterNumbers
from acova.metrics import clustering_accuracy
from acova.plots import (
    CalibrationDisplay,
    ClusterDisplay,
    ClusterNumberDisplay,
    ConvergenceDisplay,
    CorrelationDisplay,
    LatentDisplay,
    MissingDisplay,
    ViewWeightDisplay,
    confidence_bands,
    map_points,
    save_figures,
)
from acova.plots.latent import spread_boxes
from acova.plots.style import short
from conftest import SMALL


def test_correlation_shows_the_learned_matrix_and_names(fitted):
    display = CorrelationDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(display.ax_.images[0].get_array(), fitted.correlation_)
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == fitted.view_names_
    shown = [float(text.get_text()) for text in display.ax_.texts]
    np.testing.assert_allclose(shown, fitted.correlation_.ravel(), atol=0.005)


def test_numbers_of_clusters_are_drawn_beside_data_without_clusters():
    numbers = ClusterNumbers(
        3, "3 clusters", 0.05, (2, 3, 4), (0.5, 0.9, 0.4), (0.4, 0.3, 0.2), (0.1,) * 3, (1.0,) * 3, (0.1,) * 3
    )
    display = ClusterNumberDisplay(numbers).plot()
    expected, silhouette, choice = display.ax_.lines
    np.testing.assert_array_equal(silhouette.get_xydata(), [[2, 0.5], [3, 0.9], [4, 0.4]])
    np.testing.assert_array_equal(expected.get_ydata(), numbers.expected)
    assert list(choice.get_xdata()) == [3, 3]
    assert display.ax_.get_title() == "Number of clusters: 3 clusters"
    none = ClusterNumberDisplay(replace(numbers, n_clusters=1)).plot()
    assert len(none.ax_.lines) == 2
    assert none.ax_.get_title() == "Number of clusters: no clusters found"


# --- latent map -------------------------------------------------------------------------------------


def test_latent_map_places_every_sample_in_its_cluster(toy, fitted):
    display = LatentDisplay.from_estimator(fitted, toy[0], method="PCA")
    np.testing.assert_array_equal(display.labels, fitted.labels_)
    sizes = [len(group.get_offsets()) for group in display.ax_.collections]
    assert sizes == np.bincount(fitted.labels_).tolist()
    centred = fitted.transform(toy[0]) - fitted.transform(toy[0]).mean(0)
    variance = np.linalg.svd(centred, compute_uv=False)[:2] ** 2
    np.testing.assert_allclose((display.points**2).sum(0), variance, rtol=1e-3)
    trained = LatentDisplay.from_estimator(fitted, method="PCA")
    np.testing.assert_allclose(trained.points, display.points, atol=1e-4)


def test_uncertain_samples_are_fainter():
    display = LatentDisplay(np.eye(3)[:, :2], [0, 0, 1], [0.2, 0.9, 0.5]).plot()
    alphas = display.ax_.collections[0].get_alpha()
    assert alphas[0] < alphas[1]


@pytest.mark.parametrize("n_clusters", [2, 12, 50])
def test_clusters_can_be_told_apart_by_colour_and_marker(n_clusters):
    points = np.random.default_rng(0).normal(size=(n_clusters, 2))
    display = LatentDisplay(points, np.arange(n_clusters), np.ones(n_clusters)).plot()
    looks = {
        (to_hex(group.get_facecolor()[0]), group.get_paths()[0].vertices.tobytes()) for group in display.ax_.collections
    }
    assert len(looks) == n_clusters


@pytest.mark.parametrize("n_samples", [1, 9, 25])
def test_few_samples_can_be_mapped(toy, fitted, n_samples):
    display = LatentDisplay.from_estimator(fitted, toy[0].take(np.arange(n_samples)))
    assert display.points.shape == (n_samples, 2)
    assert display.method == ("t-SNE" if n_samples >= 10 else "PCA")


def test_umap_is_asked_with_the_seed(fitted, monkeypatch):
    class UMAP:
        def __init__(self, n_neighbors, random_state, n_jobs):
            self.asked = (n_neighbors, random_state, n_jobs)

        def fit_transform(self, latent):
            assert self.asked == (15, 7, 1)
            return latent[:, :2]

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=UMAP))
    display = LatentDisplay.from_estimator(fitted, method="UMAP", random_state=7)
    np.testing.assert_array_equal(display.points, fitted.latent_[:, :2])
    assert display.method == "UMAP"


def test_umap_that_is_not_installed_says_how(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(
        OptionError, match=r"needs the package umap-learn; install it with: pip install 'acova\[umap\]'"
    ):
        LatentDisplay.from_estimator(fitted, method="UMAP")


def test_an_unknown_method_is_refused(toy, fitted):
    with pytest.raises(OptionError, match="method must be 't-SNE', 'PCA', 'UMAP'; got 'Isomap'"):
        LatentDisplay.from_estimator(fitted, toy[0], method="Isomap")


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_boxes_are_parted_and_stay_inside(spread):
    centres = 250 + spread * np.random.default_rng(0).normal(size=(50, 2))
    sizes = np.tile([18.0, 12.0], (50, 1))
    places = spread_boxes(centres, sizes, np.array([[0, 0], [500, 500]]))
    for one, other in combinations(places, 2):
        assert (np.abs(one - other) >= [18 - 1e-6, 12 - 1e-6]).any()
    assert places.min() >= 6
    assert places.max() <= 494


def test_boxes_that_do_not_touch_stay():
    centres = np.array([[100.0, 100.0], [300.0, 300.0]])
    places = spread_boxes(centres, np.full((2, 2), 10.0), np.array([[0, 0], [500, 500]]))
    np.testing.assert_allclose(places, centres, atol=0.5)


IDENTICAL = """
import numpy as np
from acova.plots import map_points
points, method = map_points("map", np.full((60, 3), 2.0, dtype=np.float32), "t-SNE")
assert (points == 0).all() and method == "PCA"
"""


def test_identical_vectors_end_no_process():
    subprocess.run([sys.executable, "-W", "error", "-c", IDENTICAL], check=True)


@pytest.mark.parametrize("method", ["t-SNE", "PCA"])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 3e37])
def test_vectors_of_any_size_are_mapped(method, scale):
    latent = (scale * np.random.default_rng(0).uniform(-3, 3, (40, 3))).astype(np.float32)
    points, made_by = map_points("map", latent, method)
    assert made_by == method
    assert np.isfinite(points).all()
    assert len(np.unique(points, axis=0)) == 40


def test_few_distinct_vectors_are_mapped_by_pca_and_many_repeats_by_tsne():
    vectors = np.random.default_rng(0).normal(size=(10, 3))
    assert map_points("map", np.repeat(vectors[:9], 20, axis=0), "t-SNE")[1] == "PCA"
    points, made_by = map_points("map", np.repeat(vectors, 20, axis=0), "t-SNE")
    assert made_by == "t-SNE"
    assert np.isfinite(points).all()


def test_vectors_that_are_not_finite_have_no_place():
    latent = np.random.default_rng(0).normal(size=(30, 3))
    latent[[3, 4], [0, 1]] = np.nan, np.inf
    points, _ = map_points("map", latent, "PCA")
    assert np.flatnonzero(np.isnan(points).any(axis=1)).tolist() == [3, 4]
    expected, _ = map_points("map", np.delete(latent, [3, 4], axis=0), "PCA")
    np.testing.assert_array_equal(np.delete(points, [3, 4], axis=0), expected)
    LatentDisplay(points, np.zeros(30, dtype=int), np.ones(30)).plot()


# --- what went in -----------------------------------------------------------------------------------


def test_missing_patterns_are_counted(toy, fitted):
    views = toy[0]
    display = MissingDisplay.from_views(views)
    counted = pd.DataFrame(views.observed).value_counts()
    assert dict(zip(map(tuple, display.patterns.tolist()), display.counts.tolist(), strict=True)) == counted.to_dict()
    np.testing.assert_allclose(display.observed_shares, views.observed.mean(axis=0))
    lengths = [bar.get_width() for bar in display.ax_.patches]
    np.testing.assert_allclose(np.divide(lengths, lengths[0]), display.counts / display.counts[0])
    again = MissingDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(again.patterns, display.patterns)
    np.testing.assert_array_equal(again.counts, display.counts)


def test_filled_dots_are_the_views_of_the_pattern():
    display = MissingDisplay([[1, 1, 0], [0, 0, 1]], [3, 2], "abc").plot()
    empty, filled = (group.get_offsets().tolist() for group in display.ax_.collections)
    assert sorted(filled) == [[0, 0], [1, 0], [2, 1]]
    assert sorted(empty) == [[0, 1], [1, 1], [2, 0]]


def test_rare_patterns_share_a_row():
    display = MissingDisplay([[1, 1], [1, 0], [0, 1]], [7, 2, 1], "ab", max_patterns=2).plot()
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts == ["7 (70%)", "3 (30%)", "2 rarer"]


def test_views_on_disk_show_their_patterns(toy, tmp_path):
    for name, array in zip(toy[0].names, toy[0].arrays, strict=True):
        np.save(tmp_path / f"{name}.npy", array)
    display = MissingDisplay.from_views({name: tmp_path / f"{name}.npy" for name in toy[0].names})
    np.testing.assert_array_equal(display.counts, MissingDisplay.from_views(toy[0]).counts)


# --- what came out ----------------------------------------------------------------------------------


def test_cluster_bars_count_samples_by_confidence(toy, fitted):
    display = ClusterDisplay.from_estimator(fitted, toy[0])
    labels, confidence = fitted.labels_, fitted.probabilities_.max(axis=1)
    bands = pd.cut(confidence, [0, 0.5, 0.7, 0.9, 1.01], right=False, labels=False)
    expected = pd.crosstab(bands, labels).reindex(index=range(4), columns=range(3), fill_value=0)
    np.testing.assert_array_equal(display.bands, expected)
    np.testing.assert_array_equal(display.sizes, np.bincount(labels))
    np.testing.assert_allclose(display.mean_confidence, pd.Series(confidence).groupby(labels).mean(), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_confidence_at_an_edge_counts_as_it_is_printed(dtype):
    edges = np.array([0.5, 0.7, 0.9], dtype=dtype)
    values = np.concatenate([edges, np.nextafter(edges, dtype(0)), np.nextafter(edges, dtype(1)), dtype([0, 1])])
    printed = [float(str(value)) for value in values]  # what a table of text holds
    assert [float(text) for text in pd.Series(values).to_csv(index=False, header=False).split()] == printed
    expected = [sum(value >= edge for edge in (0.5, 0.7, 0.9)) for value in printed]
    np.testing.assert_array_equal(confidence_bands(values), expected)
    display = ClusterDisplay(np.zeros(len(values), dtype=int), values)
    np.testing.assert_array_equal(display.bands[:, 0], np.bincount(expected, minlength=4))
    calibration = CalibrationDisplay(values, np.ones(len(values)))
    tenths = [max(n for n in range(10) if value >= n / 10) for value in printed]
    np.testing.assert_array_equal(calibration.shares * len(values), np.bincount(tenths, minlength=10))


def test_no_confidence_is_the_least():
    assert confidence_bands([np.nan, 0.2, 1]).tolist() == [0, 0, 3]
    ClusterDisplay([0, 1], [np.nan, 0.5]).plot()


def test_an_empty_cluster_has_an_empty_row():
    display = ClusterDisplay([0, 2, 2], [0.5, 0.9, 0.7], n_clusters=4).plot()
    assert display.sizes.tolist() == [1, 0, 2, 0]
    assert [tick.get_text() for tick in display.ax_.get_yticklabels()] == ["0", "1", "2", "3"]


def test_a_method_without_probabilities_shows_sizes_and_refuses_the_rest(toy):
    model = Concat(3, random_state=0).fit(toy[0])
    display = ClusterDisplay.from_estimator(model)
    assert display.bands is None
    assert display.sizes.sum() == len(toy[0])
    for other, text in (
        (ViewWeightDisplay, "Concat does not weigh views"),
        (CorrelationDisplay, "Concat has no correlation_"),
        (LatentDisplay, "Concat has no latent space"),
        (CalibrationDisplay, "Concat has no probabilities"),
    ):
        with pytest.raises(OptionError, match=text):
            other.from_estimator(model)


def test_weights_are_the_means_of_each_cluster(toy, fitted):
    expected = pd.DataFrame(fitted.view_weights_).groupby(fitted.labels_).mean()
    for X in (None, toy[0]):
        display = ViewWeightDisplay.from_estimator(fitted, X)
        np.testing.assert_allclose(display.cluster_weights, expected, rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(display.cluster_weights.sum(axis=1), 1, atol=1e-4)


def test_negative_weights_get_colours_of_their_own():
    weights = np.array([[1.3, -0.3], [0.6, 0.4]])
    assert ViewWeightDisplay(weights, [0, 1], "ab").plot().ax_.images[0].get_clim() == (-1.3, 1.3)
    assert ViewWeightDisplay(np.abs(weights), [0, 1], "ab").plot().ax_.images[0].get_clim() == (0, 1.3)


# --- calibration ------------------------------------------------------------------------------------


def test_calibration_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.3, 1, 2000)
    holds = rng.random(2000) < confidence**2
    display = CalibrationDisplay(confidence, holds, n_bins=8).plot()
    true, predicted = calibration_curve(holds, confidence, n_bins=8)
    filled = np.isfinite(display.mean_holds)
    np.testing.assert_allclose(display.mean_holds[filled], true)
    np.testing.assert_allclose(display.mean_confidence[filled], predicted)
    assert display.error == pytest.approx(np.abs(true - predicted) @ display.shares[filled])


def test_known_classes_are_matched_to_clusters(toy, fitted):
    names = np.array(["x", "y", "z"])[toy[1]]
    display = CalibrationDisplay.from_estimator(fitted, y=names)
    assert np.nansum(display.shares * display.mean_holds) == pytest.approx(clustering_accuracy(names, fitted.labels_))


def test_without_classes_the_runs_are_asked(toy, fitted):
    with pytest.raises(OptionError, match=r"this model has one run; pass y, or fit with n_init=10, consensus=True"):
        CalibrationDisplay.from_estimator(fitted)
    model = ACOVA.from_settings(3, **SMALL | {"n_init": 2, "consensus": True}).fit(toy[0])
    display = CalibrationDisplay.from_estimator(model)
    assert np.nansum(display.shares * display.mean_holds) == pytest.approx(model.agreement_.mean())


# --- training ---------------------------------------------------------------------------------------


def test_convergence_draws_every_part_and_marks_the_phases(fitted):
    ax = Figure().add_subplot()
    display = ConvergenceDisplay.from_estimator(fitted, ax=ax)
    assert display.ax_ is ax
    lines = {line.get_label(): line.get_ydata() for line in ax.lines if not line.get_label().startswith("_")}
    assert set(lines) == {"total", "reconstruction", "KL z", "KL c", "alignment", "‖R − I‖"}
    train = (fitted.history_["phase"] == "train").to_numpy()
    drawn = lines["alignment"][train]
    np.testing.assert_allclose(drawn[1:], fitted.history_["alignment"][train][1:])
    assert [text.get_text() for text in ax.texts] == ["pretrain", "warmup", "train"]


def test_all_figures_are_written(toy, fitted, tmp_path):
    paths = save_figures(fitted, toy[0], tmp_path / "figures")
    names = ["correlation", "latent", "convergence", "missing", "clusters", "weights"]
    assert [path.stem for path in paths] == names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)


@pytest.mark.parametrize(
    "display",
    [
        CalibrationDisplay, ClusterDisplay, ConvergenceDisplay, CorrelationDisplay, LatentDisplay, MissingDisplay,
        ViewWeightDisplay,
    ],
)  # fmt: skip
def test_an_unfitted_model_is_no_method_that_lacks_something(display):
    with pytest.raises(NotFittedError, match="This ACOVA instance is not fitted yet"):
        display.from_estimator(ACOVA(3))


# --- nothing overlaps -------------------------------------------------------------------------------


def corners(text, renderer) -> np.ndarray:
    """Return the corners (4, 2), in pixels, of a text that is turned around its anchor."""
    angle = np.radians(text.get_rotation())
    text.set_rotation(0)
    box = text.get_window_extent(renderer).corners()[[0, 1, 3, 2]]
    text.set_rotation(np.degrees(angle))
    anchor = text.get_transform().transform(text.get_position())
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return (box - anchor) @ turn + anchor


def apart(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether a straight line along a side parts two rectangles, but for half a pixel."""
    sides = np.vstack([shape[1:3] - shape[:2] for shape in (one, other)])
    first, second = one @ sides.T, other @ sides.T
    slack = 0.5 * np.hypot(*sides.T)
    return bool(((first.max(0) <= second.min(0) + slack) | (second.max(0) <= first.min(0) + slack)).any())


def check_texts(figure: Figure) -> int:
    """Check that no two texts overlap and none leaves the figure; return how many there are."""
    renderer, drawn = FigureCanvasAgg(figure).get_renderer(), []
    draw = Text.draw

    def record(text, renderer):
        if text.get_visible() and text.get_text().strip():
            drawn.append(text)
        draw(text, renderer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", record)
        figure.draw(renderer)
    shapes = [corners(text, renderer) for text in drawn]
    low, high = np.min([shape.min(axis=0) for shape in shapes], axis=0), np.max(shapes, axis=(0, 1))
    assert (low > -1).all()
    assert (high < figure.bbox.size + 1).all()
    centres = np.array([shape.mean(axis=0) for shape in shapes])
    for one, other in np.argwhere(np.triu(np.abs(centres[:, None] - centres[None]).max(axis=2) < 300, 1)):
        assert apart(shapes[one], shapes[other]), (drawn[one], drawn[other])
    return len(drawn)


def long_names(count: int) -> list[str]:
    words = ["pixels", "RNA expression counts", "methylation at promoters", "x"]
    return [f"{words[v % 4]} {v}" for v in range(count)]


def made(n_views: int, n_clusters: int, n_samples: int = 600):
    """Displays of random results."""
    rng = np.random.default_rng(n_views + n_clusters)
    names, labels = long_names(n_views), np.arange(n_samples) % n_clusters
    confidence = rng.beta(5, 1, n_samples)
    observed = rng.random((n_samples, n_views)) < 0.6
    observed[:, 0] |= ~observed.any(axis=1)
    weights = rng.normal(1, 1, (n_samples, n_views)) * observed
    factors = rng.normal(size=(n_views, 40))
    yield CorrelationDisplay(np.corrcoef(factors), names)
    yield MissingDisplay(*count_patterns(observed), names)
    yield LatentDisplay(rng.normal(size=(n_clusters, 2))[labels] + rng.normal(size=(n_samples, 2)), labels, confidence)
    yield ClusterDisplay(labels, confidence)
    yield ViewWeightDisplay(weights, labels, names)
    yield CalibrationDisplay(confidence, rng.random(n_samples) < confidence)


@pytest.mark.parametrize(("n_views", "n_clusters"), [(2, 2), (6, 10), (12, 50)])
def test_no_text_overlaps_on_figures_of_their_own(n_views, n_clusters):
    for display in made(n_views, n_clusters):
        assert check_texts(display.plot().figure_) > 2


def test_no_text_overlaps_on_given_axes():
    for display in made(12, 50):
        figure = Figure(layout="constrained")
        assert check_texts(display.plot(figure.add_subplot()).figure_) > 2


@pytest.mark.parametrize("epochs", [(1, 1, 400), (400, 1, 1), (3, 2, 1), (100, 100, 200)])
def test_names_of_phases_do_not_touch(epochs):
    phase = np.repeat(["pretrain", "warmup", "train"], epochs)
    values = np.geomspace(1e3, 1, len(phase))
    history = pd.DataFrame({"phase": phase, "total": values, "reconstruction": values / 2, "alignment": values / 30})
    check_texts(ConvergenceDisplay(history).plot().figure_)


def test_long_names_lose_their_middle_and_dollars_are_plain():
    assert short("a" * 30 + "b", 11) == "aaaaa…aaaab"
    assert short("US$ $x$\nnew") == r"US\$ \$x\$ new"


@pytest.mark.parametrize(
    "display",
    [
        *(CalibrationDisplay, ClusterDisplay, ConvergenceDisplay, CorrelationDisplay),
        *(LatentDisplay, MissingDisplay, ViewWeightDisplay),
    ],
)
def test_a_model_that_is_not_fitted_is_said_to_be(display):
    with pytest.raises(NotFittedError, match="This ACOVA instance is not fitted yet"):
        display.from_estimator(ACOVA(3))


def test_without_an_epoch_there_is_no_course_of_training(toy, tmp_path):
    none = {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ACOVA.from_settings(3, **{**SMALL, **none}).fit(toy[0])
    with pytest.raises(
        DataError, match="ConvergenceDisplay: the history has no epoch to draw; fit with pretrain_epochs"
    ):
        ConvergenceDisplay.from_estimator(model)
    with pytest.raises(NotFittedError):
        save_figures(ACOVA(3), None, tmp_path / "none")
    assert "convergence" not in {path.stem for path in save_figures(model, None, tmp_path)}
