"""The page of a report in a real browser: nothing fails, nothing leaves it, curves can be used."""

from __future__ import annotations

import json

import pytest

from jobrun.tools.report.page import render_checkpoint_page, render_page
from tests.support.browser import browsing
from tests.support.reports import make_report

pytestmark = pytest.mark.long

FIRST = "figure[data-chart='1']"
PLOT = f"{FIRST} .plot"


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Two runs; one of them was stopped, and went on."""
    folder = tmp_path_factory.mktemp("runs")
    return [make_report(folder, "--profile"), make_report(folder, "--set", "params.lr=0.25")]


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    with browsing(tmp_path_factory.mktemp("browser")) as tab:
        yield tab


@pytest.fixture
def shown(tab, tmp_path):
    """Show a page; what was asked for and complained of since then."""

    def show(text: str, **more):
        path = tmp_path / "page.html"
        path.write_text(text)
        tab.errors.clear()
        tab.requests.clear()
        tab.open(path, **more)
        return tab

    return show


def _of(tab, selector: str, case: str):
    return tab.value(f"document.querySelector({json.dumps(selector)}).{case}")


def _curves(tab) -> int:
    return _of(tab, PLOT, "querySelectorAll('path.curve').length")


def _drag(tab, start: float, end: float) -> None:
    left_px, top, width, height = tab.box(PLOT)
    y = top + height / 2
    tab.pointer("mouseMoved", left_px + start * width, y)
    tab.pointer("mousePressed", left_px + start * width, y, button="left", clickCount=1)
    tab.pointer("mouseMoved", left_px + (start + end) / 2 * width, y, button="left")
    tab.pointer("mouseMoved", left_px + end * width, y, button="left")
    tab.pointer("mouseReleased", left_px + end * width, y, button="left", clickCount=1)


@pytest.mark.parametrize("width", [375, 768, 1280])
@pytest.mark.parametrize("count", [1, 2])
def test_it_loads_without_a_complaint_or_a_request_and_fits_the_screen(
    shown, reports, width, count
):
    tab = shown(render_page(reports[:count], "now"), width=width)

    assert tab.value("document.documentElement.dataset.ready") == "yes"
    assert tab.errors == []
    outside = [url for url in tab.requests if not url.startswith(("data:", "file:"))]
    assert outside == []
    assert sum(url.startswith("file:") for url in tab.requests) == 1
    assert tab.value("document.documentElement.scrollWidth") == width


def test_every_chart_has_its_curves(shown, reports):
    tab = shown(render_page(reports, "now"))

    assert tab.value("document.querySelectorAll('figure[data-chart]').length") == 5
    assert _curves(tab) == 2
    assert _of(tab, f"{PLOT} path.curve", "getAttribute('d').length") > 20


def test_the_pointer_shows_the_values_of_all_runs(shown, reports):
    tab = shown(render_page(reports, "now"))
    left_px, top, width, height = tab.box(PLOT)
    tab.pointer("mouseMoved", left_px + width - 12, top + height / 2)
    tip = _of(tab, f"{FIRST} .tip", "innerText")

    assert "epoch 4" in tip
    assert "0.5" in tip
    assert "0.03125" in tip
    assert reports[0].run.name in tip


def test_dragging_zooms_and_a_double_click_goes_back(shown, reports):
    tab = shown(render_page(reports[:1], "now"))
    _drag(tab, 0.4, 0.95)
    low, high = (float(x) for x in _of(tab, FIRST, "dataset.view").split())
    assert 1 < low < high <= 4
    assert not _of(tab, f"{FIRST} .reset", "disabled")

    left_px, top, width, height = tab.box(PLOT)
    for count in (1, 2):
        where = {"x": left_px + width / 2, "y": top + height / 2}
        tab.pointer("mousePressed", **where, button="left", clickCount=count)
        tab.pointer("mouseReleased", **where, button="left", clickCount=count)
    assert _of(tab, FIRST, "dataset.view") == "1 4"


def test_the_wheel_zooms_after_a_click_and_scrolls_before(shown, reports):
    tab = shown(render_page(reports[:1], "now"))
    left_px, top, width, height = tab.box(PLOT)
    where = {"x": left_px + width / 2, "y": top + height / 2}
    tab.pointer("mouseWheel", **where, deltaX=0, deltaY=-100)
    assert _of(tab, FIRST, "dataset.view || ''") == ""

    left_px, top, width, height = tab.box(PLOT)
    where = {"x": left_px + width / 2, "y": top + height / 2}
    tab.pointer("mousePressed", **where, button="left", clickCount=1)
    tab.pointer("mouseReleased", **where, button="left", clickCount=1)
    tab.pointer("mouseWheel", **where, deltaX=0, deltaY=-100)
    view = _of(tab, FIRST, "dataset.view").split()
    assert float(view[1]) - float(view[0]) < 3


def test_all_of_it_works_with_keys(shown, reports):
    tab = shown(render_page(reports[:1], "now"))
    _of(tab, PLOT, "focus()")
    tab.press("Home")
    assert _of(tab, f"{FIRST} .readout", "textContent") == "epoch 1 4"
    tab.press("ArrowRight")
    assert _of(tab, f"{FIRST} .readout", "textContent") == "epoch 2 2"
    tab.press("+")
    assert _of(tab, FIRST, "dataset.view") != "1 4"
    tab.press("0")
    assert _of(tab, FIRST, "dataset.view") == "1 4"
    tab.press("l")
    assert _of(tab, f"{FIRST} .log", "getAttribute('aria-pressed')") == "true"
    assert tab.errors == []


def test_a_run_can_be_hidden(shown, reports):
    tab = shown(render_page(reports, "now"))
    tab.value("document.querySelector('.legend button').click()")

    assert _curves(tab) == 1


def test_zooming_together_zooms_all(shown, reports):
    tab = shown(render_page(reports[:1], "now"))
    tab.value("document.getElementById('together').click()")
    _drag(tab, 0.4, 0.95)
    views = tab.value("[...document.querySelectorAll('figure')].map(f => f.dataset.view || '')")

    assert "" not in views[:3]


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_both_themes(shown, reports, dark):
    tab = shown(render_page(reports, "now"), dark=dark)
    low = tab.value(CONTRAST)

    assert low == []


def test_a_script_that_a_name_smuggles_in_does_not_run(shown, reports):
    text = render_page(reports[:1], "now").replace(
        "</main>", "<script>window.x = 1</script></main>"
    )
    tab = shown(text)

    assert tab.value("window.x === undefined")
    assert any("Content Security Policy" in error for error in tab.errors)


def test_the_page_of_a_checkpoint_loads_too(shown, reports):
    stored = reports[0].stored
    tab = shown(render_checkpoint_page(stored.newest, stored.blobs, "now"), width=375)

    assert tab.errors == []
    assert tab.value("[...document.images].every(one => one.naturalWidth > 1)")
    assert tab.value("document.documentElement.scrollWidth") == 375


# Texts whose contrast with what is behind them is below 4.5 (WCAG 2, level AA).
CONTRAST = """
(() => {
  document.querySelectorAll('details').forEach(one => { one.open = true; });
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    for (; one; one = one.parentElement) {
      const colour = parts(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const low = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const one = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim()) continue;
    if (['SCRIPT', 'STYLE'].includes(one.tagName)) continue;
    if (!one.checkVisibility() || one.closest('button:disabled')) continue;
    const style = getComputedStyle(one);
    const ink = parts(one.namespaceURI.includes('svg') ? style.fill : style.color).slice(0, 3);
    const ground = behind(one);
    let share = 1;
    for (let up = one; up; up = up.parentElement) share *= Number(getComputedStyle(up).opacity);
    const mixed = ink.map((v, at) => v * share + ground[at] * (1 - share));
    const [a, b] = [light(mixed), light(ground)].sort((x, y) => y - x);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < 4.5) low.push([one.tagName, one.textContent.slice(0, 40), contrast]);
  }
  return low;
})()
"""
