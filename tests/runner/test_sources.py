"""Finding the source of callables without importing it."""

from __future__ import annotations

import sys

import pytest

from jobrun.runner.sources import (
    Source,
    defines,
    find_source,
    imported_sources,
    script_digests,
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

    assert defines(tmp_path / "m.py", "f")[0] is found


def test_modules_of_the_folder_that_are_imported_count_however_deep(tmp_path):
    (tmp_path / "main.py").write_text("import os\nfrom helpers import add\nimport pack.deep\n")
    (tmp_path / "helpers.py").write_text("def add(x):\n    from other import one\n    return one\n")
    (tmp_path / "other.py").write_text("import main\none = 1\n")
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("")
    (tmp_path / "pack" / "deep.py").write_text("from . import near\nfrom .sub import far\n")
    (tmp_path / "pack" / "near.py").write_text("")
    (tmp_path / "pack" / "sub.py").write_text("far = 1\n")
    (tmp_path / "unused.py").write_text("")

    found = imported_sources(find_source("main", tmp_path), "main", tmp_path)

    assert sorted(found) == ["helpers", "other", "pack", "pack.deep", "pack.near", "pack.sub"]
    assert all(digest.startswith("sha256:") for digest in found.values())


def test_what_cannot_be_parsed_or_is_not_there_imports_nothing(tmp_path):
    (tmp_path / "broken.py").write_text("import (")

    assert imported_sources(find_source("broken", tmp_path), "broken", tmp_path) == {}
    assert imported_sources(Source(None), "compiled", tmp_path) == {}


def test_scripts_of_the_folder_count_and_data_does_not(tmp_path):
    for name in ("step.py", "data.csv", "run.SH"):
        (tmp_path / name).write_text(name)
    (tmp_path.parent / "outside.py").write_text("")

    words = ["python3", "step.py", "data.csv", "./run.SH", "../outside.py", "-x", "/bin/sh"]
    found = script_digests(words, tmp_path)

    assert sorted(found) == ["./run.SH", "./step.py"]
