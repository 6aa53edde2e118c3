"""Build the function of each step that is no generated code, by its kind."""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from msgspec.structs import replace

from jobrun.graph.effects import DeclaredEffect, Effect
from jobrun.graph.expressions import Expr, Text
from jobrun.graph.steps import (
    AdoptState,
    CallPython,
    CopyState,
    Guard,
    If,
    Load,
    LoadState,
    Loop,
    Net,
    Parallel,
    PublishCopy,
    Pull,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.runtime.codegen.coercion import as_bool, metric_number
from jobrun.runtime.codegen.compiler import compile_block, compile_expression
from jobrun.runtime.codegen.control_flow import Action, StopBlock
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.group_run_state import run_all
from jobrun.runtime.step_errors import run_block

Getter = Callable[[Frame], Any]


class Actions:
    """Builds the functions of one block's steps.

    Args:
        names: What is known of the block's names.
        in_exit: Whether ``failed`` can be read.
    """

    def __init__(self, names: BlockNames, *, in_exit: bool = False) -> None:
        self._names = names
        self._in_exit = in_exit

    def __call__(self, step: Step) -> Action:
        """Build the function that executes a step, by dispatch on the step's kind."""
        match step:
            case DeclaredEffect():
                return step.action(self)
            case Effect():
                return _effect_action(type(step))(step, self._names, self._getter)
            case Parallel():
                return self._parallel(step)
            case Net() | UseNet() | Loop() | While() | If() | Stop() | Guard():
                return self._nested(step)

    def text(self, text: Text) -> Callable[[Frame], str]:
        """Dispatch a step such as ``log``: build the function that renders its text."""
        return self._getter(text)

    def condition(self, expr: Expr) -> Callable[[Frame], bool]:
        """Dispatch a step such as ``assert``: build the function that tests its condition."""
        value = self._getter(expr)
        return lambda frame: as_bool(value(frame))

    def number(self, expr: Expr, name: str) -> Callable[[Frame], float | int | bool | str]:
        """Dispatch a step such as ``metric``: build the function that computes its number."""
        value = self._getter(expr)
        return lambda frame: metric_number(value(frame), name)

    def _getter(self, expr: Expr) -> Getter:
        return compile_expression(expr, self._names, in_exit=self._in_exit)

    def _nested(self, step: Step) -> Action:
        """Dispatch a step nested too deeply: build a function that runs it as its own block."""
        block = self._block((step,), "", self._names.shared)

        def run(frame: Frame) -> None:
            run_block(block, frame)

        return run

    def _block(self, steps: tuple[Step, ...], path: str, shared: frozenset[str]) -> Any:
        names = replace(self._names, shared=shared, elsewhere=frozenset(collect_usage(steps).used))
        actions = Actions(names, in_exit=self._in_exit)
        return compile_block(steps, path, names, actions, in_exit=self._in_exit)

    def _parallel(self, step: Parallel) -> Action:
        used = [collect_usage(branch).used for branch in step.branches]
        blocks = []
        users = collections.Counter(name for names in used for name in names)
        for index, branch in enumerate(step.branches):
            shared = frozenset(
                name for name in used[index] if users[name] > 1 or name in self._names.shared
            )
            blocks.append(self._block(branch, f"{step.path}[{index}]", shared))

        def run(frame: Frame) -> None:
            frames = [frame.at(block.path) for block in blocks]
            works = [
                _branch(block, branch_frame)
                for block, branch_frame in zip(blocks, frames, strict=True)
            ]
            _raise_first_error(run_all(frame.run.start, works))

        return run


def _branch(block: Any, frame: Frame) -> Callable[[], None]:
    def work() -> None:
        try:
            run_block(block, frame)
        except (StopBlock, CancelledError):
            raise
        except BaseException as error:
            # Fail at once to cancel the other branches. In an exit block they continue.
            if frame.cancel is frame.run.body:
                frame.run.fail(error)
            raise

    return work


def _raise_first_error(outcomes: list[BaseException | None]) -> None:
    """Raise one error of a dispatched ``parallel`` step: a failure rather than a cancel."""
    raised = [outcome for outcome in outcomes if outcome is not None]
    if not raised:
        return

    def rank(error: BaseException) -> int:
        if isinstance(error, StopBlock):
            return 2
        return 1 if isinstance(error, CancelledError) else 0

    # ``min`` returns the first of equal ranks, so that the choice does not depend on timing.
    raise min(raised, key=rank)


# Maps each kind of effect to the function that builds its action.
# The functions are named by text, so that a job imports only the modules of its own steps.
_STATE = "jobrun.runtime.steps.checkpoint_files:state_action"
_EFFECTS: Mapping[type[Effect], str] = {
    CallPython: "jobrun.runtime.callables.call:call_action",
    Load: "jobrun.runtime.steps.data_files:load_action",
    Pull: "jobrun.runtime.steps.pull:pull_action",
    RunProgram: "jobrun.runtime.steps.run_program:program_action",
    Save: "jobrun.runtime.steps.data_files:save_action",
    AdoptState: _STATE,
    CopyState: _STATE,
    LoadState: _STATE,
    PublishCopy: _STATE,
    SaveState: _STATE,
}


def _effect_action(
    kind: type[Effect],
) -> Callable[[Any, BlockNames, Callable[[Expr], Getter]], Action]:
    """Import the module that builds the function of a step of this kind."""
    module, _, name = _EFFECTS[kind].partition(":")
    build_action: Callable[[Any, BlockNames, Callable[[Expr], Getter]], Action]
    build_action = getattr(import_module(module), name)
    return build_action
