"""``${run.dir}`` and its like inside a text, as parts that are filled in at run time."""

from __future__ import annotations

import re

from jobrun.compile.scalar import Scalar
from jobrun.core.errors import Fault, SpecError
from jobrun.core.names import nearest
from jobrun.graph.expr import Builtin

Part = str | Builtin

# As written, and what it reads. All others the loader has replaced.
RUN_TIME: dict[str, str] = {
    "run.dir": "run.dir", "node": "node.name", "epoch": "epoch", "instance": "instance",
}  # fmt: skip
_PLACEHOLDER = re.compile(r"\$\$|\$\{([^{}]*)(\}?)")


def split_placeholders(text: str, scalar: Scalar, at: int | None) -> list[Part]:
    """The text in parts: ``$$`` is a dollar, ``${name}`` a builtin, the rest literal.

    Args:
        text: What is to be split.
        scalar: What it stands in.
        at: The offset of its first character there; None where offsets do not map.

    Raises:
        SpecError: E112, for each ``${…}`` that stands for nothing.
    """
    parts: list[Part] = []
    faults: list[Fault] = []
    position = 0
    for found in _PLACEHOLDER.finditer(text):
        parts.append(text[position : found.start()])
        position = found.end()
        name = found[1]
        if name is None:
            parts.append("$")
        elif name in RUN_TIME and found[2]:
            parts.append(Builtin(RUN_TIME[name]))
        else:
            where = None if at is None else at + found.start()
            faults.append(_unknown(name, bool(found[2]), scalar, where, len(found[0])))
    if faults:
        raise SpecError(*faults)
    parts.append(text[position:])
    return merged(parts)


def merged(parts: list[Part]) -> list[Part]:
    """The same parts, with neighbouring literal ones joined and empty ones left out."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


def _unknown(name: str, closed: bool, scalar: Scalar, at: int | None, length: int) -> Fault:
    if not closed:
        message, mend = "a '${' is not closed", "close it with '}', or write $$ for a dollar"
        return scalar.fault("E112", message, mend, at, length)
    match = nearest(name, RUN_TIME)
    hint = f"did you mean '${{{match}}}'?  " if match else ""
    mend = f"{hint}known here: {', '.join(RUN_TIME)}; for a shell variable write $${{{name}}}"
    return scalar.fault("E112", f"'${{{name}}}' stands for nothing", mend, at, length)
