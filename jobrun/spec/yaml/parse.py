"""Parse YAML text as one document: its tree of nodes, and the faults found in it."""

from __future__ import annotations

from msgspec import Struct

from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.interpreter import collector_paused
from jobrun.spec.yaml.nodes import Node
from jobrun.spec.yaml.pyyaml import parser_events, yaml
from jobrun.spec.yaml.syntax_errors import syntax_fault
from jobrun.spec.yaml.tree_builder import Builder, StopReadingError

# Parsing a shorter text takes no longer than a search for repeated items.
_LEAST_LENGTH = 50_000


class Document(Struct, frozen=True):
    """A parsed YAML document: its tree, and the faults that were found.

    Attributes:
        root: The tree, without what the faults are about.
        faults: What is wrong with it; the tree is still fit to be checked further.
        warnings: What the user should know.
    """

    root: Node
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def read_document(text: str, file: str) -> Document:
    """Parse YAML text as one document; return its tree of nodes and the errors found.

    Args:
        text: The whole file.
        file: Its name, for positions.

    Raises:
        SpecError: The text is not one YAML document; with all faults found until then.
    """
    warnings: tuple[Fault, ...] = ()
    if not yaml.__with_libyaml__:
        message = "PyYAML was built without libyaml; large specs load several times slower"
        mend = "install a PyYAML wheel, or install libyaml before building PyYAML"
        warnings = (Fault("W100", message, mend, severity="warning"),)
    if not text.isascii():
        from jobrun.spec.yaml.unseen_spaces import find_unseen_spaces  # noqa: PLC0415 - few have one

        if faults := find_unseen_spaces(text, file):
            raise SpecError(*faults)
    builder = Builder(file, text)
    try:
        with collector_paused():
            root = _read_large(text, file)
            if root is not None:
                return Document(root, (), warnings)
            builder.read(parser_events(text))
    except yaml.YAMLError as error:
        raise SpecError(*builder.faults, syntax_fault(error, text, file)) from error
    except StopReadingError as stop:
        raise SpecError(*builder.faults) from stop
    if builder.root is None:
        where = Origin(file, 1, 1)
        raise SpecError.of("E009", "the file is empty", "a spec must be a mapping", where=where)
    return Document(builder.root, tuple(builder.faults), warnings)


def _read_large(text: str, file: str) -> Node | None:
    if len(text) < _LEAST_LENGTH:
        return None
    from jobrun.spec.yaml.repeated_items import read_repeated  # noqa: PLC0415 - of large texts only

    return read_repeated(text, file)
