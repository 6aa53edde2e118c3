"""Lower lists of steps that differ in names only once: the ops of the first make the others.

A large spec is written by a program: the steps of ten thousand of its tasks are the same but for
names and lengths. Only lists of statements and operators are taken, in a task, without nets: what
they are lowered to depends on their text alone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from msgspec import Struct

from jobrun.compile.expressions.refusals import MEANINGFUL
from jobrun.compile.expressions.repeated_texts import Constant, Learner, Make, TextShapes, tuple_of
from jobrun.compile.faults import SpecPosition
from jobrun.compile.job_draft.definite_assignment import FlowShape, RepeatedFlow
from jobrun.core.errors import Origin
from jobrun.graph.expressions import Name
from jobrun.graph.steps import Net, Op, Step
from jobrun.spec.models.steps import OpStep, Steps

# For each lowered step: its class, and the function that makes all fields except path and origin.
_Ops = tuple[tuple[Callable[..., Op], Make], ...]
# Longer lists of steps are not compared: few tasks share one.
_MOST_STEPS = 200


class RepeatedBody(Struct, frozen=True):
    """The lowered steps of all tasks with steps of one shape.

    Attributes:
        ops: What makes them.
        flow: What is known of what they do to names.
    """

    ops: _Ops
    flow: FlowShape

    def lower(
        self, words: tuple[str, ...], origins: Sequence[Origin], prefix: str
    ) -> tuple[tuple[Step, ...], RepeatedFlow]:
        """Lower repeated steps: copy those lowered for an earlier task, with new names."""
        positions = [SpecPosition(f"{prefix}[{at}]", origin) for at, origin in enumerate(origins)]
        ops = tuple(
            [
                kind(*make(words, ()), *spec_position)
                for (kind, make), spec_position in zip(self.ops, positions, strict=True)
            ]
        )
        return (Net(ops, *positions[0]),), RepeatedFlow(self.flow, words, positions)


class StepsText(Struct, frozen=True):
    """The text of a list of steps to lower, taken apart.

    Attributes:
        words: Its words, in order.
        key: All else, and which words are the same.
        count: How many steps it has.
    """

    words: tuple[str, ...]
    key: tuple[object, ...]
    count: int


class RepeatedSteps:
    """Remembers the lists of steps that have been lowered, by the shapes of their texts.

    Args:
        params: The params, which are no names.
    """

    def __init__(self, params: Collection[str]) -> None:
        self._texts = TextShapes(MEANINGFUL.union(params))
        # None: one task with such steps has been lowered, and nothing was learnt from it yet.
        self._bodies: dict[tuple[object, ...], RepeatedBody | None] = {}
        self._refused: set[tuple[object, ...]] = set()

    def text(self, specs: Steps) -> StepsText | None:
        """Split the text of steps into names and the rest, which is equal for repeated steps.

        Returns None for a list that is long or has steps other than statements and operators.

        The long form of an operator counts as its text in Python.
        """
        if not 0 < len(specs) <= _MOST_STEPS:
            return None
        texts: list[str] = []
        operators: list[str] = []
        for spec in specs:
            if type(spec) is str:
                texts.append(spec)
            elif type(spec) is OpStep and not spec.model_extra:
                operators.append(spec.op)
                texts.append(repr((spec.inputs, spec.out)))
            else:
                return None
        text = "\n".join(texts)
        if text.count("\n") >= len(texts):
            return None
        layout = self._texts.known(text) or self._texts.layout(text)
        words = layout.words(text)
        shape = self._texts.shape(text, words, layout)
        return StepsText(words, (layout.flat, *operators, *shape), len(specs))

    def find(self, text: StepsText) -> RepeatedBody | None:
        """Return the template that copies repeated steps with other names, or None."""
        return self._bodies.get(text.key)

    def learn(self, text: StepsText, steps: tuple[Step, ...], *, is_sound: bool) -> None:
        """Build from lowered steps the template that copies them for repeated ones.

        It takes longer than lowering them, so that it is done for the second of a shape. From
        steps with a fault nothing is learnt: others of their shape have it too.
        """
        if not is_sound:
            self._refused.add(text.key)
        elif text.key not in self._bodies:
            self._bodies[text.key] = None
        elif text.key not in self._refused and len(steps) == 1 and isinstance(steps[0], Net):
            learner = _StepsLearner(text.words, (), self._texts.fixed)
            ops = learner.learn_all(steps[0].ops)
            if ops is not None and len(ops) == text.count:
                self._bodies[text.key] = RepeatedBody(ops, FlowShape())
            else:
                self._refused.add(text.key)


class _StepsLearner(Learner):
    """Makes functions that build the lowered steps of a list from its words.

    In lists of one shape all texts have the same lengths, so that offsets are the same.
    """

    def learn_all(self, ops: Sequence[Op]) -> _Ops | None:
        """Build the functions that copy repeated steps with other names; None if impossible."""
        learned = [(type(op), self.node(op, tuple_of, skip=2)) for op in ops]
        if not self.is_whole:
            return None
        return tuple([(kind, _as_function(make)) for kind, make in learned])

    def name(self, node: Name) -> Make:
        position, at = self.position(node.name), node.at
        return lambda words, _: Name(words[position], at)

    def offset(self, at: int) -> Constant:
        return Constant(at)


def _as_function(make: Make | Constant) -> Make:
    if isinstance(make, Constant):
        value: Any = make.value
        return lambda _words, _offsets: value
    return make
