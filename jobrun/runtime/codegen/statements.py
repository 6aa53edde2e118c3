"""Generate the Python statements of operators (assignments), and decide where values are copied.

While the code runs, its variables count; at its ends, and around each function that it calls
for a step of another kind, the workspaces do: further statements move blobs between both.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import assert_never, cast

import numpy as np

from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import (
    Binary,
    BinaryOperator,
    Const,
    Expr,
    Name,
    NodeBlob,
    OutputRead,
    Sequence,
)
from jobrun.graph.steps import Assign, Augment, Delete, ItemTarget, NameTarget, Op, Perform
from jobrun.graph.traversal import walk_expr
from jobrun.runtime.codegen import coercion
from jobrun.runtime.codegen.alias_analysis import (
    aliased_leaves,
    is_fresh,
    is_plain_view,
    may_join_lists,
)
from jobrun.runtime.codegen.copy_elision import (
    NO_MOVE_PLAN,
    NO_VIEWS,
    MovePlan,
    Site,
    Views,
    is_never_changed,
    part_of_array,
)
from jobrun.runtime.codegen.expressions import (
    BINARY,
    ExpressionBuilder,
    Globals,
    assign,
    call,
    item,
    load,
    output_ref,
    store,
)
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.frame import LEVELS

_CHANGES: dict[str, Callable[..., object]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "/": operator.itruediv,
    "//": operator.ifloordiv, "@": operator.imatmul, "&": operator.iand, "|": operator.ior,
    "^": operator.ixor, ">>": operator.irshift, **coercion.IN_PLACE,
}  # fmt: skip
# Whether the body failed: readable in exits, and in reports.
FLAG = "failed"


class StatementBuilder:
    """Builds the statements of one generated function from operators.

    Names in ``private`` are variables of that function. All others are read from their
    workspace once per statement, before it, and stored at the end of the statement that
    binds them.

    Args:
        names: What is known of the block's names.
        private: Names kept in variables.
        moves: Assignments that hand a value on without a copy.
        views: Assignments that bind a view instead of a copy.
        handed: Names that functions outside of the code see too.
        in_exit: Whether ``failed`` means the flag, as in exits and reports.
    """

    def __init__(
        self,
        names: BlockNames,
        private: Iterable[str],
        move_plan: MovePlan = NO_MOVE_PLAN,
        views: Views = NO_VIEWS,
        *,
        handed: Collection[str] = (),
        in_exit: bool = False,
    ) -> None:
        self._names = names
        self._moves = move_plan
        self._views = views
        self._in_exit = in_exit
        self.globals = Globals()
        self.expressions = ExpressionBuilder(self.globals, self._read)
        # Variables are numbered: a blob's name may be a Python keyword.
        self.private = {name: f"b{number}" for number, name in enumerate(sorted(private))}
        # Names that no function outside of the code sees.
        self.shareable = self.private.keys() - set(handed)
        self.levels: set[str] = set()
        # Maps the ``id`` of an assignment to the variable with its blob's previous value.
        self.spares: dict[int, str] = {}
        self._prelude: list[ast.stmt] = []
        self._loaded: dict[Expr, str] = {}
        self._temporaries = 0
        # Variables that hold a value of a workspace beyond the statement that has read it.
        self.scratch: set[str] = set()
        # Whether operands may have any type, so that they are checked before an operator.
        self.checked = True
        # Names that the current outermost loop binds; None outside of loops. Other names are
        # constant in the loop: ``viewable`` maps those checked before the loop to the flag that
        # says that their slices need no check.
        self.rebound: Collection[str] | None = None
        self.viewable: dict[str, str] = {}

    def of(self, op: Op) -> list[ast.stmt]:
        """Generate the Python statements of one operator: an assignment or a deletion."""
        body = self._of(op)
        ended = [self.private[name] for name in self._moves.last_used.get(id(op), ())]
        return [*body, _build_deletion(ended)] if ended else body

    def _of(self, op: Op) -> list[ast.stmt]:
        match op:
            case Assign():
                return self._with_temporaries(lambda: self._assign(op))
            case Augment():
                return self._with_temporaries(lambda: self._augment(op))
            case Perform():
                return self._with_temporaries(lambda: [ast.Expr(self.expressions.of(op.value))])
            case Delete():
                return [self._delete(name) for name in op.names]
            case _:
                assert_never(op)

    def statement(self, make: Callable[[], list[ast.stmt]]) -> list[ast.stmt]:
        """Generate an assignment's statements, after those that read the blobs it needs."""
        self._prelude, self._loaded = [], {}
        body = make()
        return self._prelude + body

    def _with_temporaries(self, make: Callable[[], list[ast.stmt]]) -> list[ast.stmt]:
        """Generate an assignment's Python statements, with variables that hold temporary arrays."""
        self.expressions.held, self.expressions.choices = [], []
        body = self.statement(make)
        self.expressions.held = None
        return body

    def level(self, name: str) -> str:
        """Return the variable by which generated statements access the dict in which a blob is."""
        level = LEVELS[self._names.scope(name)]
        self.levels.add(level)
        return level

    def workspace(self, name: str) -> ast.expr:
        """Generate the expression of the dict of blobs that an assignment statement writes to."""
        return load(self.level(name))

    def bind(self, name: str, value: ast.expr) -> ast.stmt:
        """Generate the assignment statement that gives a blob its value."""
        variable = self.private.get(name)
        if variable is not None:
            return assign(variable, value)
        return ast.Assign([item(self.workspace(name), ast.Constant(name), ast.Store())], value)

    def _read(self, leaf: Expr) -> ast.expr:
        if isinstance(leaf, Name):
            if self._in_exit and leaf.name == FLAG:
                return load("f.failed")
            if leaf.name in self.private:
                return load(self.private[leaf.name])
        variable = self._loaded.get(leaf)
        if variable is None:
            source = self._source(leaf)
            variable = self._loaded[leaf] = self._temporary(source)
        return load(variable)

    def _source(self, leaf: Expr) -> ast.expr:
        if isinstance(leaf, Name):
            return item(self.workspace(leaf.name), ast.Constant(leaf.name), ast.Load())
        if isinstance(leaf, OutputRead):
            return call(load("f.output"), self.globals.bind(output_ref(leaf), "ref"))
        if isinstance(leaf, NodeBlob):
            return call(load("f.node_blob"), self.globals.bind(leaf, "blob"))
        raise TypeError(f"{type(leaf).__name__} is not a leaf")

    def _temporary(self, value: ast.expr) -> str:
        self._temporaries += 1
        variable = f"s{self._temporaries}"
        self.scratch.add(variable)
        self._prelude.append(assign(variable, value))
        return variable

    def _own(self, value: ast.expr, expr: Expr, target: str, site: Site) -> ast.expr:
        """Wrap the value of an assignment statement in a copy, so the blob owns its memory."""
        if is_fresh(expr):
            joins = self.checked and may_join_lists(expr)
            return self.globals.call(coercion.as_operand, value) if joins else value
        if is_never_changed(expr, target, self._names, self.shareable, self._moves):
            return (
                value if is_plain_view(expr) else self.globals.call(coercion.as_blob_value, value)
            )
        return self._copied(value, expr, site)

    def _copied(self, value: ast.expr, expr: Expr, site: Site) -> ast.expr:
        """Generate the call by which an assignment copies its value, or keeps a view of it."""
        sources = self._sources(expr)
        gaps = self._views.gaps.get(site)
        if gaps is None:
            return self.globals.call(coercion.as_own_value, value, *sources)
        keep = coercion.as_view if gaps else coercion.as_dense_view
        copied = self.globals.call(keep, value, *sources)
        if gaps and self._is_steady(name := part_of_array(expr)):
            number = len(self.viewable)
            flag = self.viewable.setdefault(self.private[name], f"w{number}")
            return ast.IfExp(load(flag), value, copied)
        return copied

    def _is_steady(self, name: str) -> bool:
        """Return whether no statement of the enclosing loop binds a name: it keeps its value."""
        return self.rebound is not None and name in self.shareable and name not in self.rebound

    def look_ahead(self) -> list[ast.stmt]:
        """Generate statements before a loop that test which arrays need no copy when sliced."""
        body: list[ast.stmt] = []
        for variable, flag in self.viewable.items():
            look = assign(flag, self.globals.call(coercion.is_viewable, load(variable)))
            # A blob without a value is refused by the step that reads it.
            body.append(self.globals.if_unbound([look], [assign(flag, ast.Constant(False))]))
        return body

    def _sources(self, expr: Expr) -> list[ast.expr]:
        # dict: each source once, in order.
        return [self._read(leaf) for leaf in dict.fromkeys(aliased_leaves(expr))]

    def _assign(self, op: Assign) -> list[ast.stmt]:
        value = op.value
        if len(op.targets) > 1:
            return self._unpack(op)
        target = op.targets[0]
        if isinstance(target, ItemTarget):
            return [self._put(target, self.expressions.of(value), value)]
        spare = self.spares.get(id(op), "")
        if target.name in self.private:
            built = self.expressions.value_of(target.name, value, spare)
        else:
            built = self.expressions.of(value)
        if isinstance(built, ast.IfExp) and built in self.expressions.choices:
            # A result computed from a float64 array needs no check.
            built.orelse = self._checked(op, target.name, built.orelse)
            bound = [self.bind(target.name, built)]
        else:
            bound = self._bind_checked(op, target.name, built)
        return [*bound, assign(spare, ast.Constant(None))] if spare else bound

    def _bind_checked(self, op: Assign, target: str, plain: ast.expr) -> list[ast.stmt]:
        """Generate statements that check a value and assign it to a blob.

        A float or array needs no check.
        """
        built = self._checked(op, target, plain)
        if not isinstance(built, ast.Call) or built is plain or not is_fresh(op.value):
            return [self.bind(target, built)]
        checked = self._checked(op, target, load("u0"))
        chosen = ast.IfExp(self._is_float_or_array("u0"), load("u0"), checked)
        return [assign("u0", plain), self.bind(target, chosen), _build_deletion(["u0"])]

    def _checked(self, op: Assign, target: str, plain: ast.expr) -> ast.expr:
        """Generate calls around an assignment's value that refuse huge integers and copy arrays."""
        value, checked = op.value, plain
        if self.checked and _multiplies(value):
            checked = self.globals.call(coercion.require_bounded, checked)
        if id(op) not in self._moves.ops:
            checked = self._own(checked, value, target, (id(op), 0))
        if checked is plain or not isinstance(plain, ast.BinOp) or not is_fresh(value):
            return checked
        lhs, rhs = plain.left, plain.right
        if not (isinstance(lhs, ast.Name) and isinstance(rhs, ast.Name | ast.Constant)):
            return checked
        again = ast.BinOp(load(lhs.id), plain.op, rhs)
        return ast.IfExp(self._is_float_or_array(lhs.id), again, checked)

    def _unpack(self, op: Assign) -> list[ast.stmt]:
        """Generate the statements of an unpacking assignment: evaluate all, then bind."""
        variables = [f"u{number}" for number in range(len(op.targets))]
        parts = op.value.items if isinstance(op.value, Sequence) else ()
        if len(parts) == len(op.targets):
            pairs = zip(variables, parts, strict=True)
            body = [assign(variable, self._part(part)) for variable, part in pairs]
        else:
            target_tuple = ast.Tuple([store(variable) for variable in variables], ast.Store())
            body = [ast.Assign([target_tuple], self.expressions.of(op.value))]
        if id(op) not in self._moves.ops:
            body += self._own_each(op, variables, parts)
        for target, variable in zip(op.targets, variables, strict=True):
            if isinstance(target, NameTarget):
                body.append(self.bind(target.name, load(variable)))
            else:
                body.append(self._put(target, load(variable), op.value))
        return [*body, _build_deletion(variables)]

    def _part(self, part: Expr) -> ast.expr:
        built = self.expressions.of(part)
        return self.globals.call(coercion.require_bounded, built) if _multiplies(part) else built

    def _own_each(
        self, op: Assign, variables: list[str], parts: tuple[Expr, ...]
    ) -> Iterator[ast.stmt]:
        for number, (target, variable) in enumerate(zip(op.targets, variables, strict=True)):
            if not isinstance(target, NameTarget):
                continue
            if len(parts) == len(variables):
                owned = self._own(load(variable), parts[number], target.name, (id(op), number))
            else:
                # A part of any value may be a view of memory that the value shares.
                owned = self._copied(load(variable), op.value, (id(op), number))
            if not isinstance(owned, ast.Name):
                yield assign(variable, owned)

    def _put(self, target: ItemTarget, value: ast.expr, expr: Expr) -> ast.stmt:
        """Generate the statement ``blob[index] = value``, which copies the value to a container."""
        item_of_blob = self._item(target)
        if not is_fresh(expr) or may_join_lists(expr):
            is_slice = isinstance(item_of_blob.slice, ast.Slice)
            helper = coercion.as_items_of if is_slice else coercion.as_item_of
            value = self.globals.call(helper, item_of_blob.value, value)
        return ast.Assign([item_of_blob], value)

    def _item(self, target: ItemTarget) -> ast.Subscript:
        blob = self._read(Name(target.name))
        return item(blob, self.expressions.of(target.index), ast.Store())

    def _augment(self, op: Augment) -> list[ast.stmt]:
        value = self.expressions.of(op.value)
        if isinstance(op.target, ItemTarget):
            return [self._change_item(op.target, op, value)]
        name = op.target.name
        if name in self.private:
            return self._change(self.private[name], op, value)
        # An array is changed in place and not stored again: that could undo another task's
        # assignment to the name in between.
        old = self._read(Name(name))
        changed = self.bind(name, load("u0"))
        self.scratch.add("u0")
        return [
            assign("u0", old),
            *self._change("u0", op, value),
            ast.If(ast.Compare(load("u0"), [ast.IsNot()], [old]), [changed], []),
        ]

    def _change_item(self, target: ItemTarget, op: Augment, value: ast.expr) -> ast.stmt:
        """Generate the statement ``blob[index] op= value``, or a call if the blob is no array."""
        at = self._item(target)
        is_array = self.globals.is_exactly(at.value, np.ndarray)
        # A slice cannot be passed as an argument, and containers other than arrays accept none.
        index = ast.Constant(None) if _has_slice(at.slice) else at.slice
        change = self.globals.bind(_CHANGES[op.operator], "change")
        return ast.If(
            is_array,
            [ast.AugAssign(at, _kind(op), value)],
            [ast.Expr(self.globals.call(coercion.update_item, at.value, index, change, value))],
        )

    def _change(self, variable: str, op: Augment, value: ast.expr) -> list[ast.stmt]:
        bounded = coercion.IN_PLACE.get(op.operator)
        if bounded is not None:
            return [assign(variable, self.globals.call(bounded, load(variable), value))]
        quick: list[ast.stmt] = [ast.AugAssign(store(variable), _kind(op), value)]
        if not self.checked:
            return quick
        changed = Binary(Name(variable), _sign(op), op.value)
        if _multiplies(op.value):
            is_plain = self._is_float_or_array("u1")
            checked = self.globals.call(coercion.require_bounded, load("u1"))
            chosen = ast.IfExp(is_plain, load("u1"), checked)
            quick = [
                assign("u1", value),
                ast.AugAssign(store(variable), _kind(op), chosen),
                _build_deletion(["u1"]),
            ]
            value = self.globals.call(coercion.require_bounded, value)
        body: list[ast.stmt] = [ast.AugAssign(store(variable), _kind(op), value)]
        if may_join_lists(changed):
            # ``+=`` would put items of another blob into a list. A tuple is replaced, not changed.
            old = ast.Expr(self.globals.call(coercion.as_operand, load(variable)))
            body = [
                old,
                *body,
                assign(variable, self.globals.call(coercion.as_operand, load(variable))),
            ]
        if _multiplies(changed):
            body.append(ast.Expr(self.globals.call(coercion.require_bounded, load(variable))))
        if len(body) > 1:
            return [ast.If(self._is_float_or_array(variable), quick, body)]
        return quick

    def _is_float_or_array(self, variable: str) -> ast.expr:
        """Generate a statement's test for a float or array, which need no check.

        Then a sum or product with it is no list, tuple or int, and there is nothing to check: a
        check takes longer than a small operator itself.
        """
        is_exactly = self.globals.is_exactly
        tests = [is_exactly(load(variable), kind) for kind in (float, np.ndarray)]
        return ast.BoolOp(ast.Or(), tests)

    def _delete(self, name: str) -> ast.stmt:
        variable = self.private.get(name)
        if variable is not None:
            return _build_deletion([variable])
        drop = ast.Attribute(self.workspace(name), "drop", ast.Load())
        return ast.Expr(call(drop, ast.Constant(name)))


def load_variables(
    statements: StatementBuilder, names: Collection[str], *, again: bool = False
) -> list[ast.stmt]:
    """Generate statements that read blobs into local variables; a missing blob's variable is unset.

    Args:
        statements: What knows the variables.
        names: Blobs with variables.
        again: The variables may hold something.
    """
    body: list[ast.stmt] = []
    for name in sorted(names):
        workspace, key = statements.workspace(name), ast.Constant(name)
        variable = statements.private[name]
        is_there = ast.Compare(key, [ast.In()], [workspace])
        get = assign(variable, item(workspace, key, ast.Load()))
        # Bind the variable first: ``del`` fails for an unbound one.
        lose: list[ast.stmt] = [
            assign(variable, ast.Constant(None)),
            ast.Delete([ast.Name(variable, ast.Del())]),
        ]
        body.append(ast.If(is_there, [get], lose if again else []))
    return body


def lose_refused(statements: StatementBuilder, names: Collection[str]) -> list[ast.stmt]:
    """Generate statements that unset the local variables of blobs that a call has made unreadable.

    Args:
        statements: What knows the variables.
        names: Blobs with variables that the call does not bind.
    """
    body: list[ast.stmt] = []
    for name in sorted(names):
        workspace, variable = statements.workspace(name), statements.private[name]
        is_refused = ast.Attribute(workspace, "is_refused", ast.Load())
        test = call(is_refused, ast.Constant(name), load(variable))
        lose = ast.If(test, [ast.Delete([ast.Name(variable, ast.Del())])], [])
        body.append(statements.globals.if_unbound([lose], [ast.Pass()]))
    return [ast.If(load("f.run.snapshots.kept_references"), body, [])] if body else []


def release_workspaces(statements: StatementBuilder, names: Collection[str]) -> list[ast.stmt]:
    """Generate statements that delete blobs from their dicts; Python variables hold them now.

    So what a name held before is free when it gets its next value, and not when the code ends.
    """
    levels: dict[str, list[str]] = {}
    for name in sorted(names):
        levels.setdefault(statements.level(name), []).append(name)
    takes: list[ast.stmt] = [
        ast.Expr(call(load("f.take"), load(level), *map(ast.Constant, names_of_level)))
        for level, names_of_level in levels.items()
    ]
    # If other tasks may read the blobs, they must stay in the workspace.
    return [ast.If(load("f.run.is_alone"), takes, [])] if takes else []


def take_spares(statements: StatementBuilder, spares: Mapping[str, str]) -> list[ast.stmt]:
    """Generate statements that move blobs not needed any more into variables, to reuse memory."""
    return [
        assign(variable, call(load("f.spare"), statements.workspace(name), ast.Constant(name)))
        for name, variable in spares.items()
    ]


def put_spares_back(statements: StatementBuilder, spares: Mapping[str, str]) -> list[ast.stmt]:
    """Generate statements that store unused spare blobs back from variables into their dicts."""
    return [
        ast.If(
            ast.Compare(load(variable), [ast.IsNot()], [ast.Constant(None)]),
            [
                ast.Assign(
                    [item(statements.workspace(name), ast.Constant(name), ast.Store())],
                    load(variable),
                )
            ],
            [],
        )
        for name, variable in spares.items()
    ]


def store_variables(
    statements: StatementBuilder,
    names: Collection[str],
    deleted: Collection[str],
    *,
    unbinds: bool = False,
) -> list[ast.stmt]:
    """Generate statements that write local variables to blobs; an unset variable's blob is deleted.

    Args:
        statements: What knows the variables.
        names: Blobs with variables.
        deleted: Those that the code may have deleted.
        unbinds: The variables are unbound then.
    """
    back: list[ast.stmt] = []
    for name in sorted(names):
        workspace, key = statements.workspace(name), ast.Constant(name)
        variable = statements.private[name]
        put = ast.Assign([item(workspace, key, ast.Store())], load(variable))
        let_go: list[ast.stmt] = [ast.Delete([ast.Name(variable, ast.Del())])] if unbinds else []
        pop = ast.Attribute(workspace, "pop", ast.Load())
        drop = ast.Expr(call(pop, key, ast.Constant(None)))
        gone: list[ast.stmt] = [drop] if name in deleted else [ast.Pass()]
        back.append(statements.globals.if_unbound([put, *let_go], gone))
    return back


def own_views(
    statements: StatementBuilder, at_end: Mapping[str, Collection[str]]
) -> list[ast.stmt]:
    """Generate the statements at a block's end that copy each blob which is still a view.

    Args:
        statements: What knows the variables.
        at_end: The names, each with those that may hold the same array.
    """

    def workspace_and_name(name: str) -> list[ast.expr]:
        return [statements.workspace(name), ast.Constant(name)]

    body: list[ast.stmt] = []
    for name, others in at_end.items():
        pairs = [ast.Tuple(workspace_and_name(other), ast.Load()) for other in others]
        own = statements.globals.call(coercion.own_at_end, *workspace_and_name(name), *pairs)
        body.append(ast.Expr(own))
    return body


def _has_slice(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.Slice) for part in parts)


def _multiplies(expr: Expr) -> bool:
    """Return whether a net's statement has ``*`` or ``**``, which may make huge integers."""
    return any(
        isinstance(part, Binary)
        and (
            part.operator == "**"
            or (part.operator == "*" and not {type(part.left), type(part.right)} & {Const})
        )
        for part in walk_expr(expr)
    )


def _build_deletion(variables: list[str]) -> ast.stmt:
    """Generate a ``del`` statement for variables, which frees their memory."""
    return ast.Delete([ast.Name(variable, ast.Del()) for variable in variables])


def _sign(op: Augment) -> BinaryOperator:
    _kind(op)
    return cast("BinaryOperator", op.operator)


def _kind(op: Augment) -> ast.operator:
    kind = BINARY.get(op.operator)
    if kind is None:
        raise ValueError(f"'{op.operator}=': {did_you_mean(op.operator, BINARY)}")
    return kind()
