"""Prepare the spec of a command line: load and compile it, and execute nothing of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jobrun.api import Prepared


def override_texts(overrides: Sequence[str]) -> dict[str, str]:
    """Map the name that faults give each ``--set`` option (``--set #1``) to the option's text."""
    return {f"--set #{number}": text for number, text in enumerate(overrides, 1)}


def prepare(spec: str, values: Sequence[str] = (), overrides: Sequence[str] = ()) -> Prepared:
    """Prepare the spec that a command line names: load and compile it.

    Raises:
        SpecError: It is not valid or does not compile; with all faults of the first stage
            that finds any.
        UsageError: An override is not ``PATH=VALUE``.
    """
    # Not for --help, or for what a shell asks when it completes an option.
    from jobrun import api  # noqa: PLC0415

    return api.prepare(api.load(spec, values=values, overrides=overrides))
