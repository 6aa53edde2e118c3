"""Operators as Python statements. Decides where values are copied; makes no code itself."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import assert_never

from jobrun.core.names import did_you_mean
from jobrun.graph.expr import Expr, Name, NodeBlob, OutputRead, Sequence
from jobrun.graph.steps import Assign, Augment, Delete, ItemTarget, NameTarget, Op, Perform
from jobrun.graph.types import Scope
from jobrun.runtime import landing
from jobrun.runtime.alias import is_fresh, is_plain_view, leaves
from jobrun.runtime.moves import NO_MOVES, Moves
from jobrun.runtime.syntax import (
    BINARY,
    Expressions,
    Globals,
    assign,
    call,
    item,
    load,
    output_ref,
    store,
)
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import LEVELS


class Statements:
    """Turns operators into statements of one generated function.

    Names in ``private`` are variables of that function. All others are read from their
    workspace once per statement, before it, and stored at the end of the statement that
    binds them.

    Args:
        names: What is known of the block's names.
        private: Names kept in variables.
        moves: Assignments that hand a value on without a copy.
        handed: Names that functions outside of the code see too.
        in_exit: Whether ``failed`` means the flag of exit blocks.
    """

    def __init__(
        self,
        names: BlockNames,
        private: Iterable[str],
        moves: Moves = NO_MOVES,
        *,
        handed: Collection[str] = (),
        in_exit: bool = False,
    ) -> None:
        self._names = names
        self._moves = moves
        self._handed = frozenset(handed)
        self._in_exit = in_exit
        self.globals = Globals()
        self.expressions = Expressions(self.globals, self._read)
        # Variables are numbered: a blob's name may be a Python keyword.
        self.private = {name: f"b{number}" for number, name in enumerate(sorted(private))}
        self.levels: set[str] = set()
        # By ``id`` of an assignment the variable of what its blob held before the code began.
        self.spares: dict[int, str] = {}
        self._prelude: list[ast.stmt] = []
        self._loaded: dict[Expr, str] = {}
        self._temporaries = 0

    def of(self, op: Op) -> list[ast.stmt]:
        """The statements of one operator."""
        made = self._of(op)
        ended = [self.private[name] for name in self._moves.ends.get(id(op), ())]
        return [*made, _forget(ended)] if ended else made

    def _of(self, op: Op) -> list[ast.stmt]:
        match op:
            case Assign():
                return self._holding(lambda: self._assign(op))
            case Augment():
                return self._holding(lambda: self._augment(op))
            case Perform():
                return self._holding(lambda: [ast.Expr(self.expressions.of(op.value))])
            case Delete():
                return [self._delete(name) for name in op.names]
            case _:
                assert_never(op)

    def statement(self, make: Callable[[], list[ast.stmt]]) -> list[ast.stmt]:
        """What ``make`` gives, behind the reads of workspaces that it needs."""
        self._prelude, self._loaded = [], {}
        made = make()
        return self._prelude + made

    def _holding(self, make: Callable[[], list[ast.stmt]]) -> list[ast.stmt]:
        """As ``statement``; expressions may hold what has no name."""
        self.expressions.held = []
        made = self.statement(make)
        self.expressions.held = None
        return made

    def level(self, name: str) -> str:
        """The variable of the workspace that holds a name."""
        level = LEVELS[self._names.scope(name)]
        self.levels.add(level)
        return level

    def workspace(self, name: str) -> ast.expr:
        """The workspace that holds a name."""
        return load(self.level(name))

    def bind(self, name: str, value: ast.expr) -> ast.stmt:
        """The statement that gives a blob its value."""
        variable = self.private.get(name)
        if variable is not None:
            return assign(variable, value)
        return ast.Assign([item(self.workspace(name), ast.Constant(name), ast.Store())], value)

    def _read(self, leaf: Expr) -> ast.expr:
        if isinstance(leaf, Name):
            if self._in_exit and leaf.name == "failed":
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
        self._prelude.append(assign(variable, value))
        return variable

    def _own(self, value: ast.expr, expr: Expr, target: str) -> ast.expr:
        """``value``, made the blob's own where it is not known to be."""
        if is_fresh(expr):
            return value
        if self._may_share(expr, target):
            return value if is_plain_view(expr) else self._helper(landing.land, value)
        return self._helper(landing.own, value, *self._sources(expr))

    def _sources(self, expr: Expr) -> list[ast.expr]:
        # dict: each source once, in order.
        return [self._read(leaf) for leaf in dict.fromkeys(leaves(expr))]

    def _helper(self, function: Callable[..., object], *args: ast.expr) -> ast.expr:
        return call(self.globals.bind(function, function.__name__), *args)

    def _may_share(self, expr: Expr, target: str) -> bool:
        """Whether a copy could not be told from a view: nobody ever changes either in place.

        Only for names that die with the task, and so before anything else can change.
        """
        if target not in self.private or target in self._moves.names | self._handed:
            return False
        if self._names.scope(target) not in {Scope.TASK, Scope.INSTANCE}:
            return False
        changed = self._names.changed
        return target not in changed and all(
            isinstance(leaf, Name) and leaf.name not in changed | self._moves.names
            for leaf in leaves(expr)
        )

    def _assign(self, op: Assign) -> list[ast.stmt]:
        value = op.value
        if len(op.targets) > 1:
            return self._unpack(op)
        target = op.targets[0]
        if isinstance(target, ItemTarget):
            return [ast.Assign([self._item(target)], self.expressions.of(value))]
        spare = self.spares.get(id(op), "")
        if target.name in self.private:
            made = self.expressions.value_of(target.name, value, spare)
        else:
            made = self.expressions.of(value)
        if id(op) not in self._moves.ops:
            made = self._own(made, value, target.name)
        bound = [self.bind(target.name, made)]
        return [*bound, assign(spare, ast.Constant(None))] if spare else bound

    def _unpack(self, op: Assign) -> list[ast.stmt]:
        """Evaluate all, make all own, then bind: the sources are the values of before."""
        variables = [f"u{number}" for number in range(len(op.targets))]
        parts = op.value.items if isinstance(op.value, Sequence) else ()
        if len(parts) == len(op.targets):
            pairs = zip(variables, parts, strict=True)
            made = [assign(variable, self.expressions.of(part)) for variable, part in pairs]
        else:
            left = ast.Tuple([store(variable) for variable in variables], ast.Store())
            made = [ast.Assign([left], self.expressions.of(op.value))]
        if id(op) not in self._moves.ops:
            made += self._own_each(op, variables, parts)
        for target, variable in zip(op.targets, variables, strict=True):
            if isinstance(target, NameTarget):
                made.append(self.bind(target.name, load(variable)))
            else:
                made.append(ast.Assign([self._item(target)], load(variable)))
        return [*made, _forget(variables)]

    def _own_each(
        self, op: Assign, variables: list[str], parts: tuple[Expr, ...]
    ) -> Iterator[ast.stmt]:
        for number, (target, variable) in enumerate(zip(op.targets, variables, strict=True)):
            if not isinstance(target, NameTarget):
                continue
            if len(parts) == len(variables):
                owned = self._own(load(variable), parts[number], target.name)
            else:
                # A part of any value may be a view of what the value shares.
                owned = self._helper(landing.own, load(variable), *self._sources(op.value))
            yield assign(variable, owned)

    def _item(self, target: ItemTarget) -> ast.Subscript:
        blob = self._read(Name(target.name))
        return item(blob, self.expressions.of(target.index), ast.Store())

    def _augment(self, op: Augment) -> list[ast.stmt]:
        value = self.expressions.of(op.value)
        if isinstance(op.target, ItemTarget):
            return [ast.AugAssign(self._item(op.target), _kind(op), value)]
        name = op.target.name
        if name in self.private:
            return [self._change(self.private[name], op, value)]
        # An array is changed where it lives. Storing it again could undo another task's
        # binding of the name in between.
        old = self._read(Name(name))
        changed = self.bind(name, load("u0"))
        return [
            assign("u0", old),
            self._change("u0", op, value),
            ast.If(ast.Compare(load("u0"), [ast.IsNot()], [old]), [changed], []),
        ]

    def _change(self, variable: str, op: Augment, value: ast.expr) -> ast.stmt:
        bounded = landing.IN_PLACE.get(op.operator)
        if bounded is not None:
            return assign(variable, self._helper(bounded, load(variable), value))
        return ast.AugAssign(store(variable), _kind(op), value)

    def _delete(self, name: str) -> ast.stmt:
        variable = self.private.get(name)
        if variable is not None:
            return _forget([variable])
        drop = ast.Attribute(self.workspace(name), "drop", ast.Load())
        return ast.Expr(call(drop, ast.Constant(name)))


def _forget(variables: list[str]) -> ast.stmt:
    """Lets go of what variables hold, so that its memory can be used again at once."""
    return ast.Delete([ast.Name(variable, ast.Del()) for variable in variables])


def _kind(op: Augment) -> ast.operator:
    kind = BINARY.get(op.operator)
    if kind is None:
        raise ValueError(f"'{op.operator}=': {did_you_mean(op.operator, BINARY)}")
    return kind()
