"""Judge statements: what jobrun makes of each is what Python and numpy make of it, or an error.

Statements are checked in one job, each in a task of its own, and then run one by one. Names begin
with values of many types, of which the compiler knows all, all but some lengths, or nothing.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Literal

import numpy as np

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import Fault, JobrunError, SpecError
from jobrun.graph.expressions import DTYPES
from jobrun.graph.types import Task
from jobrun.ops.operator_table import OPERATORS, implementation
from jobrun.spec.dump import dump_tree
from jobrun.spec.load import load_spec
from jobrun.values.compare import same_bits
from tests.support.step_bench import Bench

Knowledge = Literal["all", "lengths unknown", "nothing"]
KNOWLEDGE: tuple[Knowledge, ...] = ("all", "lengths unknown", "nothing")
_LENGTHS = range(5)
# What the names of the language mean; numpy is asked for its own functions.
MEANINGS: dict[str, Any] = {
    **{name: implementation(name) for name in OPERATORS},
    **{
        name: getattr(np, name)
        for name in (*DTYPES, "inf", "nan", "pi", "datetime64", "timedelta64")
    },
}


@dataclass(frozen=True)
class Case:
    """Statements, and the texts of the values that their names have before.

    Attributes:
        refusable: Jobrun may refuse it although Python computes it.
    """

    before: tuple[tuple[str, str], ...]
    statements: tuple[str, ...]
    knowledge: Knowledge = "all"
    refusable: bool = False

    def __str__(self) -> str:
        values = (f"{name} = {text}" for name, text in self.before)
        return f"{'; '.join([*values, *self.statements])}  [{self.knowledge}]"


def judge(cases: Sequence[Case], folder: Path) -> list[str]:
    """Return a complaint for each case that jobrun neither computes as Python nor refuses well."""
    refusals, tasks = _compile(cases, folder)
    return [
        f"{case}: {complaint}"
        for number, case in enumerate(cases)
        for complaint in _judge(case, refusals.get(number, []), tasks.get(number))
    ]


def _judge(case: Case, faults: list[Fault], task: Task | None) -> Iterator[str]:
    expected = _compute(case)
    if faults:
        yield from _judge_refusal(case, expected, faults)
        return
    assert task is not None
    try:
        names = _run(case, task)
    except JobrunError as error:
        yield from _judge_refusal(case, expected, list(error.faults))
    except Exception as error:  # noqa: BLE001 - an unexplained error
        yield f"{type(error).__name__}: {error}"
    else:
        if isinstance(expected, Exception):
            yield f"{names} found, but Python raises {type(expected).__name__}: {expected}"
            return
        for name, value in expected.items():
            if name not in names or not _same(value, names[name]):
                actual = names.get(name)
                yield (
                    f"{name} is {type(actual).__name__} {actual!r}, "
                    f"but {type(value).__name__} {value!r} in Python"
                )


def _judge_refusal(
    case: Case, expected: dict[str, Any] | Exception, faults: list[Fault]
) -> Iterator[str]:
    for fault in faults:
        line = fault.where.line if fault.where else 0
        where = re.search(r"steps\[(\d+)\]", fault.path)
        if not (line and fault.mend and where and int(where[1]) >= _first(case)):
            yield f"not placed well: {fault}"
        if fault.code in ("E414", "E220"):
            yield f"an internal error: {fault}"
    if not (case.refusable or isinstance(expected, Exception)):
        yield f"refused ({faults[0]}), but Python computes {expected}"


def _first(case: Case) -> int:
    """Return the number of the first step of a case after those that make its values."""
    return _count_calls(case) + (0 if case.knowledge == "nothing" else len(case.before))


def _count_calls(case: Case) -> int:
    return 0 if case.knowledge == "all" else 1


def _compute(case: Case) -> dict[str, Any] | Exception:
    """Compute a case by Python; after each statement every name has a value of its own."""
    names: dict[str, Any] = {name: _value(text) for name, text in case.before}
    with np.errstate(all="ignore"):
        for statement in case.statements:
            try:
                exec(_with_copies(statement), {**MEANINGS, "own": _own}, names)
            except Exception as error:  # noqa: BLE001 - compared with what jobrun refuses
                return error
            names = {
                name: _copied(value) for name, value in names.items() if not name.startswith("_")
            }
    return names


def _with_copies(statement: str) -> CodeType:
    """Compile a statement of the language to Python: what becomes a container's item is copied."""
    (node,) = ast.parse(statement).body
    body: list[ast.stmt] = [node]
    if isinstance(node, ast.Assign):
        (target,) = node.targets
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        parts = ", ".join(f"_{number}" for number in range(len(targets)))
        body = ast.parse(f"{parts} = {ast.unparse(node.value)}").body
        for number, part in enumerate(map(ast.unparse, targets)):
            holder = part.partition("[")[0]
            value = f"own({holder}, _{number})" if "[" in part else f"_{number}"
            body += ast.parse(f"{part} = {value}").body
    return compile(ast.fix_missing_locations(ast.Module(body, [])), statement, "exec")


def _own(container: Any, value: Any) -> Any:
    return value if isinstance(container, np.ndarray) else _copied(value)


def _copied(value: Any) -> Any:
    """Copy a value; arrays in it that overlap do so in the copy, too."""
    copies: dict[int, np.ndarray[Any, Any]] = {}
    memories: dict[int, np.ndarray[Any, Any]] = {}
    for array in _arrays(value):
        root = array
        while isinstance(root.base, np.ndarray):
            root = root.base
        if root.flags.owndata and not root.dtype.hasobject:
            memory = memories.setdefault(id(root), root.ravel("K").copy().view(np.uint8))
            offset = _address(array) - _address(root)
            copies[id(array)] = np.ndarray(array.shape, array.dtype, memory, offset, array.strides)
    return copy.deepcopy(value, copies)


def _arrays(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _arrays(item)
    elif isinstance(value, dict):
        yield from _arrays(list(value.values()))


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])


def _same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, np.ndarray) and expected.dtype.hasobject:
        # Which no blob can hold; it is refused when it is saved.
        return repr(expected) == repr(actual)
    return same_bits(expected, actual)


def _value(text: str) -> Any:
    return eval(text, dict(MEANINGS))


def _compile(cases: Sequence[Case], folder: Path) -> tuple[dict[int, list[Fault]], dict[int, Task]]:
    """Compile cases to tasks; return the faults of those that are refused, and the others' tasks.

    What is found in a later stage of the compiler is found after the other faults are gone.
    """
    refusals: dict[int, list[Fault]] = {}
    while True:
        remaining = [number for number in range(len(cases)) if number not in refusals]
        tasks = [{"task": f"t{number}", "steps": _steps(cases[number])} for number in remaining]
        spec = {
            "jobrun": 1,
            "name": "statements",
            "init": [],
            "epoch": tasks or [{"task": "none", "steps": []}],
            "stop": [{"epochs": 1}],
        }
        path = folder / "statements.yaml"
        path.write_text(dump_tree(spec))
        try:
            job = compile_job(load_spec(str(path))).job
        except SpecError as error:
            for fault in error.faults:
                match = re.match(r"epoch(?:/t(\d+)|\[(\d+)\])", fault.path)
                assert match is not None, fault
                number = int(match[1]) if match[1] else remaining[int(match[2])]
                refusals.setdefault(number, []).append(fault)
        else:
            return refusals, {int(task.name[1:]): task for task in job.epoch.tasks if tasks}


def _steps(case: Case) -> list[Any]:
    call = "tests.property.functions:turned"
    values = [f"{name} = {text}" for name, text in case.before]
    if case.knowledge == "nothing":
        names = [name for name, _ in case.before]
        return [{"call": call, "with": {"x": "zeros(1)"}, "out": names}, *case.statements]
    if case.knowledge == "all":
        return [*values, *case.statements]
    lengths = [f"n{length}" for length in _LENGTHS]
    unknown = [re.sub(r"\bshape=\(([^)]*)\)", _with_lengths, value) for value in values]
    lengths_step = {"call": call, "with": {"x": "zeros(1)"}, "out": lengths}
    return [lengths_step, *unknown, *case.statements]


def _with_lengths(shape: re.Match[str]) -> str:
    lengths = re.sub("([0-9])", r"n\1", shape[1])
    return f"shape=({lengths})"


def _run(case: Case, task: Task) -> dict[str, Any]:
    """Run a case after the step that would call a function; return the values of its names."""
    blobs: dict[str, Any] = {}
    if case.knowledge == "nothing":
        blobs = {name: _value(text) for name, text in case.before}
    elif case.knowledge == "lengths unknown":
        blobs = {f"n{length}": length for length in _LENGTHS}
    with np.errstate(all="ignore"), Bench(**blobs) as bench:
        values = bench.do(*task.steps[_count_calls(case) :])
        return {name: values[name] for name in values}


def complaints(cases: Sequence[Case], folder: Path, batch: int = 1000) -> list[str]:
    """Judge many cases, a batch at a time; name the case for which the compiler ends in a bug."""
    if len(cases) > batch:
        return [
            complaint
            for start in range(0, len(cases), batch)
            for complaint in complaints(cases[start : start + batch], folder, batch)
        ]
    try:
        return judge(cases, folder)
    except Exception as error:  # noqa: BLE001 - any is a fault of the compiler
        half = len(cases) // 2
        if not half:
            return [f"{cases[0]}: the compiler raises {type(error).__name__}: {error}"]
        return complaints(cases[:half], folder) + complaints(cases[half:], folder)
