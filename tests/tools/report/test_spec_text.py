"""A spec as marked text."""

from __future__ import annotations

import html
import re

from jobrun.tools.report.spec_text import marked
from tests.support.command import SPECS


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def test_the_text_is_unchanged():
    for path in SPECS.glob("*.yaml"):
        assert _plain(marked(path.read_text())) == path.read_text()


def test_keys_numbers_texts_and_comments_are_told_apart():
    found = marked("- epochs: 10  # ten\n  name: 'a: 1'")

    assert '<span class="yk">epochs</span>:' in found
    assert '<span class="yn">10</span>' in found
    assert '<span class="yc"># ten</span>' in found
    assert '<span class="ys">&#x27;a: 1&#x27;</span>' in found


def test_a_very_long_one_is_cut_and_says_so():
    assert marked("x" * 300_000).endswith("… and 100000 letters more</span>")
