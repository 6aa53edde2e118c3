"""Run a drawn program in plain Python, in one process: what jobrun has to compute, too.

A copy lies beside each program; ``python plain_python.py FOLDER`` writes ``FOLDER/seen.jsonl``.
"""

from __future__ import annotations

import ast
import copy
import importlib
import json
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import numpy as np

FUNCTIONS = ("abs", "max", "maximum", "min", "sort", "sqrt", "sum", "where")


class _Names(MutableMapping[str, Any]):
    """The names that the steps of a task see: those of its node, and its own.

    What init has made belongs to the node; what a task makes first is its own.
    """

    def __init__(self, node: dict[str, Any], outputs: dict[str, Any]) -> None:
        self._node = node
        self._outputs = outputs
        self._own: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if "." in name:
            return copy.deepcopy(self._outputs[name])
        return self._own[name] if name in self._own else self._node[name]

    def __setitem__(self, name: str, value: Any) -> None:
        (self._node if name in self._node else self._own)[name] = value

    def __delitem__(self, name: str) -> None:
        del self._own[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*self._node, *self._own])

    def __len__(self) -> int:
        return len(self._node) + len(self._own)


def run(program: dict[str, Any], folder: str) -> None:
    """Call each function of the program in its turn, on the names of its node."""
    module = importlib.import_module("steps")
    nodes: dict[str, dict[str, Any]] = {}
    facts = {"module": module, "folder": folder, "epoch": 0}
    for task in program["init"]:
        node = nodes.setdefault(task.get("node", ""), {})
        for step in task["steps"]:
            _step(step, node, facts)
    tasks = program.get("tasks") or [{}]
    for epoch in range(1, program["epochs"] + 1):
        outputs: dict[str, Any] = {}
        for number, task in enumerate(tasks):
            names = _Names(nodes[task.get("node", "")], outputs)
            for step in program["epoch"]:
                if step.get("task", 0) == number:
                    _step(step, names, facts | {"epoch": epoch})
            for name in task.get("outputs", ()):
                outputs[f"{task['task']}.{name}"] = copy.deepcopy(names[name])
    for step in program["exit"]:
        names = _Names(nodes[step.get("node", "")], {})
        _step(step, names, facts | {"epoch": program["epochs"]})


def _step(step: dict[str, Any], names: MutableMapping[str, Any], facts: dict[str, Any]) -> None:
    epoch = facts["epoch"]
    if "copy" in step:
        # An assignment of the spec: blobs are values.
        target, source = step["copy"]
        names[target] = copy.deepcopy(names[source])
    elif "expr" in step:
        _expression(step["expr"], names, epoch)
    elif "loop" in step:
        for _ in range(step["loop"]):
            _steps(step["steps"], names, facts)
    elif "while" in step:
        while _value(step["while"], names, epoch):
            _steps(step["steps"], names, facts)
    elif "if" in step:
        _steps(step["steps" if _value(step["if"], names, epoch) else "else"], names, facts)
    else:
        arguments = {parameter: names[blob] for parameter, blob in step["with"].items()}
        extras = {"epoch": epoch, "run_dir": facts["folder"]} if step.get("looks") else {}
        result = getattr(facts["module"], step["call"])(**arguments, **extras)
        out = step["out"]
        names.update(zip(out, [result] if len(out) == 1 else result or (), strict=True))


def _steps(steps: list[Any], names: MutableMapping[str, Any], facts: dict[str, Any]) -> None:
    for step in steps:
        _step(step, names, facts)


def _expression(text: str, names: MutableMapping[str, Any], epoch: int) -> None:
    (statement,) = ast.parse(text).body
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        value = _value(ast.unparse(statement.value), names, epoch)
        names[statement.targets[0].id] = copy.deepcopy(value)
        return
    seen = _namespace(names, epoch)
    exec(text, seen)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        names[statement.target.id] = seen[statement.target.id]


def _value(text: str, names: MutableMapping[str, Any], epoch: int) -> Any:
    return eval(text, _namespace(names, epoch))


def _namespace(names: MutableMapping[str, Any], epoch: int) -> dict[str, Any]:
    return {name: getattr(np, name) for name in FUNCTIONS} | dict(names) | {"epoch": epoch}


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    run(json.loads(Path("program.json").read_text()), sys.argv[1])
