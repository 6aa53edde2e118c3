"""Build the errors of callables that change arguments which are not in their steps' ``inout``."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from msgspec.structs import replace

from jobrun.core.errors import TaskFailedError
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Name
from jobrun.graph.steps import CallPython
from jobrun.runtime.callables import invocation
from jobrun.runtime.context.frame import display_name
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.container_flattening import flatten, is_tree
from jobrun.values.kinds.array import is_structured_scalar


class ChangeErrors:
    """Words what a ``call`` step refuses its callable.

    Args:
        step: The step.
    """

    def __init__(self, step: CallPython) -> None:
        self._target = step.target
        self._arguments = dict(step.arguments)
        self._writable = frozenset(step.writable)

    def changed(self, name: str, path: tuple[str, ...]) -> TaskFailedError:
        """Build error E246: the callable has changed an array or container, at a path in it."""
        position = "/".join((self.source_text(name), *path))
        return TaskFailedError.of(
            "E246",
            f"the callable '{self._target}' has changed its argument '{name}', at '{position}', "
            "and its step does not say so",
            self._mend(name),
        )

    def changed_object(self, name: str, value: Value) -> TaskFailedError:
        """Build error E247: the callable has changed an object."""
        blob = self._blob_of(name)
        add = "" if blob is None else f"add inout: [{display_name(blob)}] to the step"
        return TaskFailedError.of(
            "E247",
            f"the callable '{self._target}' has changed its argument '{name}', "
            f"{describe(value)}, and its step does not say so",
            add or self._mend(name),
        )

    def holds_part(self, name: str, blob: str) -> TaskFailedError:
        """Build error E258: an argument holds a part of another one that may be changed."""
        return TaskFailedError.of(
            "E258",
            f"the argument '{name}' of the callable '{self._target}', "
            f"'{self.source_text(name)}', holds a part of '{display_name(blob)}', "
            "which the same callable may change: it would get a copy of the part",
            f"give it '{display_name(blob)}' alone, and let it take the part out",
        )

    def explain(self, error: TaskFailedError, values: Mapping[str, Value]) -> TaskFailedError:
        """Explain why a ``call`` failed, and how to mend it if numpy refused a write."""
        if not isinstance(error.__cause__, ValueError) or "read-only" not in str(error.__cause__):
            return error
        readable = {name: values[name] for name in self._arguments if not self._may_change(name)}
        touched = _refused_arguments(error.__cause__, readable)
        if not touched:
            return error
        mend = " or ".join(self._mend(name).partition(";")[0] for name in touched)
        if any(self._blob_of(name) is not None for name in touched):
            mend += "; or change a copy, and return that"
        explained = TaskFailedError(replace(error.faults[0], mend=mend))
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        return explained

    def source_text(self, name: str) -> str:
        """Return the name or expression of a ``call`` step's argument, for an error message."""
        blob = self._blob_of(name)
        return render_expr(self._arguments[name]) if blob is None else display_name(blob)

    def _blob_of(self, name: str) -> str | None:
        source = self._arguments[name]
        return source.name if isinstance(source, Name) else None

    def _may_change(self, name: str) -> bool:
        return name in self._writable and self._blob_of(name) is not None

    def _mend(self, name: str) -> str:
        blob = self._blob_of(name)
        if blob is None:
            source = self.source_text(name)
            return (
                f"change a copy of '{source}'; or make it a blob of its own, and list it in 'inout'"
            )
        return f"add inout: [{display_name(blob)}] to the step; or change a copy, and return that"


def _refused_arguments(error: BaseException, values: Mapping[str, Value]) -> list[str]:
    """Guess which read-only arguments a running ``call`` step's callable tried to change."""
    arrays = {name: list(_arrays_in(value)) for name, value in values.items()}
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        if frame.f_code.co_filename == invocation.__file__:
            break
        locals_ = [array for local in frame.f_locals.values() for array in _arrays_in(local)]
        touched = [
            name
            for name, ours in arrays.items()
            if any(np.may_share_memory(array, other) for array in ours for other in locals_)
        ]
        if touched:
            return touched
    return [name for name, ours in arrays.items() if ours]


def _arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray) or is_structured_scalar(value):
        yield np.asarray(value)
    elif is_tree(value):
        try:
            leaves = flatten(value).leaves.values()
        except UnsavableError:
            return
        for leaf in leaves:
            if isinstance(leaf, np.ndarray) or is_structured_scalar(leaf):
                yield np.asarray(leaf)
