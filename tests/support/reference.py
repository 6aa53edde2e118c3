"""Interpret a job plainly: every assignment copies, every name is looked up.

It walks the tree of a spec whose expressions and statements are ``terms``; of jobrun it uses
the random streams alone. Tasks run one after the other, in the order of the text.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any

import numpy as np

from jobrun.runtime.context.rng import StreamKey, make_stream
from tests.support.expression_models import (
    IN_PLACE,
    Assign,
    Augment,
    Change,
    Delete,
    Statement,
    Term,
    View,
)

Workspace = dict[str, Any]
GLOBAL = ("init", "download")
_OPERATORS = {"maximum": np.maximum, "add": np.add, "ravel": np.ravel, "transpose": np.transpose}


@dataclass
class Count:
    """A counter."""

    value: int


@dataclass
class Outcome:
    """The result of a run: per epoch, node and name the state, and what exit saved."""

    epochs: list[dict[str, Workspace]] = field(default_factory=list)
    saved: dict[str, Any] = field(default_factory=dict)


class _Stop(Exception):  # noqa: N818 - a way out of a block
    def __init__(self, block: object) -> None:
        super().__init__()
        self.block = block


@dataclass(frozen=True)
class _Place(View):
    """The place at which a list of steps runs.

    Attributes:
        chain: Workspaces, innermost first; what is new goes into the first.
        stream: The block that keys the random stream, by its path.
        blocks: Name and identity of the blocks around, innermost last.
        words: Values of ``epoch``, ``iter`` and the like.
        key: All of the stream's key but the place.
        streams: Streams in use, by place.
    """

    job: Job
    chain: tuple[Workspace, ...]
    stream: str
    key: tuple[str, int, str, str, int]
    words: dict[str, Any]
    blocks: tuple[tuple[str, object], ...] = ()
    streams: dict[str, np.random.Generator] = field(default_factory=dict)

    def holder(self, name: str) -> Workspace:
        return next((workspace for workspace in self.chain if name in workspace), self.chain[0])

    def read(self, name: str) -> Any:
        return self.holder(name)[name]

    def output(self, task: str, name: str) -> Any:
        by_node = self.job.outputs[task, name]
        return by_node.get(self.key[2], next(iter(by_node.values())))

    def word(self, name: str) -> Any:
        return self.words[name]

    @property
    def rng(self) -> np.random.Generator:
        if self.stream not in self.streams:
            key = StreamKey(*self.key, self.stream)
            self.streams[self.stream] = make_stream(self.job.seed, key)
        return self.streams[self.stream]

    def inside(self, name: str | None) -> tuple[_Place, object]:
        """Return the same place inside a further block."""
        block = object()
        return replace(self, blocks=(*self.blocks, (name or "", block))), block

    def target(self, name: str | None) -> object:
        if name is None:
            return self.blocks[-1][1]
        return next(
            block for name_of_block, block in reversed(self.blocks) if name_of_block == name
        )


class Job:
    """One run of a spec."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.seed = spec.get("seed", 0)
        self.nodes = _nodes(spec.get("nodes", {"local": {}}))
        self.workspaces: dict[str, Workspace] = {node: {} for node in self.nodes}
        self.outputs: dict[tuple[str, str], dict[str, Any]] = {}
        # By node: how many records of a reader are read, and the records in a queue.
        self.positions: Counter[tuple[str, str]] = Counter()
        self.queues: defaultdict[tuple[str, str], list[Workspace]] = defaultdict(list)
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """Run all groups, with as many epochs as the stop conditions say."""
        self._group("init", 0)
        constants = self._constants()
        keep = {node: set(workspace) for node, workspace in self.workspaces.items()}
        self._settle(keep, constants)
        epoch = 0
        while not self._is_over(epoch):
            epoch += 1
            self._group("epoch", epoch)
            self._settle(keep, constants)
        self._group("download", epoch)
        self._group("exit", epoch)
        return self.outcome

    def _constants(self) -> set[str]:
        tasks = self.spec["init"]["tasks"]
        steps = [step for task in tasks if task.get("rebuild") for step in task["steps"]]
        return {target.name for step in steps for target in step.targets}

    def _settle(self, keep: dict[str, set[str]], constants: set[str]) -> None:
        for node, workspace in self.workspaces.items():
            settled = {name: _copy(workspace[name], order="K") for name in keep[node]}
            self.workspaces[node] = settled
        self.outcome.epochs.append(
            {
                node: {
                    name: _copy(value)
                    for name, value in workspace_.items()
                    if name not in constants
                }
                for node, workspace_ in self.workspaces.items()
            }
        )

    def _is_over(self, epoch: int) -> bool:
        everything = {
            name: v for workspace in self.workspaces.values() for name, v in workspace.items()
        }
        for condition in self.spec["stop"]:
            if "epochs" in condition and epoch >= condition["epochs"]:
                return True
            # Without an epoch there is nothing to look at.
            scope = _Place(self, (everything,), "", ("", 0, "", "", 0), {})
            if "when" in condition and epoch and bool(condition["when"].of(scope)):
                return True
        return False

    def _group(self, name: str, epoch: int) -> None:
        group = self.spec.get(name, {"tasks": []})
        kind = group.get("workspace", "global" if name in GLOBAL else "private")
        used = [node for task in group["tasks"] for node in self._nodes_of(task)]
        places = {}
        for node in dict.fromkeys(used):
            chain: tuple[Workspace, ...] = (self.workspaces[node],)
            if kind == "private":
                chain = ({}, *chain)
            words = {"epoch": epoch, "instance": 0, "instances": 1, **self.nodes[node]}
            places[node] = _Place(self, chain, "", (name, epoch, node, "", 0), words)
        setups = {node: list(self._node_setups(name, group, node)) for node in places}
        for node, scope in places.items():
            _around(setups[node], "init", scope)
        for task in group["tasks"]:
            for node in self._nodes_of(task):
                self._task(task, f"{name}/{task['task']}", places[node], kind)
        for node, scope in places.items():
            _around(setups[node], "exit", scope)

    def _node_setups(
        self, name: str, group: dict[str, Any], node: str
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        if "setup" in group:
            yield f"{name}/setup", group["setup"]
        for task in group["tasks"]:
            if "node" in task.get("setup", {}) and node in self._nodes_of(task):
                yield f"{name}/{task['task']}/setup.node", task["setup"]["node"]

    def _nodes_of(self, task: dict[str, Any]) -> list[str]:
        wanted = task.get("node")
        return [node for node in self.nodes if wanted in (None, node, self.nodes[node]["family"])]

    def _task(self, task: dict[str, Any], path: str, outer: _Place, kind: str) -> None:
        group, epoch, node, _, _ = outer.key
        count = task.get("instances", 1)
        chain = ({}, *outer.chain) if kind == "private" else outer.chain
        words = {**outer.words, "instances": count}
        key = (group, epoch, node, task["task"], 0)
        scope = _Place(self, chain, path, key, words)
        setup = task.get("setup", {})
        task_setups = [(f"{path}/setup.task", setup["task"])] if "task" in setup else []
        inner = [(f"{path}/setup.instance", setup["instance"])] if "instance" in setup else []
        _around(task_setups, "init", scope)
        frames = [scope]
        if count > 1:
            frames = [
                replace(
                    scope,
                    chain=({}, *chain),
                    key=(*key[:4], number),
                    streams={},
                    words={**words, "instance": number},
                )
                for number in range(count)
            ]
        for frame in frames:
            _around(inner, "init", frame)
            for fields in self._records(task, node):
                frame.chain[0].update(fields)
                _block(task["steps"], f"{path}/steps", *frame.inside("task"))
                for queue, names in task.get("write", {}).items():
                    record = {name: _copy(frame.read(name)) for name in names}
                    self.queues[node, queue].append(record)
            _around(inner, "exit", frame)
        _around(task_setups, "exit", scope)
        for written in task.get("outputs", ()):
            for name, value in written.items():
                taken = [_landed(value.of(frame)) for frame in frames]
                by_node = self.outputs.setdefault((task["task"], name), {})
                by_node[node] = taken if count > 1 else taken[0]

    def _records(self, task: dict[str, Any], node: str) -> list[Workspace]:
        """List the records that a task reads in this epoch; without a source, one without fields.

        Readers are counters; a queue is read after the tasks that write to it.
        """
        source = task.get("read")
        if source is None:
            return [{}]
        if source not in self.spec["readers"]:
            return self.queues.pop((node, source), [])
        reader = self.spec["readers"][source]
        first = self.positions[node, source] if reader["restart"] == "never" else 0
        last = min(reader["counter"]["stop"], first + reader.get("limit", sys.maxsize))
        self.positions[node, source] = last
        (field,) = reader["fields"]
        return [{field: value} for value in range(first, last)]


def run_reference(spec: dict[str, Any]) -> Outcome:
    """Run a spec whose expressions are terms."""
    with np.errstate(all="ignore"):
        return Job(spec).run()


def _nodes(written: dict[str, Any]) -> dict[str, dict[str, Any]]:
    nodes = {}
    for family, node in written.items():
        count = node.get("count")
        for index in range(count or 1):
            name = family if count is None else f"{family}_{index}"
            nodes[name] = {"family": family, "node.index": index, "node.count": count or 1}
    return nodes


def _around(setups: list[tuple[str, dict[str, Any]]], part: str, scope: _Place) -> None:
    for path, setup in setups if part == "init" else reversed(setups):
        block = f"{path}.{part}"
        _block(setup.get(part, []), block, *replace(scope, stream=block).inside(None))


def _block(steps: list[Any], prefix: str, scope: _Place, block: object) -> bool:
    """Run the steps of a block; return whether a stop left it."""
    try:
        _steps(steps, prefix, scope)
    except _Stop as stop:
        if stop.block is not block:
            raise
        return True
    return False


def _steps(steps: list[Any], prefix: str, scope: _Place) -> None:
    for index, step in enumerate(steps):
        path = f"{prefix}[{index}]"
        if isinstance(step, Statement):
            _statement(step, scope)
        elif step == "stop":
            raise _Stop(scope.target(None))
        else:
            _step(step, path, scope)


def _step(step: dict[str, Any], path: str, scope: _Place) -> None:  # noqa: C901 - one case per form
    match step:
        case {"loop": _} | {"while": _}:
            _repeat(step, path, scope)
        case {"if": condition, "then": then}:
            ways = [(condition, then, path)]
            ways += [
                (branch["if"], branch["then"], f"{path}.elif[{index}]")
                for index, branch in enumerate(step.get("elif", ()))
            ]
            for held, steps, way in ways:
                if held.of(scope):
                    _steps(steps, f"{way}.then", scope)
                    return
            _steps(step.get("else", []), f"{path}.else", scope)
        case {"stop_if": condition}:
            if condition.of(scope):
                raise _Stop(scope.target(step.get("stop")))
        case {"stop": name}:
            raise _Stop(scope.target(name))
        case {"guard": flag, "steps": steps}:
            inner, block = scope.inside(step.get("name", flag))
            try:
                stopped = _block(steps, f"{path}.steps", inner, block)
            except _Stop:
                # A stop of a block further out has left this one too.
                scope.holder(flag)[flag] = True
                raise
            scope.holder(flag)[flag] = stopped
        case {"parallel": branches}:
            for index, branch in enumerate(branches):
                inner, block = replace(scope, stream=f"{path}[{index}]").inside(None)
                _block(branch, f"{path}[{index}].steps", inner, block)
        case {"net": name}:
            _net(step, name, path, scope)
        case {"op": name, "in": inputs, "out": out}:
            result = _OPERATORS[name](*(blob.of(scope) for blob in inputs))
            scope.holder(out)[out] = _landed(result)
        case {"call": target, "with": inputs}:
            module, _, function = target.partition(":")
            arguments = {key: value.of(scope) for key, value in inputs.items()}
            result = getattr(import_module(module), function)(**arguments)
            if "out" in step:
                scope.holder(step["out"])[step["out"]] = _landed(result)
        case {"save": files}:
            for name, file in files.items():
                scope.job.outcome.saved[file] = _copy(scope.read(name))
        case {"log": _} | {"metric": _} | {"assert": _}:
            pass
        case _:
            raise AssertionError(step)


def _repeat(step: dict[str, Any], path: str, scope: _Place) -> None:
    inner, block = scope.inside(step.get("name"))

    def passes() -> Iterator[_Place]:
        number = 0
        while _goes_on(step, number, scope):
            words = {**scope.words, "iter": number, step.get("as", "iter"): number}
            yield replace(inner, words=words)
            number += 1

    for pass_scope in passes():
        if _block(step["steps"], f"{path}.steps", pass_scope, block):
            break


def _goes_on(step: dict[str, Any], number: int, scope: _Place) -> bool:
    if "while" in step:
        return bool(step["while"].of(scope))
    return step["loop"] == "forever" or number < step["loop"].of(scope)


def _net(step: dict[str, Any], name: str, path: str, scope: _Place) -> None:
    net = scope.job.spec["nets"][name]
    prefix = f"{path}.{name}"
    if isinstance(net, list):
        _steps(net, prefix, scope)
        return
    inputs = {name_: _landed(value.of(scope)) for name_, value in step["in"].items()}
    _steps(net["steps"], prefix, replace(scope, chain=(inputs,)))
    for result, blob in step["out"].items():
        scope.holder(blob)[blob] = _copy(inputs[result])


def _statement(statement: Statement, scope: _Place) -> None:
    match statement:
        case Assign(targets, values):
            made_values = [value.of(scope) for value in values]
            parts = made_values if len(made_values) == len(targets) else list(made_values[0])
            # All are made before the first is bound.
            parts = [
                _landed(part) if target.index is None else part
                for target, part in zip(targets, parts, strict=True)
            ]
            for target, part in zip(targets, parts, strict=True):
                if target.index is None:
                    scope.holder(target.name)[target.name] = part
                else:
                    scope.read(target.name)[target.index.of(scope)] = part
        case Augment(target, operator, value):
            _augment(target, IN_PLACE[operator], value, scope)
        case Change():
            _change(statement, scope)
        case Delete(name):
            del scope.holder(name)[name]


def _augment(target: Any, change: Any, value: Term, scope: _Place) -> None:
    workspace, name = scope.holder(target.name), target.name
    if target.index is None:
        workspace[name] = change(workspace[name], value.of(scope))
        return
    index = target.index.of(scope)
    workspace[name][index] = change(workspace[name][index], value.of(scope))


def _change(step: Change, scope: _Place) -> None:
    held = scope.read(step.target)
    arguments = [argument.of(scope) for argument in step.arguments]
    match step.function:
        case "count_up":
            held.value += 1
        case "atomic_add":
            held.value += int(arguments[0])
        case "add_at":
            np.add.at(held, *arguments)
        case "multiply_at":
            np.multiply.at(held, *arguments)
        case _:
            raise AssertionError(step.function)


def _landed(value: Any) -> Any:
    return np.array(value) if isinstance(value, tuple | list) else _copy(value)


def _copy(value: Any, order: str = "K") -> Any:
    if isinstance(value, Count):
        return Count(value.value)
    return value.copy(order=order) if type(value) is np.ndarray else value
