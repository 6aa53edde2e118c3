"""The report of an internal error."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

from jobrun.cli.process.run_command import write_report
from jobrun.version import __version__


def test_the_report_holds_versions_command_and_trace_but_no_environment(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("SECRET_TOKEN", "abc-secret-def")
    path = write_report("Traceback: here", ["run", "a b.yaml"])
    assert path is not None
    text = Path(path).read_text()
    assert text.startswith(f"jobrun {__version__}, Python ")
    assert "numpy " in text
    assert "command: jobrun run 'a b.yaml'" in text
    assert text.endswith("Traceback: here")
    assert "abc-secret-def" not in text
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


def test_without_a_place_there_is_no_report(monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/nowhere")
    assert write_report("trace", []) is None
