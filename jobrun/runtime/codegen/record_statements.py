"""Generate the loop over a task's records around its steps: what it binds, sends, and frees.

::

    for number, (b0,) in records:
        the steps, with fields in variables
        if not put0(number, (b1,)): break
        del b1

What a record binds and sends lives in variables alone, where nothing else can see it. Between two
records no variable holds anything that the steps have bound: each record finds what a call of its
own would find.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

import numpy as np
from msgspec import Struct

from jobrun.runtime.codegen.expressions import call, item, load, store
from jobrun.runtime.codegen.line_table import StepLocation, locate
from jobrun.runtime.codegen.statements import StatementBuilder
from jobrun.runtime.context.frame import Blobs
from jobrun.values.blob_kinds import Value
from jobrun.values.copies import detach
from jobrun.values.kinds.builtin import PLAIN_KINDS

# The further arguments of the function that runs a task's steps for its records.
RECORDS, PUTS, SKIP = "records", "puts", "skip"
RECORD_ARGUMENTS = (RECORDS, PUTS, SKIP)
_NUMBER = "number"


class SentRecord(Struct, frozen=True):
    """The values that a task sends to one queue for each record.

    Attributes:
        names: The blobs, in the order of the values.
        moved: Those whose arrays are the receiver's afterwards, without a copy.
        location: Of the queue among what the task writes.
    """

    names: tuple[str, ...]
    moved: frozenset[str]
    location: StepLocation


class RecordAccess(Struct, frozen=True):
    """What the code of a task binds of each record that it reads, and what it sends.

    Attributes:
        fields: The blobs that a record binds, in the order of its values.
        sent: For each queue that the task writes to.
        location: Of what the task reads.
    """

    fields: tuple[str, ...]
    sent: tuple[SentRecord, ...]
    location: StepLocation

    @property
    def names(self) -> frozenset[str]:
        """Return the blobs that a generated record loop gets from records or sends."""
        return frozenset(self.fields).union(*(send.names for send in self.sent))


def build_skip(access: RecordAccess) -> list[ast.stmt]:
    """Generate the statement by which ``stop`` skips a record in a task's output queues."""
    return [ast.Expr(call(load(SKIP), load(_NUMBER)))] if access.sent else []


def build_record_loop(
    statements: StatementBuilder,
    access: RecordAccess,
    locations: list[StepLocation],
    body: list[ast.stmt],
    passing: Collection[str],
) -> list[ast.stmt]:
    """Generate the loop over a task's records.

    Args:
        statements: What knows the variables.
        access: What the records bind and send.
        locations: Those of the code; the ends of the loop are added.
        body: The statements for one record.
        passing: Names that live in variables alone, from their binding until they are sent.
    """
    puts = [f"put{number}" for number in range(len(access.sent))]
    sends = [
        _send(statements, send, put, passing) for send, put in zip(access.sent, puts, strict=True)
    ]
    for statement, send in zip(sends, access.sent, strict=True):
        locations.append(send.location)
        locate([statement], send.location.origin, len(locations) - 1)
    fields = ast.Tuple([_field(statements, name) for name in access.fields], ast.Store())
    head = ast.Tuple([store(_NUMBER), fields], ast.Store())
    sent_names = sorted({name for send in access.sent for name in send.names if name in passing})
    after = [ast.Delete([ast.Name(statements.private[name], ast.Del()) for name in sent_names])]
    loop = ast.For(
        head,
        load(RECORDS),
        [*body, *_leave_unless(sends), *(after if sent_names else [])],
        [],
        None,
    )
    locations.append(access.location)
    locate([loop], access.location.origin, len(locations) - 1)
    taken = ast.Assign([ast.Tuple([store(put) for put in puts], ast.Store())], load(PUTS))
    return [taken, loop] if puts else [loop]


def unbind(variables: Iterable[str]) -> list[ast.stmt]:
    """Generate statements that delete a record's Python variables, set or not."""
    names = list(variables)
    if not names:
        return []
    targets: list[ast.expr] = [store(name) for name in names]
    deleted: list[ast.expr] = [ast.Name(name, ast.Del()) for name in names]
    return [ast.Assign(targets, ast.Constant(None)), ast.Delete(deleted)]


def _field(statements: StatementBuilder, name: str) -> ast.expr:
    variable = statements.private.get(name)
    if variable is not None:
        return store(variable)
    return item(statements.workspace(name), ast.Constant(name), ast.Store())


def _send(
    statements: StatementBuilder, sent: SentRecord, put: str, passing: Collection[str]
) -> ast.expr:
    values = [
        _passed(statements, name, is_moved=name in sent.moved)
        if name in passing
        else _taken(statements, name, is_moved=name in sent.moved)
        for name in sent.names
    ]
    return call(load(put), load(_NUMBER), ast.Tuple(values, ast.Load()))


def _passed(statements: StatementBuilder, name: str, *, is_moved: bool) -> ast.expr:
    """Generate code for a variable's value in a record that is sent: a copy if it is shared."""
    variable, names = statements.private[name], statements.globals
    kind = names.call(type, load(variable))
    is_plain: ast.expr = ast.Compare(kind, [ast.In()], [names.bind(PLAIN_KINDS, "plain")])
    copied = names.call(detach, load(variable), ast.Constant(name))
    if is_moved:
        base = ast.Attribute(load(variable), "base", ast.Load())
        is_own: list[ast.expr] = [
            names.is_exactly(load(variable), np.ndarray),
            ast.Compare(base, [ast.Is()], [ast.Constant(None)]),
        ]
        copied = ast.IfExp(is_plain, load(variable), copied)
        is_plain = ast.BoolOp(ast.And(), is_own)
    return ast.IfExp(is_plain, load(variable), copied)


def _taken(statements: StatementBuilder, name: str, *, is_moved: bool) -> ast.expr:
    """Generate code that moves a blob's array into a record to send, or copies its value."""
    workspace, key = statements.workspace(name), ast.Constant(name)
    if is_moved:
        return statements.globals.call(take_moved, workspace, key)
    return statements.globals.call(detach, item(workspace, key, ast.Load()), key)


def take_moved(blobs: Blobs, name: str) -> Value:
    """Move an array out of its blob into a record to send; return a copy of any other value.

    Raises:
        MissingBlobError: There is none of that name.
        TaskFailedError: E202 or E240, if no record can hold it.
    """
    value = blobs[name]
    if type(value) is np.ndarray and value.base is None:
        # Deleted at once, so that even after an error no two tasks share the array.
        del blobs[name]
        return value
    return detach(value, name)


def _leave_unless(sends: list[ast.expr]) -> list[ast.stmt]:
    """Generate statements that send a record, and end the record loop if no queue has readers."""
    if not sends:
        return []
    # ``|`` does not short-circuit: the record is sent to all queues, even if one has no readers.
    is_wanted = sends[0]
    for send in sends[1:]:
        is_wanted = ast.BinOp(is_wanted, ast.BitOr(), send)
    return [ast.If(ast.UnaryOp(ast.Not(), is_wanted), [ast.Break()], [])]
