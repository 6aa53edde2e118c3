"""Lists of steps, made at random: valid wherever control may go, and sure to end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.property.expressions import Picker
from tests.property.kinds import BOOL, COUNTER, INT, Type
from tests.property.scope import MadeNet, Scope, Touches
from tests.property.statements import Statements
from tests.support.expression_models import Assign, Target, Term, join, name

_DEEPEST = 3


class Bodies(Statements):
    """Makes lists of steps.

    Args:
        pick: Where choices come from.
        nets: The nets of the job; more are added.
    """

    def __init__(self, pick: Picker, nets: dict[str, Any]) -> None:
        super().__init__(pick)
        self._nets = nets
        self._made: dict[str, MadeNet] = {}

    def steps(self, scope: Scope, most: int = 5, least: int = 1) -> list[Any]:
        """A list of steps; afterwards ``scope.names`` are those that are surely there."""
        drawn: list[Any] = []
        local_names: set[str] = set()
        for _ in range(self._pick.upto(most, least)):
            if self._budget <= 0:
                break
            self._budget -= 1
            before = set(scope.names)
            drawn += self._step(scope, local_names)
            local_names |= set(scope.names) - before
        return drawn or [self._assign(scope, None)]

    def _step(self, scope: Scope, local_names: set[str]) -> list[Any]:
        simple = [
            self._assign, self._assign, self._temporary, self._alias, self._alias, self._augment,
            self._augment, self._item, self._item, self._item_augment, self._swap, self._unpack,
            self._delete, self._change, self._long_form, self._observe, self._call,
        ]  # fmt: skip
        blocks = [self._loop, self._loop, self._while, self._forever, self._if, self._if,
                  self._guard, self._stop_if, self._parallel, self._net, self._own_net,
                  self._deep]  # fmt: skip
        deep = scope.nested >= _DEEPEST or self._budget < 4
        make = self._pick.choose(simple if deep or self._pick.chance(60) else blocks)
        if make == self._delete:
            return self._delete(scope, local_names)
        drawn = make(scope, local_names)
        return drawn if isinstance(drawn, list) else [drawn]

    def _label(self, scope: Scope) -> str | None:
        return self._fresh(scope, "block") if self._pick.chance(50) else None

    def _body(self, scope: Scope, step: dict[str, Any], *, first: Any = (), words: Any = ()) -> Any:
        """The step with a body that may be left by stops, and may not run at all."""
        label = self._label(scope)
        name_key = {"name": label} if label else {}
        label = label or step.get("guard")
        inner = scope.inner(block=label)
        inner.words = (*scope.words, *words)
        steps = [*first, *self.steps(inner, 4)]
        return {**step, **name_key, "steps": steps}

    def _loop(self, scope: Scope, local_names: set[str]) -> Any:
        counted = self._writable(scope, INT.__eq__)
        choice = self._pick.upto(2)
        number = self._pick.upto(3)
        count = Term(str(number), lambda _: number)
        if choice and counted:
            # Changed in the body, as a rule: it is read again at each pass.
            count = self._noted(scope, name(self._pick.choose(counted)))
        elif choice:
            count = self.expression(scope, INT, 1)
        step: dict[str, Any] = {"loop": count}
        words = ["iter"]
        if self._pick.chance(40) and not scope.in_net:
            step["as"] = self._fresh(scope, "i")
            words.append(step["as"])
        return self._body(scope, step, words=words)

    def _fuel(self, scope: Scope) -> tuple[str, Any, Any]:
        """A name that lets a loop end, how it is made, and how it is used up."""
        fuel = self._fresh(scope, f"{scope.prefix}fuel")
        self._bind(scope, fuel, INT)
        scope.fixed.add(fuel)
        amount = self._pick.upto(3)
        target = (Target(fuel),)
        full = Assign(target, (Term(str(amount), lambda _: amount),))
        less = Assign(target, (join("({} - 1)", lambda a: a - 1, name(fuel)),))
        return fuel, full, less

    def _while(self, scope: Scope, local_names: set[str]) -> Any:
        fuel, full, less = self._fuel(scope)
        has_fuel = join("({} > 0)", lambda a: a > 0, name(fuel))
        condition = self._noted(scope, self.expressions(scope).condition())
        whole = join("({} and {})", None, has_fuel, condition)
        held = Term(
            whole.text,
            lambda view: has_fuel.of(view) and condition.of(view),
            whole.reads,
            whole.outputs,
        )
        return [full, self._body(scope, {"while": held}, first=[less], words=["iter"])]

    def _forever(self, scope: Scope, local_names: set[str]) -> Any:
        fuel, full, less = self._fuel(scope)
        empty = {"stop_if": join("({} <= 0)", lambda a: a <= 0, name(fuel))}
        step = {"loop": "forever"}
        return [full, self._body(scope, step, first=[empty, less], words=["iter"])]

    def _if(self, scope: Scope, local_names: set[str]) -> Any:
        step: dict[str, Any] = {"if": self._condition(scope), "then": self._branch(scope)}
        if self._pick.chance(40):
            step["elif"] = [
                {"if": self._condition(scope), "then": self._branch(scope)}
                for _ in range(self._pick.upto(2, 1))
            ]
        # Without an else there is always a way on behind it.
        if self._pick.chance(50):
            inner = scope.inner(is_block=False)
            step["else"] = self.steps(inner, 3)
        return step

    def _deep(self, scope: Scope, local_names: set[str]) -> Any:
        """Blocks inside each other, more than one function can hold."""
        steps: list[Any] = []
        outer = steps
        inner = scope
        for _ in range(self._pick.upto(9, 5)):
            label = self._label(scope)
            inner = inner.inner(block=label)
            inner.nested = _DEEPEST
            block: dict[str, Any] = {"steps": self.steps(inner, 1)}
            block |= {"name": label} if label else {}
            if self._pick.chance(70):
                outer.append({"loop": Term("1", lambda _: 1), **block})
            else:
                outer.append({"guard": self._fresh(scope, f"{scope.prefix}flag"), **block})
            outer = block["steps"]
        outer += self.steps(inner, 2)
        stop = self._stop(inner)
        if stop is not None:
            outer.append("stop" if stop == {} else stop)
        return steps

    def _branch(self, scope: Scope) -> list[Any]:
        inner = scope.inner(is_block=False)
        steps = self.steps(inner, 3)
        if self._pick.chance(30):
            stop = self._stop(inner)
            if stop is not None:
                steps.append("stop" if stop == {} else stop)
        return steps

    def _guard(self, scope: Scope, local_names: set[str]) -> Any:
        # A guard's flag names the block, too.
        flags = [
            candidate
            for candidate in self._writable(scope, BOOL.__eq__)
            if candidate not in scope.blocks
        ]
        flag = self._pick.choose([self._fresh(scope), *flags])
        step = self._body(scope, {"guard": flag})
        self._bind(scope, flag, BOOL)
        return step

    def _stop(self, scope: Scope) -> dict[str, Any] | None:
        """The innermost block or a named one is left: ``{}`` or ``{stop: name}``."""
        if not scope.blocks:
            return None
        named = [
            (at, block_label)
            for at, block_label in enumerate(scope.blocks)
            if block_label is not None
        ]
        if named and self._pick.chance(50):
            at, label = self._pick.choose(named)
            scope.early[at].append(set(scope.names))
            return {"stop": label}
        scope.early[-1].append(set(scope.names))
        return {}

    def _stop_if(self, scope: Scope, local_names: set[str]) -> Any:
        condition = self._condition(scope)
        stop = self._stop(scope)
        return self._assign(scope, local_names) if stop is None else {"stop_if": condition, **stop}

    def _parallel(self, scope: Scope, local_names: set[str]) -> Any:
        count = self._pick.upto(3, 2)
        owner = {blob: self._pick.upto(count) for blob in self._writable(scope)}
        branches = []
        bound: dict[str, Type] = {}
        for number in range(count):
            # What is given to another branch is not even looked at.
            names = {
                blob: kind
                for blob, kind in scope.names.items()
                if owner.get(blob, count) in (number, count)
            }
            shared = {blob for blob in names if owner.get(blob) == count}
            inner = scope.inner()
            inner = replace(
                inner,
                names=names,
                fixed={*scope.fixed, *shared},
                blocks=(None,),
                early=([],),
                types=dict(names),
                is_alone=False,
            )
            branches.append(self.steps(inner, 3))
            sure = set(inner.names).intersection(*inner.early[-1]) - set(names)
            bound |= {blob: inner.names[blob] for blob in sorted(sure)}
            scope.types.update(inner.types)
        scope.names |= bound
        return {"parallel": branches}

    def _net(self, scope: Scope, local_names: set[str]) -> Any:
        """A net over the names around it: one made before, or a new one."""
        if scope.in_net:
            return self._assign(scope, local_names)
        for known, net in self._made.items():
            if scope.is_alone and net.fits(scope) and self._pick.chance(50):
                scope.touches.reads |= set(net.needs)
                scope.touches.counts |= net.counts
                for blob, kind in net.binds.items():
                    self._bind(scope, blob, kind)
                return {"net": known}
        return self._new_net(scope)

    def _new_net(self, scope: Scope) -> Any:
        known = f"net{len(self._nets)}"
        self._nets[known] = []
        inner = replace(
            scope,
            names=dict(scope.names),
            touches=Touches(),
            nested=_DEEPEST,
            outputs={},
            words=("epoch",),
        )
        steps = self.steps(inner, 4)
        self._nets[known] = steps
        scope.touches.reads |= inner.touches.reads
        scope.touches.writes |= inner.touches.writes
        scope.touches.counts |= inner.touches.counts
        needs = {
            blob: scope.names[blob]
            for blob in inner.touches.reads | inner.touches.counts
            if blob in scope.names
        }
        binds = {
            blob: inner.names[blob] for blob in sorted(inner.touches.writes) if blob in inner.names
        }
        if len(binds) == len(inner.touches.writes):
            self._made[known] = MadeNet(needs, inner.touches.counts, binds)
        scope.names.clear()
        scope.names.update(inner.names)
        return {"net": known}

    def _own_net(self, scope: Scope, local_names: set[str]) -> Any:
        """A net with parameters and results: its names are its own."""
        if scope.in_net:
            return self._assign(scope, local_names)
        known = f"net{len(self._nets)}"
        parameters = {f"p{index}": self._pick.a_type() for index in range(self._pick.upto(2, 1))}
        arguments = {
            parameter: self.expression(scope, kind, 1) for parameter, kind in parameters.items()
        }
        self._nets[known] = []
        inner = Scope(
            names=dict(parameters), types=dict(parameters), prefix="r", in_net=True, nested=1
        )
        steps = self.steps(inner, 5)
        self._nets[known] = {"in": list(parameters), "steps": steps}
        results = [result for result in inner.names if inner.names[result] != COUNTER]
        out = {}
        for result in self._pick.some(results, 40) or results[:1]:
            blob = self._fresh(scope)
            out[result] = blob
        for result, blob in out.items():
            self._bind(scope, blob, inner.names[result])
        self._nets[known] = {"in": list(parameters), "out": list(out), "steps": steps}
        return {"net": known, "in": arguments, "out": out}
