"""Words that people put on runs, in a file of each run that nothing else depends on."""

from __future__ import annotations

import json
import re
from pathlib import Path

from jobrun.core.errors import UsageError
from jobrun.runner.durable import disk_faults, write_whole

TAGS_NAME = "tags.json"
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.=-]{0,63}")


def tags_of(run: Path) -> tuple[str, ...]:
    """The run's tags, sorted; none where the file cannot be read."""
    try:
        content = json.loads((run / TAGS_NAME).read_bytes())
    except (OSError, ValueError):
        return ()
    found = content if isinstance(content, list) else []
    return tuple(sorted({tag for tag in found if isinstance(tag, str) and _TAG.fullmatch(tag)}))


def change_tags(run: Path, add: tuple[str, ...], remove: tuple[str, ...]) -> tuple[str, ...]:
    """Put tags on a run and take others off; those it has then.

    Raises:
        UsageError: E422, a tag is not one word.
        EnvironmentFaultError: The disk says no.
    """
    for tag in add:
        if not _TAG.fullmatch(tag):
            raise UsageError.of(
                "E422",
                f"'{tag}' cannot be a tag",
                "write one word of letters, digits and _ . = -, such as baseline or lr=0.1",
            )
    tags = sorted({*tags_of(run), *add} - set(remove))
    with disk_faults(f"write {TAGS_NAME}"):
        write_whole(run / TAGS_NAME, json.dumps(tags).encode() + b"\n")
    return tuple(tags)
