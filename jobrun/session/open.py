"""Create a session by its name: a built-in one, or one of an installed package."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jobrun.core.errors import EnvironmentFaultError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.session.base import Session

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUP = "jobrun.sessions"
# As text: a session's own imports are made only when it is used.
BUILT_IN: dict[str, str] = {
    "threads": "jobrun.session.threads.session:ThreadsSession",
    "processes": "jobrun.session.processes.session:ProcessesSession",
    "ray": "jobrun.session.ray.session:RaySession",
}
# Of those that have an address after their name; and what to install for each.
_ADDRESSED = {"ray": "jobrun[ray]"}


def session_names() -> tuple[str, ...]:
    """List the sorted names of all kinds of sessions that ``open_session`` can create."""
    return tuple(sorted({*BUILT_IN, *_entry_points().names}))


def open_session(name: str) -> Session:
    """Create a session of the named kind, to be started by its method ``open``.

    Args:
        name: Its name; with an address behind a colon where it has one: ``ray:auto``.

    Raises:
        UsageError: E217, there is no such kind.
        EnvironmentFaultError: E217, the package that has it cannot be imported.
    """
    kind, _, address = name.partition(":")
    if kind in _ADDRESSED:
        return _open_addressed(kind, address)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: Session = getattr(import_module(module), attribute)()
        return built_in
    found = tuple(_entry_points().select(name=name))
    if not found:
        raise UsageError.of(
            "E217", f"there is no session '{name}'", did_you_mean(name, session_names())
        )
    try:
        other: Session = found[0].load()()
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E217",
            f"the session '{name}' cannot be imported: {error}",
            "install the package it needs",
        ) from error
    return other


def _entry_points() -> EntryPoints:
    # It imports e-mail, archives and sockets, for sessions that hardly anyone has.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)


def _open_addressed(kind: str, address: str) -> Session:
    module, _, attribute = BUILT_IN[kind].partition(":")
    try:
        made: Session = getattr(import_module(module), attribute)(address)
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E217",
            f"the session '{kind}' needs a package that is not installed: {error}",
            f"pip install '{_ADDRESSED[kind]}'",
        ) from error
    return made
