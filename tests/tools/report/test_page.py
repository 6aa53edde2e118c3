"""The document as a whole. In a browser it is looked at by ``tests/e2e/test_report.py``."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.tools.report.blob_pictures import DrawnBlob, histogram, picture
from jobrun.tools.report.page import START, render_checkpoint_page, render_page, summary
from jobrun.tools.report.sections import difference_sections
from jobrun.tools.runs.metrics import Metrics
from tests.support.reports import HOSTILE, a_report, make_report


class _Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


def _hostile():
    """A report with hostile names of metrics, blobs and the run's reason."""
    report = a_report()
    status = replace(report.status, metrics=Metrics((HOSTILE,), ((1, (0.5,)), (2, (1.5,)))))
    blobs = tuple(
        replace(blob, node=HOSTILE, facts=replace(blob.facts, name=HOSTILE))
        for blob in report.stored.blobs
    )
    return replace(report, status=status, stored=replace(report.stored, blobs=blobs))


def test_hostile_names_and_texts_make_no_element(tmp_path):
    elements = _Elements(render_page([_hostile()], "now")).elements

    assert [name for name, _ in elements].count("script") == 2
    sources = [attributes["src"] for name, attributes in elements if name == "img"]
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    assert not any(key.startswith("on") for _, attributes in elements for key in attributes)


def test_the_values_for_the_script_are_those_of_the_run(tmp_path):
    text = render_page([_hostile()], "now")
    script = '<script type="application/json" id="data">(.*?)</script>'
    held = json.loads(re.search(script, text)[1])

    assert held["charts"][0]["name"] == HOSTILE
    assert held["charts"][0]["curves"][0]["y"] == [0.5, 1.5]


def test_only_the_script_and_the_style_that_were_put_in_may_act():
    text = render_page([a_report()], "now")
    policy = re.search('Content-Security-Policy" content="([^"]*)"', text)[1]

    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for name in ("script", "style"):
        inside = re.search(f"<{name}>(.*?)</{name}>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy


def test_nothing_is_named_outside_the_page():
    reports = [a_report()]
    for name, attributes in _Elements(render_page([*reports, *reports], "now")).elements:
        for key in ("href", "src", "action", "data", "srcset", "poster"):
            assert (attributes.get(key) or "#").startswith(("#", "data:")), (name, attributes)
        assert "style" not in attributes


def test_every_link_leads_somewhere():
    report = a_report()
    for reports in ([report], [report, report]):
        elements = _Elements(render_page(reports, "now")).elements
        identities = {attributes.get("id") for _, attributes in elements}
        for name, attributes in elements:
            if name == "a":
                assert attributes["href"].removeprefix("#") in identities


def test_a_run_without_anything_has_a_page(tmp_path):
    report = make_report(tmp_path, "--set", "checkpoint=none", "--max-epochs", "1")
    (report.run.path / "events.jsonl").unlink()

    assert "There is no checkpoint." in render_page([report], "now")


@pytest.mark.long
def test_the_page_stays_small_with_very_much_to_show():
    report = a_report()
    rows = tuple((epoch, (epoch / 3,) * 80) for epoch in range(10_000))
    noise = np.random.default_rng(1).normal(size=(160, 160))
    facts = report.stored.blobs[1].facts
    drawn = DrawnBlob("n", facts, histogram(noise), (picture(noise),))
    status = replace(report.status, metrics=Metrics(tuple(f"m{n}" for n in range(80)), rows))
    stored = replace(report.stored, blobs=(drawn,) * 120)
    text = render_page(
        [replace(report, status=status, stored=stored, spec="k: v\n" * 10**6)], "now"
    )

    assert len(text) < 16_000_000


def test_a_checkpoint_has_a_page_without_a_script():
    stored = a_report().stored
    text = render_checkpoint_page(stored.newest, stored.blobs, "now")

    assert text.startswith(START)
    assert "<script" not in text
    assert text.count('class="blob"') == 3
    run = Path(stored.newest.path).parent.parent
    assert f"{run.parent.name}/{run.name}" in text


@pytest.fixture
def pair():
    return a_report(), a_report("--set", "params.lr=0.25")


def _parts(pair):
    return {identity: content for identity, _, content in difference_sections(pair)}


def test_each_run_has_a_line(pair):
    for report in pair:
        assert report.run.name in summary(pair)


def test_only_what_differs_is_listed(pair):
    parts = _parts(pair)

    assert "<td>lr</td><td>0.5</td><td>0.25</td>" in parts["params"]
    assert "note" not in parts["params"].replace('class="note"', "")
    assert "All runs are alike" in parts["environment"]


def test_last_values_are_in_columns_side_by_side(pair):
    assert "<td>x</td><td>0.5</td><td>0.03125</td>" in _parts(pair)["last"]


def test_spec_and_state_are_compared_with_the_first(pair):
    differences = _parts(pair)["differences"]

    assert "<code>params.lr</code>" in differences
    assert "2 of 3 blobs have the same bits" in differences
    assert "<td>local.x</td><td>1 of 1</td>" in differences


def test_a_run_is_like_itself(pair):
    assert "The same spec and code." in _parts((pair[0], pair[0]))["differences"]
