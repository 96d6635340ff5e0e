"""What a notebook shows, and what scikit-learn's tools for splitting make of views."""

import io
import re
from html.parser import HTMLParser

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn import config_context
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split

from acova import ACOVA, Concat, Views
from acova.base import DataError
from acova.base.html import html_table
from acova.data import inspect_data
from acova.metrics import clustering_accuracy
from acova.plots import CalibrationDisplay, ClusterDisplay, MissingDisplay
from acova.training.progress import Lines, of_runs, progress_bar
from conftest import SMALL


def texts(page: str) -> str:
    """Return the text of a page that is well formed: every tag that is opened is closed."""

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.texts = [], []

        def handle_starttag(self, tag, attrs):
            self.open.append(tag)

        def handle_endtag(self, tag):
            assert self.open.pop() == tag

        def handle_data(self, data):
            self.texts.append(data)

    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    return " ".join(reader.texts)


# --- tables -----------------------------------------------------------------------------------------


def test_tables_escape_every_text():
    page = html_table("<b>", ["a & b"], [("<script>", "</td>")], note="<i>")
    assert not re.search(r"<(b|script|i)>", page)
    assert texts(page) == "<b> a & b <script> </td> <i>"


def test_views_show_their_sizes(toy):
    text = texts(toy[0]._repr_html_())
    assert "Views of 240 samples" in text
    for name, size, seen in zip(toy[0].names, toy[0].sizes, toy[0].observed.sum(axis=0), strict=True):
        assert f"{name} {size} {seen} {seen / 240:.0%}" in text


def test_inspections_and_summaries_show_what_matters(fitted):
    good = pd.DataFrame({"x": np.arange(30) % 7 / 3, "same": 1.0})
    text = texts(inspect_data({"<a>": good})._repr_html_())
    assert "is always 1: it carries no information" in text
    assert text.endswith("These data can be used.")
    holed = texts(inspect_data({"a": good.assign(hole=[np.nan] + [1.0] * 29)})._repr_html_())
    assert "looks like a 3 3 30 100% 1 (1.11%)" in holed
    assert "stops a fit" not in holed
    bad = inspect_data({"a": good.assign(none=np.nan)})
    assert "stops a fit a none is empty everywhere" in texts(bad._repr_html_())
    assert "Summary of 240 samples" in texts(fitted.summary_._repr_html_())


def test_a_fitted_model_shows_its_clusters_below_its_settings(fitted):
    fresh = clone(fitted)._repr_mimebundle_()["text/html"]
    bundle = fitted._repr_mimebundle_()
    page = bundle["text/html"]
    assert "3 clusters of 240 samples in 3 views" not in fresh
    added = page[page.index("<div><strong>3 clusters of 240 samples in 3 views") :]
    text = texts(added)
    for cluster, size in enumerate(np.bincount(fitted.labels_)):
        mean = fitted.probabilities_[fitted.labels_ == cluster].max(axis=1).mean()
        assert f"{cluster} {size} {mean:.2f}" in text
    assert "runs agree" not in text
    assert added in fitted._repr_html_()
    assert bundle["text/plain"] == repr(fitted)
    with config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()


def test_methods_without_probabilities_show_sizes_only(toy):
    page = Concat(3, random_state=0).fit(toy[0])._repr_mimebundle_()["text/html"]
    text = texts(page[page.index("<div><strong>3 clusters of 240 samples") :])
    assert "mean confidence" not in text


# --- displays ---------------------------------------------------------------------------------------


def test_displays_draw_themselves_once(toy, fitted):
    display = MissingDisplay(*(getattr(fitted.summary_, name) for name in ("patterns", "counts")), toy[0].names)
    picture = Image.open(io.BytesIO(display._repr_png_()))
    assert np.ptp(np.asarray(picture.convert("L"))) > 100
    assert display._repr_png_() == display._repr_png_()
    _, ax = plt.subplots()
    assert ClusterDisplay.from_estimator(fitted, ax=ax)._repr_png_() is None  # the notebook shows that figure
    plt.close("all")


def test_calibration_without_classes_says_that_it_is_none(fitted, toy):
    several = clone(fitted).set_params(n_init=2, consensus=True, epochs=2).fit(toy[0])
    title = CalibrationDisplay.from_estimator(several).ax_.get_title()
    assert title.startswith("Confidence and agreement of the same runs: no calibration")
    known = CalibrationDisplay.from_estimator(several, y=toy[1]).ax_
    assert known.get_title().startswith("Calibration (")
    assert known.get_ylabel() == "accuracy"


# --- progress ---------------------------------------------------------------------------------------


def test_logs_get_a_line_for_each_phase(capsys):
    with progress_bar("ACOVA", 7, shown=True) as report:
        for phase, epochs in (("warmup", 2), ("train", 5)):
            for epoch in range(epochs):
                report(phase, epoch + 1, epochs, [{"total": 2.0}, {"total": 4.0}])
    out, err = capsys.readouterr()
    assert out == ""
    assert re.sub(r"\d+ s", "0 s", err).splitlines() == [
        "ACOVA warmup: epoch 2 of 2, loss 3, 0 s",
        "ACOVA train: epoch 5 of 5, loss 3, 0 s",
    ]


@pytest.mark.parametrize(
    ("numbers", "said"),
    [([1], "train, run 2 of 5"), ([0, 1, 2], "train, runs 1 to 3 of 5"), ([0, 3], "train, runs 1, 4 of 5")],
)
def test_reports_name_the_runs_that_train_together(numbers, said):
    phases = []
    of_runs(lambda phase, *_: phases.append(phase), numbers, 5)("train", 1, 2, [])
    assert phases == [said]
    assert of_runs(print, [0], 1) is print  # a single run needs no number
    assert of_runs(None, numbers, 5) is None


def test_each_run_of_a_consensus_has_its_lines(toy, capsys):
    ACOVA.from_settings(3, **SMALL | {"n_init": 3, "consensus": True}, verbose=True).fit(toy[0])
    lines = re.findall(r"ACOVA train, run (\d) of 3: epoch", capsys.readouterr().err)
    assert sorted(lines) == ["1", "2", "3"]


def test_more_lines_on_request_and_one_for_a_fit_that_stopped_early(capsys):
    lines = Lines("ACOVA", often=True)
    for epoch in range(25):  # of 40
        lines.report("train", epoch + 1, 40, [{"total": 1.0}])
    lines.end_phase()
    epochs = [int(found) for found in re.findall(r"epoch (\d+) of 40", capsys.readouterr().err)]
    assert epochs == [4, 8, 12, 16, 20, 24, 25]


def frames_of(views: Views) -> dict[str, pd.DataFrame]:
    """Return each view as a frame of the samples that have it, under their names."""
    names = np.array([f"s{i}" for i in range(len(views))])
    return {name: pd.DataFrame(views.rows(v), names[views.observed[:, v]]) for v, name in enumerate(views.names)}


# --- splitting --------------------------------------------------------------------------------------


def test_views_are_split_by_position(toy):
    views, labels = toy
    first, second, of_first, of_second = train_test_split(views, labels, test_size=0.25, random_state=0)
    assert (len(first), len(second)) == (180, 60)
    assert isinstance(first, Views)
    rows = np.concatenate([first.index, second.index])
    assert sorted(rows) == list(range(240))
    np.testing.assert_array_equal(np.concatenate([of_first, of_second]), labels[rows])
    np.testing.assert_array_equal(second.arrays[0], views.arrays[0][second.index])
    assert views.shape == (240, 25)
    assert (len(views[3]), len(views[:5]), len(views[np.arange(240) < 7])) == (1, 5, 7)
    with pytest.raises(DataError, match=r"Views are indexed by positions of samples; got 'image'"):
        views["image"]


def test_cross_validation_scores_views_and_frames(toy):
    views, labels = toy
    model = Concat(3, random_state=0)
    scores = cross_val_score(model, views, labels, cv=3, scoring="adjusted_rand_score")
    assert scores.min() > 0.5
    joined = Views.of(frames_of(views))
    classes = labels[[int(name[1:]) for name in joined.index]]
    again = cross_val_score(
        model, joined, classes, cv=3, scoring=lambda fitted, X, y: clustering_accuracy(y, fitted.predict(X))
    )
    assert again.min() > 0.7
    search = GridSearchCV(model, {"n_clusters": [2, 3]}, scoring="adjusted_rand_score", cv=3).fit(views, labels)
    assert search.best_params_ == {"n_clusters": 3}


def test_transformed_samples_keep_their_names(toy):
    views, _ = toy
    frames = frames_of(views)
    model = ACOVA.from_settings(3, **SMALL | {"hidden": (8,), "latent_dim": 2, "epochs": 1})
    table = model.set_output(transform="pandas").fit_transform(frames)
    assert list(table.columns) == list(model.get_feature_names_out()) == ["acova0", "acova1"]
    assert list(table.index) == list(model.index_)
    pd.testing.assert_frame_equal(model.transform(frames), table, atol=1e-5)
