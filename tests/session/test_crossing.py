from __future__ import annotations

import enum
from dataclasses import is_dataclass
from typing import get_args, get_type_hints

import pytest

from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.core.errors import EnvironmentFaultError, Fault, TaskFailedError
from jobrun.core.events import Event
from jobrun.core.origin import Origin
from jobrun.graph.types import Node
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.midway import Midpoint
from jobrun.runtime.workspace import MissingBlobError
from jobrun.session.cancel import GroupCancelledError, TasksStuckError
from jobrun.session.codec import decode, encode
from jobrun.session.crossing import TABLE, ElsewhereError, error_of, form_of
from jobrun.session.share import Share


def crossed(error):
    message = encode(form_of(error), TABLE)
    return error_of(decode(message.head, TABLE, lambda _: None))


@pytest.mark.parametrize("kind", [TaskFailedError, EnvironmentFaultError, TasksStuckError])
def test_an_error_of_ours_keeps_its_class_faults_tasks_and_notes(kind):
    error = kind(Fault("E200", "broken", "mend it", Origin("a.yaml", 3, 4), "e/t/steps[0]"))
    error.tasks = ("t",)
    error.add_note("a line of the user's code")

    arrived = crossed(error)

    assert type(arrived) is kind
    assert (arrived.faults, arrived.tasks) == (error.faults, ("t",))
    assert arrived.__notes__ == ["a line of the user's code"]
    assert str(arrived) == str(error)


def test_the_traceback_comes_along_as_the_cause():
    def where_it_happened():
        raise TaskFailedError.of("E200", "broken")

    with pytest.raises(TaskFailedError) as caught:
        where_it_happened()

    cause = crossed(caught.value).__cause__
    assert isinstance(cause, ElsewhereError)
    assert "where_it_happened" in str(cause)


def _classes(hint, found):
    """All classes that a value of this type may hold."""
    if is_dataclass(hint) and hint not in found:
        found.add(hint)
        for one in get_type_hints(hint).values():
            _classes(one, found)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        found.add(hint)
    for one in get_args(hint):
        _classes(one, found)
    return found


@pytest.mark.parametrize("kind", [Share, Node, Event, Ticket, NodeSave, Midpoint, Fault])
def test_all_that_a_message_may_hold_is_listed(kind):
    assert _classes(kind, set()) - set(TABLE.classes) == set()


def test_cancels_and_missing_blobs_stay_what_they_are():
    assert type(crossed(GroupCancelledError("epoch"))) is GroupCancelledError
    assert type(crossed(CancelledError())) is CancelledError
    missing = crossed(MissingBlobError("w"))
    assert (type(missing), missing.name) == (MissingBlobError, "w")


def test_errors_of_python_stay_what_they_are_and_others_say_what_they_were():
    class OwnError(Exception):
        pass

    assert repr(crossed(KeyError("w"))) == "KeyError('w')"
    assert repr(crossed(OwnError("broken"))) == "RuntimeError('OwnError: broken')"
    unicode_error = UnicodeDecodeError("utf-8", b"a", 0, 1, "bad")
    assert type(crossed(unicode_error)) is RuntimeError
