"""Compare texts exactly with files, rewritten when JOBRUN_UPDATE_GOLDEN is set."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"


def check_golden(path: Path, text: str) -> None:
    """Compare ``text`` with the file at ``path``, or write it there when that is asked for."""
    if os.environ.get("JOBRUN_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"no {path}: run the test with JOBRUN_UPDATE_GOLDEN=1 and read the file"
    assert text == path.read_text(encoding="utf-8"), f"differs from {path}"
