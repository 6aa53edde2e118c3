"""Parse YAML text to a tree with places, from the events of PyYAML's parser.

Events and not nodes, because the parser's own node builder recurses in C (deep nesting
kills the process), resolves YAML 1.1, keeps the last of two equal keys and loses places.

Anchors may stand anywhere, also unused; their home is a key ``x-…`` at the top of a file,
which the models never see. Aliases and merge keys are followed within a budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml
from yaml import events

from jobrun.core.errors import Fault, SpecError
from jobrun.core.garbage_collection import collector_paused
from jobrun.core.origin import Origin
from jobrun.spec.yaml.nodes import Node
from jobrun.spec.yaml.syntax_errors import syntax_fault
from jobrun.spec.yaml.tree_builder import Builder, StopReadingError


class Document(NamedTuple):
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
    """Parse the YAML document in a text to a tree, with the faults that were found.

    Args:
        text: The whole file.
        file: Its name, for places.

    Raises:
        SpecError: The text is not one YAML document; with all faults found until then.
    """
    builder = Builder(file, text)
    warnings: tuple[Fault, ...] = ()
    if not yaml.__with_libyaml__:
        message = "PyYAML was built without libyaml; large specs load several times slower"
        mend = "install a PyYAML wheel, or install libyaml before building PyYAML"
        warnings = (Fault("W100", message, mend, severity="warning"),)
    try:
        with collector_paused():
            builder.read(parser_events(text))
    except yaml.YAMLError as error:
        raise SpecError(*builder.faults, syntax_fault(error, text, file)) from error
    except StopReadingError as stop:
        raise SpecError(*builder.faults) from stop
    if builder.root is None:
        where = Origin(file, 1, 1)
        raise SpecError.of("E009", "the file is empty", "a spec must be a mapping", where=where)
    return Document(builder.root, tuple(builder.faults), warnings)


def parser_events(text: str) -> Iterator[events.Event]:
    """Yield the events of the YAML parser, without resolving tags, aliases or scalars.

    Raises:
        yaml.YAMLError: It is not YAML.
    """
    return iter(_parser(text).get_event, None)


def _parser(text: str) -> yaml.CBaseLoader | yaml.BaseLoader:
    """Create the YAML parser: libyaml's if it is there, else PyYAML's own."""
    return yaml.CBaseLoader(text) if yaml.__with_libyaml__ else yaml.BaseLoader(text)
