"""From the words of a command line to a compiled job. Executes nothing, imports no numpy."""

from __future__ import annotations

from collections.abc import Sequence

from jobrun import api
from jobrun.api import Prepared


def option_texts(overrides: Sequence[str]) -> dict[str, str]:
    """The overrides by the name that places give them."""
    return {f"--set #{number}": text for number, text in enumerate(overrides, 1)}


def prepare(spec: str, values: Sequence[str] = (), overrides: Sequence[str] = ()) -> Prepared:
    """Load and compile a spec.

    Raises:
        SpecError: It is not valid or does not compile; with all faults of the first stage
            that finds any.
        UsageError: An override is not ``PATH=VALUE``.
    """
    return api.prepare(api.load(spec, values=values, overrides=overrides))
