"""Write ``core/codes.pyi``, the codes of the error catalogue as a type: ``make codes``."""

from __future__ import annotations

from pathlib import Path

from jobrun.core.error_catalogue import read_catalogue

STUB = Path(__file__).parent.parent.parent / "jobrun" / "core" / "codes.pyi"


def render_stub() -> str:
    """Render the stub by which mypy finds a misspelt code."""
    lines = [f'    "{code}",' for code in read_catalogue()]
    return "\n".join(["from typing import Literal", "", "Code = Literal[", *lines, "]", ""])


if __name__ == "__main__":
    STUB.write_text(render_stub())
