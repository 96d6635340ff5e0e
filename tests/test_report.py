import json
import os
import re
import stat
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from acova import ACOVA, BSV
from acova.base import DataError, FileError, OptionError
from acova.data import Summary, Views
from acova.data.profiles import effects
from acova.estimators import make_method
from acova.estimators.registry import method_class
from acova.plots import ClusterDisplay
from acova.report import render_report
from acova.report.numbers import fixed, number, percent
from acova.report.profiles import cluster_profiles
from acova.report.samples import choose_samples, sample_columns
from acova.report.svg import convergence_chart
from acova.report.words import correlation_words, effective_views, training_checks
from conftest import NASTY, SMALL

UNTRAINED = SMALL | {"pretrain_epochs": 0, "warmup_epochs": 0, "epochs": 0}


class Reader(HTMLParser):
    """Collects the tags and the texts of a page, scripts apart."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if not self.tags or self.tags[-1][0] not in ("script", "style"):
            self.texts.append(data)
        elif not data.strip():
            self.tags.append(("", {}))  # what follows a script is text again


def words(page: str) -> str:
    return re.sub(r"\s+", " ", "".join(Reader(page).texts))


def changed(model, **attributes):
    """Return a copy of a fitted model with other results."""
    other = type(model)(**model.get_params(deep=False))
    vars(other).update(vars(model) | attributes)
    return other


def sample_data(page: str) -> dict:
    return json.loads(re.search(r'id="samples-data">(.*?)</script>', page, flags=re.DOTALL)[1])


# --- the page ---------------------------------------------------------------------------------------


def test_names_are_text_wherever_they_stand(nasty):
    page = render_report(nasty, method="PCA")
    seen = Reader(page)
    allowed = {"script": 3, "img": 0, "b": None}
    for tag, count in allowed.items():
        if count is not None:
            assert sum(name == tag for name, _ in seen.tags) == count
    assert not any(key.startswith("on") for _, attrs in seen.tags for key in attrs)
    text = "".join(seen.texts)
    for name in NASTY:
        assert name in text
    assert "49</script>" not in page  # the name of a view is no template
    data = sample_data(page)
    assert data["columns"]["name"] == list(nasty.index_)
    assert data["views"] == list(NASTY)


def test_the_page_asks_for_nothing_from_outside(nasty):
    page = render_report(nasty, method="PCA")
    for tag, attrs in Reader(page).tags:
        for key in ("src", "href", "srcset", "action", "data", "poster"):
            assert attrs.get(key, "#").startswith("#"), (tag, attrs)
    assert "http" not in re.sub(r"http-equiv", "", page)
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_the_page_tells_what_the_model_holds(fitted, toy):
    page = render_report(fitted, method="PCA")
    text = re.sub(r"\s+", " ", "".join(Reader(page).texts))
    sizes = np.bincount(fitted.labels_)
    assert "3 clusters of 240 samples" in text
    for name, size, count in zip(toy[0].names, toy[0].sizes, toy[0].observed.sum(axis=0), strict=True):
        assert f"{name}{size}gaussian{count} ({count / 240:.0%}" in text
    for size in sizes:
        assert f"{size} ({size / 240:.0%}" in text
    for row in fitted.correlation_:
        for value in row:
            assert f"{value:+.2f}".replace("-", "−") in text
    assert repr(fitted) in "".join(Reader(page).texts)
    assert fitted.provenance_["fitted"] in text


def test_the_data_are_the_assignments(fitted, toy):
    columns = sample_data(page := render_report(fitted, method="PCA"))["columns"]
    table = fitted.assignments()
    assert columns["name"] == [str(name) for name in table.index]
    assert columns["label"] == table["label"].tolist()
    np.testing.assert_allclose(np.array(columns["confidence"]) / 1000, table["confidence"], atol=6e-4)
    shares = table[["p_0", "p_1", "p_2"]].to_numpy()
    clear = np.diff(np.sort(shares, axis=1)[:, :2], axis=1)[:, 0] > 0  # else the second is one of equals
    second = np.array(columns["second"])
    np.testing.assert_array_equal(second[clear], shares.argsort(axis=1)[clear, -2])
    assert (second != table["label"]).all()
    patterns = sample_data(page)["patterns"]
    held = np.array([[seen == "1" for seen in patterns[i]] for i in columns["pattern"]])
    np.testing.assert_array_equal(held, toy[0].observed)
    assert (min(columns["x"]), min(columns["y"]), max(columns["x"] + columns["y"])) == (0, 0, 1000)


def test_a_loaded_run_gives_the_same_page(fitted, tmp_path):
    fitted.save(tmp_path / "run")
    assert render_report(ACOVA.load(tmp_path / "run"), method="PCA") == render_report(fitted, method="PCA")


def test_a_consensus_tells_how_many_runs_agree(toy):
    model = ACOVA.from_settings(3, **SMALL | {"epochs": 2, "n_init": 2, "consensus": True}).fit(toy[0])
    page = render_report(model, method="PCA")
    assert "runs agree" in page
    assert np.array(sample_data(page)["columns"]["agreement"]).sum() == pytest.approx(1000 * model.agreement_.sum())


def test_a_method_without_a_network_says_what_it_lacks(toy):
    page = render_report(BSV(3, random_state=0).fit(toy[0]))
    text = "".join(Reader(page).texts)
    for lacking in ("gives no probabilities", "has no latent space"):
        assert f"BSV {lacking}" in text
    assert 'id="correlation"' not in page
    assert "k-means took" in text
    assert set(sample_data(page)["columns"]) == {"name", "label"}


# --- sure samples ------------------------------------------------------------------------------------


def edge_cases(n_samples: int) -> np.ndarray:
    """Probabilities of two clusters, most of them at an edge of the bands or one step of float32 away from it."""
    edges = np.float32([0.5, 0.7, 0.9, 0.9, 0.9])
    steps = np.concatenate([edges, np.nextafter(edges, np.float32(1)), np.nextafter(edges[1:], np.float32(0))])
    first = np.resize(steps, n_samples)
    return np.stack([first, 1 - first], axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tile_sentence_table_and_figure_count_the_sure_samples_of_labels_csv(fitted, tmp_path, dtype):
    shares = edge_cases(240).astype(dtype)
    if dtype is np.float64:
        shares[:100, 0] = 0.9
        shares[100:200, 0] = np.nextafter(0.9, 0)
    labels = np.arange(240) % 2
    shares[1::6] = 0.6, 0.4
    shares = np.where(labels[:, None] == 0, shares, shares[:, ::-1])
    shares = np.concatenate([shares, np.zeros((240, 1), dtype)], axis=1)
    model = changed(fitted, probabilities_=shares, labels_=shares.argmax(axis=1))
    model.assignments().to_csv(tmp_path / "labels.csv", index_label="sample")
    table = pd.read_csv(tmp_path / "labels.csv")
    sure = (table["confidence"] >= 0.9).groupby(table["label"]).agg(["sum", "mean"])
    assert 0 < sure["mean"].min() < sure["mean"].max() < 1
    text = words(render_report(model, method="PCA"))
    whole = percent((table["confidence"] >= 0.9).mean())
    assert f"{whole}sure (0.9 or more)" in text
    assert f"{whole} of the samples are sure (0.9 or more), " in text
    page = re.sub(r"\s+", " ", render_report(model, method="PCA"))
    rows = re.findall(r'<tr data-cluster="\d"><th scope="row"><svg.*?</tr>', page)[:3]
    for label, row in enumerate(rows[:2]):
        assert f'<td class="num">{percent(sure["mean"][label])}</td></tr>' in row
    display = ClusterDisplay.from_estimator(model)
    assert display.bands[-1].tolist()[:2] == sure["sum"].tolist()
    below = [(table["confidence"] < edge).sum() for edge in (0.5, 0.7, 0.9)]
    np.testing.assert_array_equal(display.bands.sum(axis=1).cumsum()[:3], below)


def test_a_saved_model_counts_the_same_sure_samples(fitted, tmp_path):
    shares = np.concatenate([edge_cases(240), np.zeros((240, 1), np.float32)], axis=1)
    model = changed(fitted, probabilities_=shares, labels_=shares.argmax(axis=1))
    model.save(tmp_path / "run")
    printed = pd.read_csv(tmp_path / "run" / "labels.csv")["confidence"]
    for one in (model, ACOVA.load(tmp_path / "run")):
        display = ClusterDisplay.from_estimator(one)
        assert display.bands.sum(axis=1)[-1] == (printed >= 0.9).sum()
        assert f"{percent((printed >= 0.9).mean())}sure" in words(render_report(one, method="PCA"))


# --- numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (0.1234, "0.123"), (-2.5, "−2.5"), (999.9, "1,000"), (12345.6, "12,346"),
        (0.00012345, "0.000123"), (-1.39e-16, "−1.39e−16"), (2e6, "2e6"), (np.inf, "∞"), (-np.inf, "−∞"), (np.nan, "–"),
        (5e-324, "4.94e−324"), (1.7e308, "1.7e308"), (999_999.9, "1e6"), (np.float32(0.1), "0.1"),
    ],
)  # fmt: skip
def test_numbers_are_short(value, text):
    assert number(value) == text


def test_large_effects_are_cut_and_no_zero_is_negative():
    assert [number(value, most=100) for value in (np.inf, 101, 100, 3)] == ["> 100", "> 100", "100", "3"]
    assert number(-np.inf, most=100) == "< −100"
    assert [fixed(value, signed=True) for value in (-0.001, 0.5, -0.5, np.nan)] == ["+0.00", "+0.50", "−0.50", "–"]
    assert [percent(value) for value in (0, 0.001, 0.5, 0.999, 1, np.nan)] == [
        "0%",
        "<1%",
        "50%",
        ">99%",
        "100%",
        "–",
    ]


def test_a_category_that_separates_the_clusters_has_plain_numbers(toy):
    views, labels = toy
    kinds = pd.DataFrame({"kind": np.array(["a", "b", "c"])[labels], "other": np.arange(240) * 0.1})
    frames = {"image": pd.DataFrame(views.arrays[0]).fillna(0.0), "kinds": kinds}
    model = ACOVA.from_settings(3, **SMALL | {"epochs": 1}).fit(frames)
    model = changed(model, labels_=labels, summary_=Summary.of(Views.of(frames), labels, 3))
    profiles = [one for profile in cluster_profiles(model, top=5) for one in profile[1].features if "kind" in one.name]
    shown = {(number(one.inside), number(one.outside)) for one in profiles}
    assert ("1", "0") in shown <= {("1", "0"), ("0", "0.5")}
    page = render_report(model, method="PCA")
    assert "▲ &gt; 100" in page
    assert "∞" not in page
    assert "e−1" not in page


# --- results that are odd ---------------------------------------------------------------------------


def test_the_warnings_of_the_fit_come_first(fitted):
    said = ["Cluster 2 is <empty>.", "Phase 'train' did not converge."]
    page = render_report(changed(fitted, warnings_=said), method="PCA")
    main = page[page.index("<main") :]
    notice = main[: main.index('<ul class="tiles">')]
    assert "What to be careful about" in notice
    assert all(text in words(notice) for text in said)
    assert words(page).count("did not converge") == 1
    assert "none found a problem" not in page


@pytest.mark.parametrize("loaded", [False, True])
def test_a_fit_without_epochs_is_reported(toy, tmp_path, loaded):
    model = ACOVA.from_settings(3, **UNTRAINED).fit(toy[0])
    if loaded:
        model.save(tmp_path / "run")
        model = ACOVA.load(tmp_path / "run")
    text = words(render_report(model, method="PCA"))
    assert "No epoch was trained, so the clusters are those of the initialization" in text
    assert "Parts of the objective" not in text


def test_an_unfitted_model_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(NotFittedError, match="This ACOVA instance is not fitted yet"):
        ACOVA(3).report(tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_identical_latent_vectors_are_reported(fitted):
    page = render_report(changed(fitted, latent_=np.full_like(fitted.latent_, 7)))
    assert "Latent space by PCA (t-SNE needs at least ten distinct latent vectors)" in words(page)
    columns = sample_data(page)["columns"]
    assert set(columns["x"]) == set(columns["y"]) == {0}


def test_results_that_are_not_finite_are_reported_and_named(fitted):
    latent, shares = fitted.latent_.copy(), fitted.probabilities_.copy()
    latent[5:8], shares[5:8] = np.nan, np.nan
    page = render_report(changed(fitted, latent_=latent, probabilities_=shares))
    assert "3 samples have latent vectors or probabilities that are not finite" in words(page)
    assert "NaN" not in page
    columns = sample_data(page)["columns"]
    assert columns["confidence"][5:8] == [0, 0, 0]
    assert max(columns["x"] + columns["y"]) == 1000


def test_clusters_are_listed_by_their_numbers(fitted):
    page = render_report(fitted, method="PCA")
    for start in ('id="map"', 'id="clusters"', 'id="weights"'):
        part = page[page.index(start) :]
        part = part[: part.index("</section>")]
        assert re.findall(r'<(?:tr|article)[^>]*data-cluster="(\d)"', part) == ["0", "1", "2"]


# --- the file ---------------------------------------------------------------------------------------


def test_a_report_replaces_a_report_and_nothing_else(fitted, tmp_path):
    path = fitted.report(tmp_path / "new" / "page.html", method="PCA")
    assert path.read_text(encoding="utf-8") == render_report(fitted, method="PCA")
    fitted.report(path, method="PCA")
    assert fitted.report(tmp_path, method="PCA") == tmp_path / "report.html"
    other = tmp_path / "notes.html"
    other.write_text("mine")
    with pytest.raises(DataError, match=r"notes.html exists and is no report of acova, so it is not replaced"):
        fitted.report(other)
    assert other.read_text() == "mine"
    fitted.report(other, method="PCA", overwrite=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "notes.html", "report.html"]


def test_an_unknown_map_leaves_no_file(fitted, tmp_path):
    with pytest.raises(OptionError, match="report: method must be 't-SNE', 'PCA', 'UMAP'; got 'tsne'"):
        fitted.report(tmp_path / "page.html", method="tsne")
    assert not list(tmp_path.iterdir())


def test_only_regular_files_are_replaced_and_the_place_is_checked_first(fitted, tmp_path, monkeypatch, device):
    monkeypatch.setattr("acova.report.page.page_of", lambda *_, **__: pytest.fail("computed before looking"))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("mine")
    for place, why in (
        (tmp_path / "pipe", "is a pipe"),
        (device, "is a device"),
        (tmp_path / "file" / "page.html", "Not a directory"),
        (tmp_path / ("x" * 300), "File name too long"),
        (Path("/proc/none/page.html"), "failed"),
    ):
        with pytest.raises(FileError, match=why):
            fitted.report(place, overwrite=True)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
    assert stat.S_ISCHR(device.stat().st_mode)


def test_the_old_report_stays_when_the_new_one_fails(fitted, tmp_path, monkeypatch):
    path = fitted.report(tmp_path / "page.html", method="PCA")
    old = path.read_bytes()
    monkeypatch.setattr("acova.report.sections.convergence_chart", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        fitted.report(path, method="PCA")
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_link_keeps_pointing_to_its_file(fitted, tmp_path):
    (tmp_path / "link.html").symlink_to(tmp_path / "there.html")
    fitted.report(tmp_path / "link.html", method="PCA")
    assert (tmp_path / "link.html").is_symlink()
    assert "3 clusters" in (tmp_path / "there.html").read_text(encoding="utf-8")


# --- profiles ---------------------------------------------------------------------------------------


def test_effects_are_cohens_d(toy, fitted):
    views, labels = toy[0], fitted.labels_
    for v, array in enumerate(views.arrays):
        summary = fitted.summary_
        effect, inside, outside = effects(summary.rows[:, v], summary.means[v], summary.stds[v])
        for k in range(3):
            mine, others = (array[views.observed[:, v] & chosen] for chosen in (labels == k, labels != k))
            pooled = (len(mine) * mine.var(axis=0) + len(others) * others.var(axis=0)) / (len(mine) + len(others))
            np.testing.assert_allclose(effect[k], (mine.mean(0) - others.mean(0)) / np.sqrt(pooled), rtol=1e-6)
            np.testing.assert_allclose(inside[k], mine.mean(0))
            np.testing.assert_allclose(outside[k], others.mean(0))


def test_constant_features_and_empty_clusters_have_no_odd_effects():
    counts = np.array([5, 5, 0])
    means = np.array([[1.0, 7.0, 0.0], [0.0, 7.0, 1.0], [np.nan] * 3])
    stds = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [np.nan] * 3])
    effect, _, _ = effects(counts, means, stds)
    np.testing.assert_allclose(effect, [[np.inf, 0, -1], [-np.inf, 0, 1], [0, 0, 0]])


def test_profiles_name_the_columns_and_skip_views_of_few_samples(toy):
    views = toy[0]
    observed = views.observed.copy()
    observed[2:, 2] = False
    observed[:2] = True
    observed[~observed.any(axis=1), 0] = True
    frames = {name: pd.DataFrame(a).add_prefix(f"{name}_") for name, a in zip(views.names, views.arrays, strict=True)}
    frames = {name: frame.fillna(0) for name, frame in frames.items()}
    model = ACOVA.from_settings(3, **SMALL | {"epochs": 1}).fit(frames, observed=observed)
    for profiles in cluster_profiles(model, top=4):
        assert [profile.view for profile in profiles] == list(views.names)
        assert len(profiles[0].features) == 4
        sizes = [abs(feature.effect) for feature in profiles[0].features]
        assert sizes == sorted(sizes, reverse=True)
        assert profiles[0].features[0].name.startswith("image_")
        assert profiles[2].features == []


# --- samples ----------------------------------------------------------------------------------------


def test_every_cluster_is_among_the_samples_shown():
    labels = np.repeat([0, 1, 2, 4], [70_000, 9_000, 30, 1])
    rows = choose_samples(labels, 5, 3000)
    shown = np.bincount(labels[rows], minlength=5)
    assert len(np.unique(rows)) == len(rows) <= 3000
    assert len(rows) > 2990
    assert (shown[2], shown[3], shown[4]) == (30, 0, 1)
    left = (np.array([70_000, 9_000]) - 150) / (79_000 - 300)
    np.testing.assert_allclose((shown[:2] - 150) / (len(rows) - 331), left, rtol=0.01)
    np.testing.assert_array_equal(choose_samples(labels[:50], 5, 3000), np.arange(50))


def test_only_the_chosen_samples_are_mapped(fitted):
    rows = np.array([3, 5, 8])
    columns = sample_columns(fitted, rows, "t-SNE")
    assert columns["map"] == "PCA"  # too few for t-SNE
    assert columns["label"] == fitted.labels_[rows].tolist()


# --- words ------------------------------------------------------------------------------------------


def test_words_name_the_pairs_that_matter():
    matrix = np.array([[1, 0.7, -0.3], [0.7, 1, 0.02], [-0.3, 0.02, 1]])
    said = " ".join(correlation_words(["a", "b", "c"], matrix, learned=True))
    assert "errors of a and b are the most strongly correlated (+0.70)" in said
    assert "errors of a and c are negatively correlated (−0.30)" in said
    assert "errors of c depend least on those of the other views (mean absolute correlation 0.16)" in said
    assert "set, not learned" not in said
    said = " ".join(correlation_words(["a", "b"], np.eye(2), learned=False))
    assert "set, not learned" in said
    assert "the errors of the views are independent of each other" in said
    assert "as informative as 2.0 independent views" in said
    assert "only one view" in correlation_words(["a"], np.eye(1), learned=True)[0]


def test_effective_views_are_the_precision_of_the_best_mean():
    rng = np.random.default_rng(0)
    matrix = np.array([[1, 0.6, 0.2], [0.6, 1, -0.1], [0.2, -0.1, 1]])
    errors = rng.multivariate_normal(np.zeros(3), matrix, size=200_000)
    best = np.linalg.lstsq(errors[:, 1:] - errors[:, :1], -errors[:, 0], rcond=None)[0]  # weights that sum to 1
    variance = (errors[:, 0] + (errors[:, 1:] - errors[:, :1]) @ best).var()
    assert effective_views(matrix) == pytest.approx(1 / variance, rel=0.02)
    assert effective_views(np.ones((2, 2))) is None


def checked(model, **changes) -> dict[str, str]:
    history = model.history_.copy()
    for column, values in changes.items():
        history.loc[history["phase"] == "train", column] = values
    other = ACOVA.from_settings(3, **SMALL)
    vars(other).update(vars(model))
    other.history_ = history
    return {check.text.split(":")[0].split(" were")[0]: check.level for check in training_checks(other)}


@pytest.mark.parametrize(("method", "given"), [("ACOVA", {"correlation": 0.3}), ("CoDE", {"rho": 0.3}), ("DVIMC", {})])
def test_a_correlation_that_was_set_is_not_called_learned(method, given, toy, fitted):
    words_of_set = "This matrix was set, not learned."
    known = method_class(method).setting_names()
    short = {name: value for name, value in (UNTRAINED | given).items() if name in known}
    assert words_of_set in words(render_report(make_method(method, n_clusters=3, **short).fit(toy[0]), method="PCA"))
    assert words_of_set not in words(render_report(fitted, method="PCA"))


def test_health_of_training_is_seen(fitted):
    assert checked(fitted, total=np.linspace(10, 5, 10))["Still improving"] == "note"
    assert checked(fitted, total=np.linspace(5, 10, 10))["Getting worse"] == "warning"
    assert checked(fitted, total=5.0)["Converged"] == "good"
    assert checked(fitted, clipped=8.0)["Gradients"] == "warning"
    assert checked(fitted, clipped=0.0)["Gradients"] == "good"
    assert checked(fitted)["There is one run, and another seed may give other clusters"] == "note"
    assert checked(fitted, total=np.inf)["The objective is not finite"] == "warning"


def test_the_chart_breaks_lines_between_phases(fitted):
    chart = convergence_chart(fitted.history_)
    total = next(line for line in chart["lines"] if line["name"] == "total")
    assert total["path"].count("M") == 3
    assert total["path"].count("L") == len(fitted.history_) - 3
    assert [phase["name"] for phase in chart["phases"]] == ["pretrain", "warmup", "train"]
    assert convergence_chart(fitted.history_.iloc[:0]) is None
