"""Explain what an expression may not contain, and what to write instead: syntax, functions, names.

Python's syntax and libraries have more than the language; some names are reserved, and no blob can
have them.
"""

from __future__ import annotations

import ast
import keyword
from collections.abc import Container
from typing import NamedTuple

from jobrun.compile.expressions.calls import DTYPE_WORDS
from jobrun.core.codes import Code
from jobrun.core.text.names import did_you_mean, nearest
from jobrun.graph.expressions import BUILTINS, DTYPES
from jobrun.ops.operator_table import DRAWS, OPERATORS


class Refusal(NamedTuple):
    """Why something cannot be written, and what to write instead."""

    message: str
    mend: str


class NameRefusal(NamedTuple):
    """Why a blob cannot have a name, and what to do."""

    code: Code
    message: str
    mend: str


_CALL_STEP = "write {call: 'module:function', with: {…}, out: …}"
_WHOLE_ARRAYS = f"use operations on whole arrays, or {_CALL_STEP}"
_OWN_STEP = "assign in a statement of its own"
_NO_FUNCTION = Refusal("functions cannot be defined here", f"write a net, or {_CALL_STEP}")
_NO_COMPREHENSION = Refusal("comprehensions are not supported", _WHOLE_ARRAYS)
_NO_IMPORT = Refusal(
    "imports are not supported",
    f"write functions without a module: sqrt(x); otherwise {_CALL_STEP}",
)

UNSUPPORTED_FORMS: dict[type[ast.AST], Refusal] = {
    ast.Lambda: _NO_FUNCTION,
    ast.ListComp: _NO_COMPREHENSION,
    ast.SetComp: _NO_COMPREHENSION,
    ast.DictComp: _NO_COMPREHENSION,
    ast.GeneratorExp: _NO_COMPREHENSION,
    ast.NamedExpr: Refusal("':=' is not supported", _OWN_STEP),
    ast.JoinedStr: Refusal(
        "f-strings are not supported", "use the text of a log step: log: 'x is {x}'"
    ),
    ast.Dict: Refusal("mappings are not supported", "use one blob per value"),
    ast.Set: Refusal("sets are not supported", "write a list, and use unique(…) if needed"),
    ast.Starred: Refusal("'*' is not supported here", "write the items out, or concatenate([a, "
        "b])"),
    ast.Slice: Refusal("a slice is used outside an index", "write x[start:stop]"),
    ast.Await: Refusal("'await' is not supported", _CALL_STEP),
    ast.Yield: Refusal("'yield' is not supported", _CALL_STEP),
    ast.YieldFrom: Refusal("'yield' is not supported", _CALL_STEP),
    ast.In: Refusal("'in' is not supported", "write isin(x, values)"),
    ast.NotIn: Refusal("'not in' is not supported", "write not any(isin(x, values))"),
    ast.Is: Refusal("'is' is not supported", "write =="),
    ast.IsNot: Refusal("'is not' is not supported", "write !="),
    ast.AnnAssign: Refusal("type annotations are not supported", "write name = value"),
    ast.If: Refusal("'if' is a separate step", "write {if: condition, then: […]}"),
    ast.For: Refusal("'for' is not supported", "write {loop: count, as: i, steps: […]}"),
    ast.While: Refusal("'while' is a separate step",
                       "write {while: condition, steps: […]}"),
    ast.Assert: Refusal("'assert' is a separate step",
                        "write {assert: condition, message: text}"),
    ast.Import: _NO_IMPORT,
    ast.ImportFrom: _NO_IMPORT,
    ast.FunctionDef: _NO_FUNCTION,
    ast.AsyncFunctionDef: _NO_FUNCTION,
    ast.ClassDef: Refusal("classes cannot be defined here", _CALL_STEP),
    ast.Return: Refusal("'return' is not supported", "write stop"),
    ast.Break: Refusal("'break' is not supported", "write {stop_if: condition}"),
    ast.Continue: Refusal("'continue' is not supported",
                          "put the rest of the iteration into {if: condition, then: […]}"),
    ast.Pass: Refusal("'pass' is not supported", "remove the step"),
    ast.Raise: Refusal("'raise' is not supported",
                       "write {assert: condition, message: text}"),
    ast.Try: Refusal("'try' is not supported", _CALL_STEP),
    ast.With: Refusal("'with' is not supported", _CALL_STEP),
    ast.Global: Refusal("'global' is not supported",
                        "an assignment writes to the blob of the node of that name"),
    ast.Nonlocal: Refusal("'nonlocal' is not supported",
                          "an assignment writes to the blob of the node of that name"),
    ast.Match: Refusal("'match' is not supported", "write {if: …, elif: […]}"),
}  # fmt: skip

OTHER_FORM = Refusal("this syntax is not supported", "write assignments and calls of functions")

LIBRARIES = frozenset(("np", "numpy", "math", "jnp", "scipy"))

# Libraries other than numpy: a blob may have such a name, too.
_MODULES = frozenset(
    ("jax", "os", "pandas", "pd", "random", "sklearn", "sys", "tf", "time", "torch")
)

# Functions of Python and other libraries → the operator or step that does the same.
_FUNCTIONS = {
    "print": "use a log step: log: 'x is {x}'",
    "range": "write arange(…), or a loop step",
    "pow": "write x ** y",
    "sorted": "write sort(x)",
    "reversed": "write flip(x)",
    "open": "use a load or save step",
    "input": "use params",
    "str": "format values in a log step",
    "format": "format values in a log step",
    "list": "write array(…)",
    "tuple": "write the items in brackets",
    "map": _WHOLE_ARRAYS,
    "filter": "write x[condition]",
    "zip": "write stack([a, b], axis=1)",
    "enumerate": "write arange(len(x))",
    "empty": "write zeros(…): the contents of empty are undefined",
    "scatter": "write index_set(…) or index_add(…)",
    "fill": "write full(…), or x[:] = value",
    "const": "write the value",
    "ln": "write log(x)",
    "shape": "write x.shape",
    "size": "write x.size",
    "ndim": "write x.ndim",
    "append": "write concatenate([a, b])",
}

# Methods → the function that does the same; any other has the name of its function.
_METHODS = {
    "append": "write concatenate([{x}, …])",
    "flatten": "write ravel({x})",
    "item": "write float({x}) or int({x})",
    "tolist": "blobs hold arrays; remove it",
    "astype": "write astype({x}, float32)",
    "view": "write astype({x}, dtype)",
    "fill": "write {x}[:] = value",
    "shuffle": "write x = rng.permutation(x)",
    "keys": "a blob is not a mapping",
    "format": "text is formatted by log and message: log: '{{x:.3f}}'",
}

_OF_TEXT = frozenset((
    "upper", "lower", "strip", "split", "join", "replace", "startswith", "endswith", "encode",
    "title", "find", "zfill", "removeprefix", "removesuffix",
))  # fmt: skip

FOREIGN_WORDS = {
    "true": "write True", "false": "write False", "null": "write None", "none": "write None",
    "newaxis": "write None", "self": "name the blob itself",
}  # fmt: skip

_BAD_DRAWS = {
    "shuffle": "write x = rng.permutation(x)",
    "rand": "write rng.random(size)",
    "randn": "write rng.standard_normal(size)",
    "randint": "write rng.integers(low, high, size)",
    "random_sample": "write rng.random(size)",
    "sample": "write rng.choice(x, size, replace=False)",
    "seed": "give the job another seed: seed: 7",
    "spawn": "every task, instance and branch has its own stream",
    "bytes": "write rng.integers(0, 256, size, dtype=uint8)",
    "bit_generator": "the stream belongs to jobrun",
}


# Functions of the first version of the language; a blob hides one that was added later.
FUNCTIONS = frozenset(name for name, operator in OPERATORS.items() if operator.since == 1)
RESERVED = frozenset(
    (*DTYPES, *(name.split(".")[0] for name in BUILTINS), *FUNCTIONS, *keyword.kwlist,
     "rng", "iter", "forever", "stop")
)  # fmt: skip
# Words that can have a fixed meaning in an expression; any other word is an ordinary name.
MEANINGFUL = RESERVED.union(LIBRARIES, FOREIGN_WORDS, DTYPE_WORDS)
# The names that can follow ``node.``.
NODE_PARTS = tuple(name.removeprefix("node.") for name in BUILTINS if name.startswith("node."))


def explain_unknown_function(name: str) -> Refusal:
    """Explain that a called name is no function, and which syntax to write instead."""
    message = f"unknown function '{name}'"
    mend = _FUNCTIONS.get(name)
    if mend is None:
        match = nearest(name, OPERATORS)
        mend = (
            f"did you mean '{match}'?"
            if match
            else f"'jobrun ops' lists them; otherwise {_CALL_STEP}"
        )
    return Refusal(message, mend)


def explain_unknown_method(name: str, value: str) -> Refusal:
    """Explain the unsupported syntax of a method call on a value, and what to write instead."""
    message = "values have no methods"
    shown = value if len(value) <= 20 else "x"
    if name in _METHODS:
        return Refusal(message, _METHODS[name].format(x=shown))
    if name in _OF_TEXT:
        return Refusal(
            message, f"text is concatenated with + and formatted by log; otherwise {_CALL_STEP}"
        )
    if value == "random":
        return explain_library_call(name, is_draw=True)
    if name in OPERATORS:
        return Refusal(
            message, f"write {name}(…)" if value in _MODULES else f"write {name}({shown})"
        )
    if not value.isidentifier():
        return Refusal(message, f"write a function, such as sum({shown}); 'jobrun ops' lists them")
    return Refusal(
        message,
        f"if {value} is a module, write {{call: '{value}:{name}', with: {{…}}, out: …}}; if it is "
        f"a blob, a function, such as sum({shown}): 'jobrun ops' lists them",
    )


def explain_library_name(name: str) -> Refusal:
    """Explain the unsupported syntax ``np.name`` and the like, and what to write instead."""
    message = "functions are written without a module"
    if name in ("random", "linalg", "fft"):
        return Refusal(message, "remove the module: norm(x), rng.normal(size=3)")
    if name == "newaxis":
        return Refusal(message, "write None")
    return Refusal(message, f"write {name}" if name else "remove the module")


def explain_library_call(name: str, *, is_draw: bool) -> Refusal:
    """Explain that the syntax ``np.name(…)`` is unsupported, and what to write instead.

    Args:
        name: The function's.
        is_draw: It is one of ``np.random`` or ``random``.
    """
    known = explain_library_name(f"rng.{name}" if is_draw else name)
    if is_draw and name not in DRAWS:
        return known._replace(mend=explain_unknown_draw(name).mend)
    if is_draw or name in OPERATORS or name in DTYPES:
        return known
    return known._replace(mend=explain_unknown_function(name).mend)


def explain_unknown_draw(name: str) -> Refusal:
    """Explain the unsupported syntax ``rng.name(…)``: the random stream has no such method."""
    return Refusal(
        f"unknown method of rng '{name}'", _BAD_DRAWS.get(name) or did_you_mean(name, DRAWS)
    )


def find_name_refusal(name: str, params: Container[str]) -> NameRefusal | None:
    """Return why a blob's name is refused, as a ``NameRefusal``; None if it is allowed."""
    if name in params:
        message = f"'{name}' is a param, so a blob cannot have this name"
        return NameRefusal("E150", message, "rename the blob")
    if name in RESERVED:
        message = f"'{name}' is a reserved word of the spec language"
        return NameRefusal("E151", message, f"write for example '{name}_'")
    if name.startswith("__"):
        return NameRefusal(
            "E107", "a name must not begin with two underscores", "choose another name"
        )
    return None


def explain_reserved(name: str) -> Refusal | None:
    """Explain why a reserved name such as ``rng`` is no value in expressions; else None."""
    if name == "rng":
        return Refusal(
            "'rng' is not a value",
            "draw from it: rng.normal(size=3); a called function with an argument named rng "
            "gets it without 'with'",
        )
    if name == "node":
        mend = f"write {' or '.join(f'node.{part}' for part in NODE_PARTS)}"
        return Refusal("'node' is not a value", mend)
    if name in LIBRARIES:
        return Refusal(f"'{name}' is not a value", "write functions without a module: sqrt(x)")
    if name in FOREIGN_WORDS:
        return Refusal(f"'{name}' is not a value", FOREIGN_WORDS[name])
    if name in FUNCTIONS:
        word = DTYPE_WORDS.get(name)
        mend = f"call it: {name}(…)" + (f"; as a dtype write {word}" if word else "")
        return Refusal(f"'{name}' is a function, not a value", mend)
    return None
