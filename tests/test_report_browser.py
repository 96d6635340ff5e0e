import numpy as np
import pytest

from browser import CHROMIUM, Browser

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")


@pytest.fixture(scope="module")
def page(nasty, tmp_path_factory):
    return nasty.report(tmp_path_factory.mktemp("report") / "page.html", method="PCA")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


def column(browser, number: int) -> list[str]:
    return browser.run(f"[...document.querySelectorAll('#table tbody tr')].map(row => row.cells[{number}].textContent)")


def shown(browser) -> int:
    return int(browser.run("document.getElementById('count').textContent").split()[0])


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("dark", [False, True])
def test_it_loads_without_errors_or_requests_and_fits_the_window(browser, page, width, dark):
    browser.open(page, width=width, dark=dark)
    assert browser.problems == []
    assert browser.requests == [page.as_uri()]
    assert browser.run("typeof window.hacked") == "undefined"
    assert browser.run("document.documentElement.scrollWidth") == width
    back = browser.run("getComputedStyle(document.body).backgroundColor")
    lightness = np.mean([int(part) for part in back.strip("rgb()").split(",")])
    assert (lightness < 60) == dark


def test_names_are_shown_as_text(browser, page, nasty):
    browser.open(page)
    views = browser.run("[...document.querySelectorAll('#data tbody th')].map(cell => cell.textContent)")
    assert views == nasty.view_names_
    assert column(browser, 0) == [str(name) for name in nasty.index_[:50]]
    assert browser.run("document.images.length") == 0
    assert browser.run("typeof window.hacked") == "undefined"


def test_a_cluster_filters_map_table_and_cards(browser, page, nasty):
    browser.open(page)
    everything = browser.run("document.getElementById('map-canvas').toDataURL()")
    assert shown(browser) == 240
    browser.run("document.querySelector('.chips button[data-cluster=\"1\"]').click()")
    assert shown(browser) == (nasty.labels_ == 1).sum()
    assert set(column(browser, 1)) == {"1"}
    assert browser.run("document.getElementById('map-canvas').toDataURL()") != everything
    visible = "[...document.querySelectorAll('.profile')].filter(p => !p.hidden).map(p => p.dataset.cluster)"
    assert browser.run(visible) == ["1"]
    way = "[...document.querySelectorAll('#tree-chart .on-path')].map(p => p.dataset.clusters.split(' ').includes('1'))"
    assert set(browser.run(way)) == {True}
    browser.press("Escape")
    assert shown(browser) == 240
    assert browser.run("document.getElementById('map-canvas').toDataURL()") == everything
    browser.run("document.querySelector('#clusters-table tr[data-cluster=\"2\"]').click()")
    assert shown(browser) == (nasty.labels_ == 2).sum()
    assert browser.problems == []


def test_a_point_of_the_map_chooses_its_cluster(browser, page, nasty):
    browser.open(page)
    browser.run("document.getElementById('map-canvas').scrollIntoView({block: 'center'})")
    box = browser.run(
        "(b => [b.x, b.y, b.width, b.height])(document.getElementById('map-canvas').getBoundingClientRect())"
    )
    data = browser.run("JSON.parse(document.getElementById('samples-data').textContent).columns")
    x, y = np.array(data["x"]), np.array(data["y"])
    scale = min((box[2] - 24) / x.max(), (box[3] - 24) / y.max())
    sample = int(x.argmax())  # no other point lies beyond it
    left, top = (box[2] - x.max() * scale) / 2, (box[3] + y.max() * scale) / 2
    browser.click(box[0] + left + x[sample] * scale + 4, box[1] + top - y[sample] * scale)
    assert shown(browser) == (nasty.labels_ == nasty.labels_[sample]).sum()
    assert browser.run("document.getElementById('tip').textContent").startswith(str(nasty.index_[sample]))


def test_headers_sort_and_the_search_finds(browser, page, nasty):
    browser.open(page)
    sure = "document.querySelectorAll('#table thead button')[2].click()"
    browser.run(sure)
    ascending = [float(text) for text in column(browser, 2)]
    expected = np.sort(nasty.probabilities_.max(axis=1))
    np.testing.assert_allclose(ascending, expected[:50], atol=6e-4)
    assert browser.run("document.querySelectorAll('#table thead th')[2].ariaSort") == "ascending"
    browser.run(sure)
    np.testing.assert_allclose([float(text) for text in column(browser, 2)], expected[::-1][:50], atol=6e-4)
    browser.run("document.querySelectorAll('#table thead button')[0].click()")
    names = [name for name in column(browser, 0) if name.startswith("sample")]
    assert names == sorted(names, key=lambda name: int(name.split()[1]))
    browser.run("document.getElementById('search').focus()")
    browser.ask("Input.insertText", text="SAMPLE 12")
    assert shown(browser) == sum(str(name).startswith("sample 12") for name in nasty.index_)
    browser.open(page)
    browser.run("document.getElementById('next').click()")
    assert column(browser, 0) == [str(name) for name in nasty.index_[50:100]]
    assert browser.run("document.getElementById('page').textContent") == "page 2 of 5"
    assert browser.problems == []


def test_the_keyboard_reaches_and_presses_everything(browser, page):
    browser.open(page)
    reached = []
    for _ in range(140):
        browser.press("Tab")
        now = browser.run(
            "(e => [e.tagName, e.id, e.dataset.cluster ?? '', e.textContent.slice(0, 12)].join('|'))"
            "(document.activeElement)"
        )
        if now in reached and now.startswith("BODY"):
            break
        reached.append(now)
    kinds = "\n".join(reached)
    assert "BUTTON||2|" in kinds
    assert "BUTTON||||confidence" in kinds or "BUTTON|||confidence" in kinds
    assert "INPUT|search" in kinds
    assert "SUMMARY" in kinds
    assert "CANVAS|map-canvas" in kinds
    for control in ("SELECT|colour", "BUTTON|save-map", "BUTTON|save-labels", "BUTTON|save-numbers"):
        assert control in kinds
    browser.open(page)
    browser.run("document.querySelector('.chips button[data-cluster=\"0\"]').focus()")
    browser.press("Enter", "\r")
    assert browser.run("document.activeElement.ariaPressed") == "true"
    assert set(column(browser, 1)) == {"0"}
    browser.run("document.getElementById('theme').focus()")
    for theme in ("light", "dark", None):
        browser.press("Enter", "\r")
        assert browser.run("document.documentElement.dataset.theme ?? null") == theme


def test_paper_is_light_and_shows_all_profiles(browser, page):
    browser.open(page, dark=True, media="print")
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.run("getComputedStyle(document.querySelector('nav')).display") == "none"
    assert browser.run("[...document.querySelectorAll('details')].every(d => d.open)") is True
    assert browser.pdf().startswith(b"%PDF")


def test_a_phone_breaks_no_name_and_scrolls_tables_in_their_cards(browser, fitted, tmp_path):
    page = fitted.report(tmp_path / "plain.html", method="PCA")
    browser.open(page, width=390)
    heights = "[...document.querySelectorAll('#influence .name, #data .name')].map(e => e.getClientRects().length)"
    assert set(browser.run(heights)) == {1}
    lines = "[...document.querySelectorAll('#influence .name, #data .name')].map(e => e.offsetHeight)"
    assert max(browser.run(lines)) < 30  # one line
    wide = (
        "[...document.querySelectorAll('main table')].filter(t => t.offsetWidth > 390 && !t.closest('.scroll')).length"
    )
    assert browser.run(wide) == 0


def options(browser) -> list[str]:
    return browser.run("[...document.querySelectorAll('#colour option')].map(option => option.textContent)")


def legend(browser) -> str:
    return browser.run("document.getElementById('legend').textContent")


def colour_by(browser, number: int) -> None:
    browser.run(
        f"(s => {{ s.selectedIndex = {number}; s.dispatchEvent(new Event('change')); }})"
        "(document.getElementById('colour'))"
    )


def test_the_map_is_coloured_by_whatever_is_chosen(browser, fitted, toy, tmp_path):
    age = np.linspace(20.0, 80.0, 240)
    age[:5] = np.nan
    covariates = {"age": age, "<b>kind": np.where(toy[1] == 1, "b & c", "a")}
    page = fitted.report(tmp_path / "page.html", method="PCA", covariates=covariates, views=toy[0])
    browser.open(page)
    names = options(browser)
    assert names[:5] == ["cluster", "confidence", "missing views", "age", "<b>kind"]
    assert names[5].split(": ")[0] in toy[0].names
    assert legend(browser) == "cluster012"
    pictures, legends = [], []
    for number in range(6):
        colour_by(browser, number)
        pictures.append(browser.run("document.getElementById('map-canvas').toDataURL()"))
        legends.append(legend(browser))
    assert len(set(pictures)) == 6
    assert legends[1] == "confidence01"
    assert legends[2].startswith("missing viewshas all views")
    assert legends[3] == "age20.380" or legends[3].startswith("age2")
    assert legends[4] == "<b>kindab & c"
    assert browser.problems == []


def test_the_keyboard_walks_over_the_map(browser, page, nasty):
    browser.open(page)
    browser.run("document.getElementById('map-canvas').focus()")
    seen = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown"):
        browser.press(key)
        seen.append(browser.run("document.getElementById('tip').textContent"))
    assert all(": cluster " in text and "; has " in text for text in seen)
    assert len(set(seen)) >= 3
    browser.press("Enter", "\r")
    label = int(seen[-1].split(": cluster ")[1].split(" ")[0])
    assert shown(browser) == (nasty.labels_ == label).sum()


def saved(browser, button: str) -> str:
    browser.run(
        "URL.createObjectURL = (blob) => { window.blob = blob; return '#'; };"
        f"document.getElementById('{button}').click()"
    )
    return browser.run("window.blob.text()")


def test_labels_numbers_and_the_map_can_be_saved(browser, page, nasty):
    import csv
    import io
    import json
    from xml.etree import ElementTree

    browser.open(page)
    rows = list(csv.reader(io.StringIO(saved(browser, "save-labels"))))
    assert rows[0][:3] == ["sample", "label", "confidence"]
    assert [row[0] for row in rows[1:]] == [str(name) for name in nasty.index_]
    assert [int(row[1]) for row in rows[1:]] == nasty.labels_.tolist()
    numbers = json.loads(saved(browser, "save-numbers"))
    assert numbers["map"]["sizes"] == np.bincount(nasty.labels_).tolist()
    svg = ElementTree.fromstring(saved(browser, "save-map"))
    names = [element.tag.split("}")[1] for element in svg.iter()]
    assert names.count("use") == 240 + 3  # the samples, and the legend
    assert [element.text for element in svg.iter() if element.tag.endswith("text")][:3] == ["0", "1", "2"]
    assert browser.problems == []
