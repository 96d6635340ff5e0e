import json
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from acova import ACOVA, BSV
from acova.base import DataError, OptionError
from acova.report import render_report
from acova.report.charts import convergence_chart
from acova.report.profiles import cluster_profiles, effects
from acova.report.samples import choose_samples, sample_columns
from acova.report.words import correlation_words, effective_views, training_checks
from conftest import NASTY, SMALL


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


def sample_data(page: str) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page, flags=re.DOTALL)[1])


# --- the page ---------------------------------------------------------------------------------------


def test_names_are_text_wherever_they_stand(nasty):
    page = render_report(nasty, method="PCA")
    seen = Reader(page)
    allowed = {"script": 2, "img": 0, "b": None}
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
        assert f"{name}{size}{count} ({count / 240:.0%}".replace("%", " %") in text
    for size in sizes:
        assert f"{size} ({size / 240:.0%}".replace("%", " %") in text
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
    model = ACOVA(3, **SMALL | {"epochs": 2}, n_init=2, consensus=True).fit(toy[0])
    page = render_report(model, method="PCA")
    assert "runs agree" in page
    assert np.array(sample_data(page)["columns"]["agreement"]).sum() == pytest.approx(1000 * model.agreement_.sum())


def test_a_method_without_a_network_says_what_it_lacks(toy):
    page = render_report(BSV(3, random_state=0).fit(toy[0]))
    text = "".join(Reader(page).texts)
    for lacking in ("tells no probabilities", "has no latent space", "knows no correlation"):
        assert f"BSV {lacking}" in text
    assert set(sample_data(page)["columns"]) == {"name", "label"}


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
    model = ACOVA(3, **SMALL | {"epochs": 1}).fit(frames, observed=observed)
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
    assert "errors of a and b go together most (+0.70)" in said
    assert "errors of a and c are opposed (-0.30)" in said
    assert "c errs most independently (mean correlation 0.16 in size)" in said
    assert "set, not learned" not in said
    said = " ".join(correlation_words(["a", "b"], np.eye(2), learned=False))
    assert "set, not learned" in said
    assert "errs independently of the others" in said
    assert "worth 2.0 independent ones" in said
    assert "one view" in correlation_words(["a"], np.eye(1), learned=True)[0]


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
    other = ACOVA(3, **SMALL)
    vars(other).update(vars(model))
    other.history_ = history
    return {check.text.split(":")[0].split(" were")[0]: check.level for check in training_checks(other)}


def test_health_of_training_is_seen(fitted):
    assert checked(fitted, total=np.linspace(10, 5, 10))["Still improving"] == "note"
    assert checked(fitted, total=np.linspace(5, 10, 10))["Getting worse"] == "warning"
    assert checked(fitted, total=5.0)["Training settled"] == "good"
    assert checked(fitted, clipped=8.0)["Gradients"] == "warning"
    assert checked(fitted, clipped=0.0)["Gradients"] == "good"
    assert checked(fitted)["One run"] == "note"
    assert checked(fitted, total=np.inf)["The objective is not finite"] == "warning"


def test_the_chart_breaks_lines_between_phases(fitted):
    chart = convergence_chart(fitted.history_)
    total = next(line for line in chart["lines"] if line["name"] == "total")
    assert total["path"].count("M") == 3
    assert total["path"].count("L") == len(fitted.history_) - 3
    assert [phase["name"] for phase in chart["phases"]] == ["pretrain", "warmup", "train"]
    assert convergence_chart(fitted.history_.iloc[:0]) is None
