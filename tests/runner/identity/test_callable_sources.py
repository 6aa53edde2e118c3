"""Finding the source of callables without importing it."""

from __future__ import annotations

import sys

import pytest

from jobrun.runner.identity.callable_sources import (
    Source,
    digest_scripts,
    find_definition,
    find_source,
)


def test_the_folder_of_the_spec_comes_first(tmp_path):
    (tmp_path / "json.py").write_text("x = 1")

    assert find_source("json", tmp_path).path == tmp_path / "json.py"


def test_packages_and_their_modules_are_found(tmp_path):
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").touch()
    (tmp_path / "pkg" / "mod.py").write_text("raise SystemExit")

    assert find_source("pkg", tmp_path).path.name == "__init__.py"
    assert find_source("pkg.mod", tmp_path).path.name == "mod.py"
    assert find_source("pkg.other", tmp_path) is None


def test_installed_modules_are_found_and_not_imported(tmp_path):
    sys.modules.pop("wave", None)

    assert find_source("wave", tmp_path).path.name == "wave.py"
    assert find_source("xml.dom.pulldom", tmp_path).path.name == "pulldom.py"
    assert find_source("nosuchmodule", tmp_path) is None
    assert "wave" not in sys.modules


def test_built_in_modules_have_no_source(tmp_path):
    assert find_source("_thread", tmp_path) == Source(None)


def test_another_text_is_another_digest(tmp_path):
    (tmp_path / "m.py").write_text("x = 1")
    before = find_source("m", tmp_path).digest
    (tmp_path / "m.py").write_text("x = 2")

    assert find_source("m", tmp_path).digest != before


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(): pass", True),
        ("class f: pass", True),
        ("f = g = 1", True),
        ("from x import f", True),
        ("from x import g as f", True),
        ("from x import *", True),
        ("def __getattr__(name): pass", True),
        ("if 1:\n    def f(): pass", True),
        ("def g(): pass", False),
        ("def (", True),
    ],
)
def test_whether_a_module_defines_a_name(tmp_path, text, found):
    (tmp_path / "m.py").write_text(text)

    assert find_definition(tmp_path / "m.py", "f")[0] is found


def test_scripts_of_the_folder_count_and_data_does_not(tmp_path):
    for name in ("step.py", "data.csv", "run.SH"):
        (tmp_path / name).write_text(name)
    (tmp_path.parent / "outside.py").write_text("")

    words = ["python3", "step.py", "data.csv", "./run.SH", "../outside.py", "-x", "/bin/sh"]
    found = digest_scripts(words, tmp_path)

    assert sorted(found) == ["./run.SH", "./step.py"]
