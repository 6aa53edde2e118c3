"""Error codes of the usage layer."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {}
