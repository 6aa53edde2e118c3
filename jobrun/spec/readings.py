"""Words for a text that YAML 1.1 and 1.2 read differently, where that matters."""

from __future__ import annotations

from jobrun.spec.scalars import old_reading


def both_readings(text: str, expected: str, kind: str) -> tuple[str, str] | None:
    """What to say of a plain text, where something else than text is wanted.

    Args:
        text: The text, as written without quotes.
        expected: What is wanted, in words.
        kind: ``bool``, ``number`` or ``duration``.

    Returns:
        The message and the mend; None where the text never meant such a thing.
    """
    old = old_reading(text)
    if old is None or isinstance(old, bool) != (kind == "bool"):
        return None
    reading = str(old).lower() if isinstance(old, bool) else str(old)
    new = str(int(text)) if text.lstrip("+-").isdecimal() else "text"
    message = f"expected {expected}; '{text}' is {reading} in YAML 1.1 and {new} in YAML 1.2"
    if new == reading:
        message = f"expected {expected}; '{text}' has the leading zero of an octal number"
    if kind == "duration":
        return message, f"write {reading}s for seconds, or {reading}m for minutes"
    return message, f"write {reading}" if new in {"text", reading} else f"write {reading} or {new}"
