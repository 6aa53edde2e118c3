"""List the classes that messages between processes may contain."""

from __future__ import annotations

import enum
from dataclasses import is_dataclass
from types import ModuleType

from jobrun.checkpoint import checkpoint_times, save_load_groups, store
from jobrun.checkpoint.stores import object_references as elsewhere
from jobrun.core import errors, events, origin
from jobrun.core import object_url as objecturl
from jobrun.core import resource_usage as usage
from jobrun.graph import checkpoint_policy, conditions, readers, steps, types
from jobrun.graph import expressions as expr
from jobrun.graph import state_division as divided
from jobrun.graph.effects.table import DECLARED
from jobrun.runtime.codegen import step_times
from jobrun.runtime.frame import safe_point
from jobrun.session.wire import file_messages as nodefiles
from jobrun.session.wire import partition
from jobrun.session.wire.codec import TypeTable
from jobrun.session.wire.serialized_errors import SerializedError
from jobrun.values import objects

_MODULES = (
    checkpoint_policy, checkpoint_times, conditions, readers, divided, elsewhere, errors, events,
    expr, nodefiles, objects, objecturl, origin, partition, safe_point, save_load_groups,
    step_times, steps, store, types, usage,
)  # fmt: skip


def _list_wire_classes(module: ModuleType) -> list[type]:
    return [
        one
        for one in vars(module).values()
        if isinstance(one, type)
        and one.__module__ == module.__name__
        and (is_dataclass(one) or issubclass(one, enum.Enum) or hasattr(one, "_fields"))
    ]


WIRE_TYPES = TypeTable(
    {
        SerializedError,
        *DECLARED,
        *(cls for module in _MODULES for cls in _list_wire_classes(module)),
    }
)
