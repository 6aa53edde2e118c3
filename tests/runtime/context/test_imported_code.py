"""Loaders of all kinds compare what they execute with what was recorded."""

from __future__ import annotations

import importlib
import pickle
import py_compile
import sys
import zipfile

import pytest

from jobrun.core.errors import DriftError
from jobrun.core.files.digest import digest_file
from jobrun.runtime.context.imported_code import (
    IMPORTED_CODE,
    ChangedCodeError,
    digest_imported,
    is_user_code,
    read_imported,
    refresh_imported,
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "code"
    path.mkdir()
    monkeypatch.syspath_prepend(str(path))
    yield path
    IMPORTED_CODE.forget()
    for name in [module for module in sys.modules if module.startswith("compared_")]:
        del sys.modules[name]


def expect(run, *files):
    IMPORTED_CODE.expect(
        {str(file.resolve()): digest_file(file) for file in files}, str(run), str(run)
    )


def source(folder, text="value = 1\n"):
    file = folder / "compared_module.py"
    file.write_text(text)
    return file


def bytecode(folder, text="value = 1\n"):
    file = folder / "compared_module.pyc"
    py_compile.compile(str(source(folder, text)), str(file), doraise=True)
    (folder / "compared_module.py").unlink()
    return file


def archive(folder, text="value = 1\n"):
    file = folder / "modules.zip"
    with zipfile.ZipFile(file, "w") as created:
        created.writestr("compared_module.py", text)
    sys.path.insert(0, str(file))
    return file


@pytest.mark.parametrize("make", [source, bytecode, archive])
def test_an_edited_module_is_not_executed(folder, tmp_path, make):
    expect(tmp_path, make(folder))
    make(folder, "value = 2\n")
    importlib.invalidate_caches()

    with pytest.raises(ChangedCodeError, match="edited after the run began"):
        importlib.import_module("compared_module")
    assert "compared_module" not in sys.modules
    with pytest.raises(DriftError, match="E465"):
        IMPORTED_CODE.require_unchanged()


@pytest.mark.parametrize("make", [source, bytecode, archive])
def test_a_module_that_is_as_recorded_is_imported(folder, tmp_path, make):
    expect(tmp_path, make(folder))

    assert importlib.import_module("compared_module").value == 1
    IMPORTED_CODE.require_unchanged()
    assert read_imported(tmp_path) == {}


def test_a_module_that_was_not_known_is_recorded_and_compared(folder, tmp_path):
    file = source(folder)
    expect(tmp_path)
    module = importlib.import_module("compared_module")
    assert read_imported(tmp_path) == {"code/compared_module.py": digest_file(file)}

    file.write_text("value = 2\n")
    with pytest.raises(ChangedCodeError):
        importlib.reload(module)

    assert digest_imported(tmp_path) != read_imported(tmp_path)
    refresh_imported(tmp_path)
    assert digest_imported(tmp_path) == read_imported(tmp_path)


def test_a_module_of_other_source_than_is_recorded_is_imported_again(folder, tmp_path):
    file = source(folder)
    old = importlib.import_module("compared_module")
    file.write_text("value = 2\n")
    importlib.invalidate_caches()

    expect(tmp_path, file)

    assert importlib.import_module("compared_module").value == 2
    assert old.value == 1


def test_the_error_of_a_pool_arrives_in_its_parent():
    error = ChangedCodeError("words")

    assert str(pickle.loads(pickle.dumps(error))) == "words"


def test_outside_of_a_run_nothing_is_compared(folder):
    file = source(folder)
    module = importlib.import_module("compared_module")
    file.write_text("value = 2\n")
    importlib.invalidate_caches()

    assert importlib.reload(module).value == 2


@pytest.mark.parametrize("module", ["json", "numpy", "jobrun.core.errors"])
def test_python_and_installed_packages_are_no_user_code(module):
    assert not is_user_code(str(importlib.import_module(module).__file__))


def test_modules_that_compilers_generate_are_not_recorded(folder, tmp_path, monkeypatch):
    source(folder)
    (tmp_path / "run").mkdir()
    (tmp_path / "spec").mkdir()
    IMPORTED_CODE.expect({}, str(tmp_path / "run"), str(tmp_path / "spec"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    importlib.import_module("compared_module")

    assert read_imported(tmp_path / "run") == {}
