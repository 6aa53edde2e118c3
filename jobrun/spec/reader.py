"""YAML text to a tree with places: our own loader on the parser's event stream.

Events and not nodes, because the parser's own node builder recurses in C (deep nesting
kills the process), resolves YAML 1.1, keeps the last of two equal keys and loses places.

Anchors may stand anywhere, also unused; their home is a key ``x-…`` at the top of a file,
which the models never see. Aliases and merge keys are followed within a budget.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import yaml
from yaml import events

from jobrun.core.errors import Fault, SpecError
from jobrun.core.origin import Origin
from jobrun.spec.builder import Builder, StopReadingError
from jobrun.spec.nodes import Node
from jobrun.spec.syntax import syntax_fault


class Document(NamedTuple):
    """A file as read.

    Attributes:
        root: The tree, without what the faults are about.
        faults: What is wrong with it; the tree is still fit to be checked further.
        warnings: What the user should know.
    """

    root: Node
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def read_document(text: str, file: str) -> Document:
    """Read one document.

    Args:
        text: The whole file.
        file: Its name, for places.

    Raises:
        SpecError: The text is not one YAML document; with all faults found until then.
    """
    builder = Builder(file, text)
    warnings: tuple[Fault, ...] = ()
    if not yaml.__with_libyaml__:
        message = "PyYAML was installed without libyaml; large specs load several times slower"
        mend = "install a PyYAML wheel, or libyaml before building it"
        warnings = (Fault("W100", message, mend, severity="warning"),)
    try:
        with collector_paused():
            for event in parser_events(text):
                builder.take(event)
    except yaml.YAMLError as error:
        raise SpecError(*builder.faults, syntax_fault(error, text, file)) from error
    except StopReadingError as stop:
        raise SpecError(*builder.faults) from stop
    if builder.root is None:
        where = Origin(file, 1, 1)
        raise SpecError.of("E009", "the file is empty", "a spec is a mapping", where=where)
    return Document(builder.root, tuple(builder.faults), warnings)


def parser_events(text: str) -> Iterator[events.Event]:
    """What the parser makes of a text, nothing resolved.

    Raises:
        yaml.YAMLError: It is not YAML.
    """
    parser = _parser(text)
    while True:
        event: events.Event = parser.get_event()  # type: ignore[assignment]  # None comes last
        yield event
        if isinstance(event, events.StreamEndEvent):
            return


def _parser(text: str) -> yaml.CBaseLoader | yaml.BaseLoader:
    """What makes events; of a loader we use nothing else."""
    return yaml.CBaseLoader(text) if yaml.__with_libyaml__ else yaml.BaseLoader(text)


@contextmanager
def collector_paused() -> Iterator[None]:
    """Building a tree frees nothing, and the collector would walk it over and over."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
