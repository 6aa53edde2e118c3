"""Words on the runs of a sweep, so that ``jobrun runs --tag sweep=walk`` finds them."""

from __future__ import annotations

import re
from pathlib import Path

from jobrun.core.errors import JobrunError
from jobrun.tools.runs.tags import change_tags, tags_of
from jobrun.tools.sweeping.design import Planned, shown_value

_NOT_IN_TAGS = re.compile(r"[^A-Za-z0-9_.=-]+")
_LONGEST = 64


def tags_for(sweep: str, point: Planned) -> tuple[str, ...]:
    """``sweep=walk``, ``lr=0.1``, ``k=3``."""
    pairs = [("sweep", sweep), *point.values.items()]
    return tuple(
        _NOT_IN_TAGS.sub("_", f"{name}={shown_value(value)}")[:_LONGEST] for name, value in pairs
    )


def mark(run: Path, sweep: str, point: Planned) -> None:
    """Put the words on a run. Nothing depends on them, so nothing fails."""
    wanted = tags_for(sweep, point)
    if set(wanted) <= set(tags_of(run)):
        return
    try:
        change_tags(run, wanted, ())
    except (JobrunError, OSError):
        # Of a run directory that cannot be written to, the run itself tells.
        return
