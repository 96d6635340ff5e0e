import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from acova.base import OptionError
from acova.plots import ConvergenceDisplay, CorrelationDisplay, LatentDisplay, save_figures


def test_correlation_shows_the_learned_matrix_and_names(fitted):
    display = CorrelationDisplay.from_estimator(fitted)
    np.testing.assert_array_equal(display.ax_.images[0].get_array(), fitted.correlation_)
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == fitted.view_names_
    shown = [float(text.get_text()) for text in display.ax_.texts]
    np.testing.assert_allclose(shown, fitted.correlation_.ravel(), atol=0.005)


def test_latent_map_places_every_sample_in_its_cluster(toy, fitted):
    display = LatentDisplay.from_estimator(fitted, toy[0], method="PCA")
    np.testing.assert_array_equal(display.labels, fitted.labels_)
    sizes = [len(group.get_offsets()) for group in display.ax_.collections]
    assert sizes == np.bincount(fitted.labels_).tolist()
    centred = fitted.transform(toy[0]) - fitted.transform(toy[0]).mean(0)
    variance = np.linalg.svd(centred, compute_uv=False)[:2] ** 2
    np.testing.assert_allclose((display.points**2).sum(0), variance, rtol=1e-3)


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


@pytest.mark.parametrize("n_samples", [1, 2, 9, 25])
def test_few_samples_can_be_mapped(toy, fitted, n_samples):
    display = LatentDisplay.from_estimator(fitted, toy[0].take(np.arange(n_samples)))
    assert display.points.shape == (n_samples, 2)


def test_an_unknown_method_is_refused(toy, fitted):
    with pytest.raises(OptionError, match="method must be 't-SNE', 'PCA'; got 'UMAP'"):
        LatentDisplay.from_estimator(fitted, toy[0], method="UMAP")


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
    assert [path.name for path in paths] == ["correlation.png", "latent.png", "convergence.png"]
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths)
