"""Steps that are not part of a block's code, each as a function of a frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.blobs.values import Value, describe
from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Logged, Measured
from jobrun.graph.expr import Expr, Text
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    CallPython,
    CopyState,
    Guard,
    If,
    Load,
    LoadState,
    Log,
    Loop,
    Net,
    Parallel,
    PublishCopy,
    Pull,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.runtime.callables import call_action
from jobrun.runtime.cancel import CancelledError
from jobrun.runtime.codegen import compile_block, compile_expression
from jobrun.runtime.control import Action, StopBlock
from jobrun.runtime.faults import run_block
from jobrun.runtime.files import load_action, save_action
from jobrun.runtime.frame import Frame
from jobrun.runtime.landing import as_bool
from jobrun.runtime.programs import program_action
from jobrun.runtime.pulls import pull_action
from jobrun.runtime.states import state_action
from jobrun.runtime.together import run_together
from jobrun.runtime.usage import BlockNames, usage

Getter = Callable[[Frame], Any]


class Actions:
    """Makes the functions of one block's steps.

    Args:
        names: What is known of the block's names.
        in_exit: Whether ``failed`` can be read.
    """

    def __init__(self, names: BlockNames, *, in_exit: bool = False) -> None:
        self._names = names
        self._in_exit = in_exit

    def __call__(self, step: Step) -> Action:  # noqa: C901 - one case per kind of a closed union
        """The function of a step."""
        match step:
            case CallPython():
                return call_action(step, self._names, self._getter)
            case RunProgram():
                return program_action(step, self._names, self._getter)
            case Load():
                return load_action(step, self._names, self._getter)
            case Save():
                return save_action(step, self._names, self._getter)
            case Parallel():
                return self._parallel(step)
            case Pull():
                return pull_action(step, self._names)
            case Log():
                return self._log(step)
            case Record():
                return self._record(step)
            case Assert():
                return self._assert(step)
            case SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy():
                return state_action(step)
            case Net() | UseNet() | Loop() | While() | If() | Stop() | Guard():
                return self._nested(step)

    def _getter(self, expr: Expr) -> Getter:
        return compile_expression(expr, self._names, in_exit=self._in_exit)

    def _text(self, text: Text) -> Getter:
        return self._getter(text)

    def _nested(self, step: Step) -> Action:
        """Control flow too deep for one function: a function of its own."""
        block = self._block((step,), "", self._names.shared)

        def run(frame: Frame) -> None:
            run_block(block, frame)

        return run

    def _block(self, steps: tuple[Step, ...], path: str, shared: frozenset[str]) -> Any:
        names = replace(self._names, shared=shared, elsewhere=frozenset(usage(steps).used))
        actions = Actions(names, in_exit=self._in_exit)
        return compile_block(steps, path, names, actions, in_exit=self._in_exit)

    def _parallel(self, step: Parallel) -> Action:
        used = [usage(branch).used for branch in step.branches]
        blocks = []
        for index, branch in enumerate(step.branches):
            others = set().union(*used[:index], *used[index + 1 :])
            shared = self._names.shared | frozenset(others)
            blocks.append(self._block(branch, f"{step.path}[{index}]", shared))

        def run(frame: Frame) -> None:
            frames = [frame.at(block.path) for block in blocks]
            works = [_branch(block, one) for block, one in zip(blocks, frames, strict=True)]
            _join(run_together(frame.run.start, works))

        return run

    def _log(self, step: Log) -> Action:
        text = self._text(step.text)

        def run(frame: Frame) -> None:
            frame.run.emit(
                Logged(
                    text(frame), frame.task, frame.node.name, frame.instance, frame.epoch, step.path
                )
            )

        return run

    def _record(self, step: Record) -> Action:
        values = [(name, self._getter(value)) for name, value in step.values]

        def run(frame: Frame) -> None:
            # All of them first: either the whole step is told, or nothing of it.
            numbers = [(name, number(value(frame), name)) for name, value in values]
            for name, measured in numbers:
                frame.run.emit(
                    Measured(
                        name, measured, frame.epoch, frame.task, frame.node.name, frame.instance
                    )
                )

        return run

    def _assert(self, step: Assert) -> Action:
        condition = self._getter(step.condition)
        message = self._text(step.message)

        def run(frame: Frame) -> None:
            if as_bool(condition(frame)):
                return
            said = message(frame)
            text = f"the assertion '{step.text}' does not hold" if step.text else "it does not hold"
            raise TaskFailedError.of(
                "E205",
                f"{text}: {said}" if said else text,
                "mend what it guards, or the assertion; resume continues from the last saved epoch",
            )

        return run


def number(value: Value, name: str) -> float | int | bool | str:
    """A metric's value as a Python number or text.

    Raises:
        TaskFailedError: E212, if it is neither.
    """
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        value = value.item()
    if type(value) is Counter:
        value = value.value
    if isinstance(value, bool | int | float | str):
        return value
    raise TaskFailedError.of(
        "E212",
        f"the metric '{name}' is a {describe(value)}, not a single number",
        "reduce it, for example with mean() or max()",
    )


def _branch(block: Any, frame: Frame) -> Callable[[], None]:
    def work() -> None:
        try:
            run_block(block, frame)
        except (StopBlock, CancelledError):
            raise
        except BaseException as error:
            # At once, so that the other branches hear of it; in an exit block they go on.
            if frame.cancel is frame.run.body:
                frame.run.fail(error)
            raise

    return work


def _join(outcomes: list[BaseException | None]) -> None:
    """Raise what matters most, and of that what comes first in the text."""
    raised = [one for one in outcomes if one is not None]
    if not raised:
        return

    def rank(error: BaseException) -> int:
        if isinstance(error, StopBlock):
            return 2
        return 1 if isinstance(error, CancelledError) else 0

    # min keeps the first of equals: no timing decides.
    raise min(raised, key=rank)
