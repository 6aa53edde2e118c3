"""Check that the callables of a job exist, and that their signatures fit the calls.

Parameters are read from the text of the callable's module, which is not imported, and only where
the text alone decides them: a plain ``def``, or a class without a base, that nothing decorates and
nothing in the module binds again.
"""

from __future__ import annotations

import ast
import importlib
import sys
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from jobrun.core.errors import Fault
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import CALL_EXTRAS, CallPython
from jobrun.graph.types import Job
from jobrun.runner.identity.code_digests import Source, find_source
from jobrun.runtime.callables.user_modules import find_hidden_module, hidden_module_texts

# Functions that can bind names that the source does not show, as ``import *`` does.
_OPAQUE = frozenset({"globals", "locals", "vars", "setattr", "exec", "eval"})
_ANYTHING = "*"


def check_callables(job: Job, folder: Path, *, imports: bool = False) -> Iterator[Fault]:
    """Check that each callable of a job exists and takes its arguments, by reading its source.

    Args:
        job: The job.
        folder: The spec's folder, absolute.
        imports: Import the modules too, which runs their code.
    """
    for step in iter_steps(job):
        if isinstance(step, CallPython):
            yield from _check_callable(step, folder, imports=imports)


def _check_callable(step: CallPython, folder: Path, *, imports: bool) -> Iterator[Fault]:
    module, _, function = step.target.partition(":")
    base = folder / step.folder
    source = find_source(module, base)
    if source is None:
        message = f"no module '{module}' for {step.target}"
        mend = f"put {module.replace('.', '/')}.py beside the spec, or install it"
        if module.endswith(".py"):
            mend = f"write '{module.removesuffix('.py')}:{function}', without '.py'"
        yield Fault("E374", message, mend, step.origin, step.path)
        return
    hidden = find_hidden_module(module, str(base))
    if hidden:
        message, mend = hidden_module_texts(module, hidden)
        yield Fault("E392", message, mend, step.origin, step.path)
        return
    if imports:
        yield from _check_import(step, module, function, base)
    else:
        yield from _check_definition(step, source, function, folder)
    yield from _check_arguments(step, source, function)


def _check_definition(
    step: CallPython, source: Source, function: str, folder: Path
) -> Iterator[Fault]:
    if source.path is None or source.path.suffix != ".py":
        return
    is_defined, known = find_definition(source.path, function.partition(".")[0])
    if not is_defined:
        message = f"{source.path.name} has no '{function}'"
        mend = did_you_mean(function, known)
        if source.path.is_relative_to(folder):
            yield Fault("E392", message, mend, step.origin, step.path)
        else:
            yield Fault("E374", message, mend, step.origin, step.path)


def _check_arguments(step: CallPython, source: Source, function: str) -> Iterator[Fault]:
    """Check a ``call``'s arguments against the signature in the callable's source."""
    if source.path is None or source.path.suffix != ".py":
        return
    takes = find_parameters(source.path, function)
    if takes is None:
        return
    argument_names = [name for name, _ in step.arguments]
    known = {*takes.names, *takes.positional}
    unknown = [name for name in argument_names if name not in known and not takes.takes_any]
    free = [name for name in takes.names if name not in argument_names]
    missing = [
        name for name in takes.required if name not in argument_names and name not in CALL_EXTRAS
    ]
    faults: list[tuple[str, str]] = []
    for name in unknown:
        meant = nearest(name, free)
        if meant in missing:
            missing.remove(meant)
        mend = did_you_mean(name, free) if free else "take it out of 'with'"
        faults.append((f"{step.target} has no parameter '{name}'", mend))
    for name in missing:
        mend = f"write with: {{{name}: …}}, or give the parameter a default"
        faults.append((f"{step.target} needs '{name}', which 'with' does not give", mend))
    for name in takes.positional:
        mend = "take '/' out of its parameters"
        message = f"'{name}' of {step.target} can be given by position only, and 'with' gives names"
        faults.append((message, mend))
    for message, mend in faults:
        yield Fault("E393", message, mend, step.origin, step.path)


def _check_import(step: CallPython, module: str, function: str, base: Path) -> Iterator[Fault]:
    sys.path.insert(0, str(base))
    try:
        attribute: object = importlib.import_module(module)
        for name in function.split("."):
            attribute = getattr(attribute, name)
    except Exception as error:  # noqa: BLE001 - a module's own code may raise anything
        message = f"{step.target} cannot be imported: {type(error).__name__}: {error}"
        mend = "fix the module, or install what it needs"
        yield Fault("E374", message, mend, step.origin, step.path)
    finally:
        sys.path.remove(str(base))


def find_definition(path: Path, name: str) -> tuple[bool, tuple[str, ...]]:
    """Return whether a module's source could define a callable, and which names it defines.

    It may where the text alone does not decide it.
    """
    tree = parse_source(path)
    if tree is None:
        # The import itself reports what is wrong, with a better message.
        return True, ()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    known = tuple(node.name for node in tree.body if isinstance(node, kinds))
    bound = set(known)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            bound.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, kinds):
            bound.add(node.name)
    return name in bound or "*" in bound or "__getattr__" in bound, known


def parse_source(path: Path) -> ast.Module | None:
    """Parse a module to find its callables' signatures; return None if that fails."""
    try:
        return _parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@lru_cache(maxsize=8)
def _parse(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        # Warnings about escapes in strings; the import repeats them.
        warnings.simplefilter("ignore")
        return ast.parse(text)


class Parameters(Struct, frozen=True):
    """The parameters of a callable.

    Attributes:
        names: Those that can be given by name.
        required: Those of them that have no default.
        positional: Those without a default that can be given by position only.
        takes_any: Other names are taken too (``**kwargs``).
    """

    names: tuple[str, ...]
    required: tuple[str, ...]
    positional: tuple[str, ...]
    takes_any: bool


def find_parameters(path: Path, name: str) -> Parameters | None:
    """Read a callable's parameters from its module's source; return None if they are unclear.

    Args:
        path: The module's source.
        name: A function, a class, or a function in a class: ``Class.function``.
    """
    tree = parse_source(path)
    if tree is None:
        return None
    *classes, last = name.split(".")
    body: Sequence[ast.stmt] = tree.body
    for class_name in classes:
        definition = _only_definition(body, class_name, tree)
        if (
            not isinstance(definition, ast.ClassDef)
            or definition.decorator_list
            or definition.keywords
        ):
            return None
        body = definition.body
    definition = _only_definition(body, last, tree)
    if isinstance(definition, ast.FunctionDef) and not definition.decorator_list:
        # In a class, ``self`` is a parameter like the others; ``__new__`` is not examined.
        return None if classes and last.startswith("__") else _parameters(definition.args, 0)
    if isinstance(definition, ast.ClassDef):
        return _constructor(definition, tree)
    return None


def _constructor(definition: ast.ClassDef, tree: ast.Module) -> Parameters | None:
    bases = [
        base
        for base in definition.bases
        if not (isinstance(base, ast.Name) and base.id == "object")
    ]
    # Unclear without an import: a base class, or a decorator that makes ``__init__`` (dataclass).
    if (
        bases
        or definition.keywords
        or definition.decorator_list
        or "__new__" in _bound(definition.body)
    ):
        return None
    if "__init__" not in _bound(definition.body):
        return Parameters((), (), (), takes_any=False)
    init = _only_definition(definition.body, "__init__", tree)
    if not isinstance(init, ast.FunctionDef) or init.decorator_list:
        return None
    return _parameters(init.args, 1)


def _parameters(args: ast.arguments, bound_count: int) -> Parameters | None:
    """Return a signature's parameters except for the first ``bound_count``; None if unclear."""
    by_position = [*args.posonlyargs, *args.args]
    if len(by_position) < bound_count:
        # ``def __init__(*args)``.
        return None
    without_default = len(by_position) - len(args.defaults)
    positional = [parameter.arg for parameter in args.posonlyargs[bound_count:]]
    by_name = [
        parameter.arg for parameter in by_position[max(bound_count, len(args.posonlyargs)) :]
    ]
    needed = [parameter.arg for parameter in by_position[bound_count:without_default]]
    alone = [parameter.arg for parameter in args.kwonlyargs]
    alone_needed = [
        parameter.arg
        for parameter, value in zip(args.kwonlyargs, args.kw_defaults, strict=True)
        if not value
    ]
    return Parameters(
        (*by_name, *alone),
        (*(name for name in needed if name in by_name), *alone_needed),
        tuple(name for name in positional if name in needed),
        takes_any=args.kwarg is not None,
    )


def _only_definition(body: Sequence[ast.stmt], name: str, tree: ast.Module) -> ast.stmt | None:
    """Find the one statement that defines a callable, for its signature; None if unclear."""
    bound = _bound(body)
    if bound.count(name) != 1 or _ANYTHING in bound or name in _bound_from_elsewhere(tree):
        return None
    kinds = (ast.FunctionDef, ast.ClassDef)
    return next(
        (
            statement
            for statement in body
            if isinstance(statement, kinds) and statement.name == name
        ),
        None,
    )


def _bound(body: Sequence[ast.stmt]) -> list[str]:
    """List all names that the statements of a class or module bind, to find a callable."""
    bound: list[str] = []
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                bound.append(name)
                continue
            case ast.ClassDef(name=name):
                bound.append(name)
                continue
            case ast.Lambda():
                continue
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                bound += [(alias.asname or alias.name).partition(".")[0] for alias in aliases]
            case ast.Name(id=name, ctx=ast.Load()):
                bound += [_ANYTHING] if name in _OPAQUE else []
            case ast.Name(id=name):
                bound.append(name)
            case ast.Attribute(attr="modules"):
                bound.append(_ANYTHING)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                bound.append(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                bound.append(name)
            case _:
                pass
        waiting += ast.iter_child_nodes(node)
    return bound


@lru_cache(maxsize=8)
def _bound_from_elsewhere(tree: ast.Module) -> frozenset[str]:
    """List names whose callable may be replaced: by ``global``, or by setting an attribute."""
    rebound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Global):
            rebound.update(node.names)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            rebound.add(node.attr)
    return frozenset(rebound)
