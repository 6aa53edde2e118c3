"""From a spec to a graph, with all checks. Pure: reads no disk, executes and imports nothing."""

from __future__ import annotations

from jobrun.compile.job import Compiled, compile_job

__all__ = ["Compiled", "compile_job"]
