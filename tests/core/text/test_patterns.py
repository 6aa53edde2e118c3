from __future__ import annotations

import re

import pytest

from jobrun.core.text.patterns import lazy_pattern


def test_a_pattern_is_compiled_when_it_is_first_used(monkeypatch):
    compiled = []
    compile_ = re.compile
    monkeypatch.setattr(
        re, "compile", lambda *arguments: compiled.append(arguments) or compile_(*arguments)
    )

    pattern = lazy_pattern("a+b", re.IGNORECASE)

    assert compiled == []
    assert pattern.fullmatch("AAB")
    assert not pattern.fullmatch("b")
    assert compiled == [("a+b", re.IGNORECASE)]


def test_a_pattern_of_bytes_has_every_method_of_a_compiled_one():
    pattern = lazy_pattern(rb"(?P<digit>\d)")

    assert pattern.sub(b"x", b"a1b2") == b"axbx"
    assert pattern.search(b"a1")["digit"] == b"1"
    assert (pattern.pattern, dict(pattern.groupindex)) == (rb"(?P<digit>\d)", {"digit": 1})


def test_a_wrong_pattern_is_an_error_at_its_first_use():
    pattern = lazy_pattern("(")

    with pytest.raises(re.error):
        pattern.match("")
