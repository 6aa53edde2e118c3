"""Split text at placeholders such as ``${run.dir}``, which are filled in at run time."""

from __future__ import annotations

import re

from jobrun.compile.expressions.python_ast import SourceText
from jobrun.core.errors import Fault, SpecError
from jobrun.core.text.names import nearest
from jobrun.graph.expressions import Builtin

Part = str | Builtin

# Placeholder → builtin. The loader has replaced all others already.
RUN_TIME: dict[str, str] = {
    "run.dir": "run.dir", "node": "node.name", "epoch": "epoch", "instance": "instance",
}  # fmt: skip
_PLACEHOLDER = re.compile(r"\$\$|\$\{([^{}]*)(\}?)")


def split_placeholders(text: str, scalar: SourceText, at: int | None) -> list[Part]:
    """Split text at ``${run.dir}`` and other placeholders for run time; ``$$`` is a dollar.

    Args:
        text: The text to split.
        scalar: The text of the spec that contains it.
        at: The offset of its first character there; None where offsets do not map.

    Raises:
        SpecError: E112, for each ``${…}`` that is not known.
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
            faults.append(_unknown_placeholder(name, bool(found[2]), scalar, where, len(found[0])))
    if faults:
        raise SpecError(*faults)
    parts.append(text[position:])
    return merge_literals(parts)


def merge_literals(parts: list[Part]) -> list[Part]:
    """Join neighbouring literals between the placeholders of a text; drop empty ones."""
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part != "":
            joined.append(part)
    return joined


def _unknown_placeholder(
    name: str, closed: bool, scalar: SourceText, at: int | None, length: int
) -> Fault:
    if not closed:
        message, mend = "a '${' is not closed", "close it with '}', or write $$ for a dollar"
        return scalar.fault("E112", message, mend, at, length)
    match = nearest(name, RUN_TIME)
    hint = f"did you mean '${{{match}}}'?  " if match else ""
    mend = f"{hint}known here: {', '.join(RUN_TIME)}; for a shell variable write $${{{name}}}"
    return scalar.fault("E112", f"'${{{name}}}' is unknown", mend, at, length)
