"""Refuse memory that two blobs have in common after a call, where that could be seen later.

The compiler lists the pairs of which a later step changes one in place and uses the other
(``jobrun.compile.analysis``). Only these are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.frame import display_name
from jobrun.runtime.snapshots.kept_references import count_others
from jobrun.values.blob_kinds import Value, is_object
from jobrun.values.change_detection import Loan, ObjectLoan
from jobrun.values.kinds.builtin import SCALARS
from jobrun.values.shared_parts import find_common_part, render_place


class SharedMemoryCheck:
    """Checks the arguments and results of a ``call`` step for memory that two blobs share.

    Args:
        target: The callable, for messages.
        pairs: Blobs that must not share memory.
        outputs: The blobs that the step binds.
        sources: Of arguments that are blobs, these.
        expressions: Of arguments that are expressions, the blobs in these.
    """

    def __init__(
        self,
        target: str,
        pairs: tuple[tuple[str, str], ...],
        outputs: tuple[str, ...],
        sources: Mapping[str, str],
        expressions: Mapping[str, frozenset[str]],
    ) -> None:
        self._target = target
        self._pairs = pairs
        self._outputs = outputs
        self._sources = sources
        self._expressions = expressions

    def require_apart(
        self,
        values: Mapping[str, Value],
        loans: Mapping[str, Loan | ObjectLoan],
        results: list[Any],
        held: set[str],
        workspace_of: Callable[[str], Mapping[str, Value]],
    ) -> None:
        """Refuse a ``call`` whose arguments and results let two blobs share memory.

        Args:
            values: The arguments.
            loans: Of them, by name.
            results: One for each output.
            held: Arguments that something refers to that did not before the call.
            workspace_of: Returns the workspace of a blob.

        Raises:
            TaskFailedError: E258; E259 of an object.
        """
        # A result that only we refer to is shared by nothing.
        fresh = {
            blob
            for at, blob in enumerate(self._outputs)
            if type(results[at]) in SCALARS
            or (count_others(results, at) == 0 and _owns_memory(results[at]))
        }
        returned = dict(zip(self._outputs, results, strict=True))
        for pair in self._pairs:
            if fresh.isdisjoint(pair):
                sides = [
                    [returned[blob]]
                    if blob in returned
                    else self._shareable(blob, values, loans, held, workspace_of(blob))
                    for blob in pair
                ]
                for first, second in product(*sides):
                    self._require_pair_apart(pair, (first, second))

    def _shareable(
        self,
        blob: str,
        values: Mapping[str, Value],
        loans: Mapping[str, Loan | ObjectLoan],
        held: set[str],
        workspace: Mapping[str, Value],
    ) -> list[Value]:
        """Return the arguments by which a blob may share memory with another one after a call."""
        # One blob may be given as several arguments, and in expressions that make views of it.
        shareable = [
            values[name]
            for name, source in self._sources.items()
            if source == blob and (name in held or type(values[name]) is not np.ndarray)
        ]
        used_in = [name for name, blobs in self._expressions.items() if blob in blobs]
        if (used_in or blob not in self._sources.values()) and blob in workspace:
            shareable.append(workspace[blob])
            for name in used_in:
                loan = loans.get(name)
                shareable += loan.stand_ins(workspace[blob]) if isinstance(loan, Loan) else ()
        return shareable

    def _require_pair_apart(self, pair: tuple[str, str], values: tuple[Value, Value]) -> None:
        common = find_common_part(*values)
        if common is None:
            return
        positions = [
            render_place((display_name(blob), *path))
            if is_object(value)
            else f"'{'/'.join((display_name(blob), *path))}'"
            for blob, path, value in zip(pair, common, values, strict=True)
        ]
        message = (
            f"the callable '{self._target}' gives {positions[0]} and {positions[1]} the same "
            "memory, and a later step changes one in place and uses the other: the other would "
            "not change with it, since blobs are values"
        )
        mend = "copy one of them in the callable: return array.copy(), copy.deepcopy(value)"
        with_object = any(map(is_object, values))
        raise TaskFailedError.of("E259" if with_object else "E258", message, mend)


def _owns_memory(value: Any) -> bool:
    return type(value) is np.ndarray and bool(value.flags.owndata)
