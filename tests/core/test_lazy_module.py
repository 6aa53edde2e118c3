import sys

import pytest

from jobrun.core.interpreter import lazy_module


def test_a_module_is_imported_at_the_first_use_of_a_name(tmp_path, monkeypatch):
    (tmp_path / "used_late.py").write_text("value = 3\n")
    monkeypatch.syspath_prepend(tmp_path)

    module = lazy_module("used_late")

    assert "used_late" not in sys.modules
    assert module.value == 3
    assert sys.modules.pop("used_late").value == 3


def test_a_name_that_is_missing_is_missing():
    with pytest.raises(AttributeError, match="module 'json' has no attribute 'nothing'"):
        lazy_module("json").nothing  # noqa: B018
