"""Error codes of the runner layer."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {}
