from __future__ import annotations

import enum
from typing import get_args

import msgspec
import pytest
from msgspec import Struct

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import EnvironmentFaultError, Fault, Origin, TaskFailedError
from jobrun.core.events import Event
from jobrun.graph.effects import DECLARED, DeclaredEffect, Log, Sleep
from jobrun.graph.expressions import Text
from jobrun.graph.types import Node
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import MissingBlobError
from jobrun.runtime.context.safe_point import SafePoint
from jobrun.session.base import GroupCancelledError, TasksStuckError
from jobrun.session.wire.codec import (
    WIRE_TYPES,
    RemoteTracebackError,
    decode,
    deserialize_error,
    encode,
    serialize_error,
)
from jobrun.session.wire.partition_group import Partition


def crossed(error):
    message = encode(serialize_error(error), WIRE_TYPES)
    return deserialize_error(decode(message.head, WIRE_TYPES, lambda _: None))


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
    assert isinstance(cause, RemoteTracebackError)
    assert "where_it_happened" in str(cause)


def _classes(hint, classes):
    """All classes that a value of this type may hold."""
    if hint is DeclaredEffect:
        for part in DECLARED.values():
            _classes(part, classes)
        return classes
    if isinstance(hint, type) and issubclass(hint, Struct) and hint not in classes:
        classes.add(hint)
        for field in msgspec.structs.fields(hint):
            _classes(field.type, classes)
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        classes.add(hint)
    for part in get_args(hint):
        _classes(part, classes)
    return classes


@pytest.mark.parametrize("kind", [Partition, Node, Event, Ticket, NodeSave, SafePoint, Fault])
def test_all_that_a_message_may_hold_is_listed(kind):
    assert _classes(kind, set()) - set(WIRE_TYPES.classes) == set()


def test_cancels_and_missing_blobs_stay_what_they_are():
    assert type(crossed(GroupCancelledError("epoch"))) is GroupCancelledError
    assert type(crossed(CancelledError())) is CancelledError
    missing = crossed(MissingBlobError("w"))
    assert (type(missing), missing.name) == (MissingBlobError, "w")


def test_python_errors_keep_their_class_and_others_name_theirs():
    class OwnError(Exception):
        pass

    assert repr(crossed(KeyError("w"))) == "KeyError('w')"
    assert repr(crossed(OwnError("broken"))) == "RuntimeError('OwnError: broken')"
    unicode_error = UnicodeDecodeError("utf-8", b"a", 0, 1, "bad")
    assert type(crossed(unicode_error)) is RuntimeError


@pytest.mark.parametrize("step", [Log(Text(("a",)), path="e/t/log"), Sleep(0.5, path="e/t[0]")])
def test_declared_step_round_trips(step):
    message = encode(step, WIRE_TYPES)

    assert decode(message.head, WIRE_TYPES, lambda _: None) == step
