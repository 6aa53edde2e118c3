"""Define the origin of a declared value: file, line and column where its author wrote it."""

from __future__ import annotations

from jobrun.core.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """One place in a spec file, or in an override on the command line: file, line, column.

    Attributes:
        file: The path as the user wrote it, or an override's name such as ``--set #2``.
        line: Counted from 1; 0 when the text is not a file (an override).
        column: Counted from 1, in characters.
        length: How many characters a caret line should underline (at least 1).
        text_column: For a scalar, the column of its first character of text (behind an
            opening quote), so that a fault inside an expression can be pointed at;
            0 when columns inside the text do not map to columns of the file
            (escapes, folded or block scalars).
    """

    file: str
    line: int = 0
    column: int = 0
    length: int = 1
    text_column: int = 0

    def __str__(self) -> str:
        if self.line == 0:
            return self.file
        return f"{self.file}:{self.line}:{self.column}"

    def inside(self, offset: int, length: int = 1) -> Origin:
        """Return the ``Origin`` (file, line, column) of a part of a scalar, such as one name.

        Falls back to the whole scalar where columns do not map.
        """
        if self.line == 0 or self.text_column == 0:
            return self
        column = self.text_column + offset
        return Origin(self.file, self.line, column, max(1, length), column)
