"""What Python has and the spec language has not, and what to write instead. Tables only."""

from __future__ import annotations

import ast
from typing import NamedTuple

from jobrun.core.names import did_you_mean, nearest
from jobrun.ops.table import DRAWS, OPERATORS


class Refusal(NamedTuple):
    """Why something cannot be written, and what can."""

    message: str
    mend: str


_CALL_STEP = "write {call: 'module:function', with: {…}, out: …}"
_WHOLE_ARRAYS = f"work on whole arrays, or {_CALL_STEP}"
_OWN_STEP = "assign in a statement of its own"
_NO_FUNCTION = Refusal("a function cannot be made here", f"write a net, or {_CALL_STEP}")
_NO_COMPREHENSION = Refusal("a comprehension is not part of the language", _WHOLE_ARRAYS)
_NO_IMPORT = Refusal(
    "nothing can be imported", f"functions are known by name alone: sqrt(x); else {_CALL_STEP}"
)

FORMS: dict[type[ast.AST], Refusal] = {
    ast.Lambda: _NO_FUNCTION,
    ast.ListComp: _NO_COMPREHENSION,
    ast.SetComp: _NO_COMPREHENSION,
    ast.DictComp: _NO_COMPREHENSION,
    ast.GeneratorExp: _NO_COMPREHENSION,
    ast.NamedExpr: Refusal("':=' is not part of the language", _OWN_STEP),
    ast.JoinedStr: Refusal(
        "an f-string is not part of the language", "use the text of a log step: log: 'x is {x}'"
    ),
    ast.Dict: Refusal("a mapping cannot be a value", "use one blob for each of its values"),
    ast.Set: Refusal("a set cannot be a value", "write a list, and unique(…) where needed"),
    ast.Starred: Refusal("'*' does not unpack here", "write the items out, or concatenate([a, b])"),
    ast.Slice: Refusal("a slice stands outside of an index", "write x[start:stop]"),
    ast.Await: Refusal("'await' is not part of the language", _CALL_STEP),
    ast.Yield: Refusal("'yield' is not part of the language", _CALL_STEP),
    ast.YieldFrom: Refusal("'yield' is not part of the language", _CALL_STEP),
    ast.In: Refusal("'in' is not part of the language", "write isin(x, values)"),
    ast.NotIn: Refusal("'not in' is not part of the language", "write not any(isin(x, values))"),
    ast.Is: Refusal("'is' is not part of the language", "write =="),
    ast.IsNot: Refusal("'is not' is not part of the language", "write !="),
    ast.AnnAssign: Refusal("a type cannot be given to a name", "write name = value"),
    ast.If: Refusal("this form of 'if' is a step of its own", "write {if: condition, then: […]}"),
    ast.For: Refusal("'for' is not part of the language", "write {loop: count, as: i, steps: […]}"),
    ast.While: Refusal("this form of 'while' is a step of its own",
                       "write {while: condition, steps: […]}"),
    ast.Assert: Refusal("this form of 'assert' is a step of its own",
                        "write {assert: condition, message: text}"),
    ast.Import: _NO_IMPORT,
    ast.ImportFrom: _NO_IMPORT,
    ast.FunctionDef: _NO_FUNCTION,
    ast.AsyncFunctionDef: _NO_FUNCTION,
    ast.ClassDef: Refusal("a class cannot be made here", _CALL_STEP),
    ast.Return: Refusal("'return' is not part of the language", "write stop"),
    ast.Break: Refusal("'break' is not part of the language", "write {stop_if: condition}"),
    ast.Continue: Refusal("'continue' is not part of the language",
                          "put the rest of the pass into {if: condition, then: […]}"),
    ast.Pass: Refusal("'pass' is not part of the language", "leave the step out"),
    ast.Raise: Refusal("'raise' is not part of the language",
                       "write {assert: condition, message: text}"),
    ast.Try: Refusal("'try' is not part of the language", _CALL_STEP),
    ast.With: Refusal("'with' is not part of the language", _CALL_STEP),
    ast.Global: Refusal("'global' is not part of the language",
                        "a task writes to the node's blob of the name by itself"),
    ast.Nonlocal: Refusal("'nonlocal' is not part of the language",
                          "a task writes to the node's blob of the name by itself"),
    ast.Match: Refusal("'match' is not part of the language", "write {if: …, elif: […]}"),
}  # fmt: skip

OTHER = Refusal("this is not part of the language", "write assignments and calls of functions")

LIBRARIES = frozenset(("np", "numpy", "math", "jnp", "scipy"))

# Functions of Python and of others, and the operator or step that does the same.
_FUNCTIONS = {
    "print": "use a log step: log: 'x is {x}'",
    "range": "write arange(…), or a loop step",
    "pow": "write x ** y",
    "sorted": "write sort(x)",
    "reversed": "write flip(x)",
    "open": "use a load or save step",
    "input": "use params",
    "str": "text of a value belongs into a log step",
    "format": "text of a value belongs into a log step",
    "list": "write array(…)",
    "tuple": "write the items in brackets",
    "map": _WHOLE_ARRAYS,
    "filter": "write x[condition]",
    "zip": "write stack([a, b], axis=1)",
    "enumerate": "write arange(len(x))",
    "empty": "write zeros(…): what empty holds is not a function of anything",
    "scatter": "write index_set(…) or index_add(…)",
    "fill": "write full(…), or x[:] = value",
    "const": "write the value",
    "ln": "write log(x)",
    "shape": "write x.shape",
    "size": "write x.size",
    "ndim": "write x.ndim",
    "append": "write concatenate([a, b])",
}

# Methods, and the function that does the same; others of one name are functions as they are.
_METHODS = {
    "append": "write concatenate([{x}, …])",
    "flatten": "write ravel({x})",
    "item": "write float({x}) or int({x})",
    "tolist": "blobs hold arrays; leave it out",
    "astype": "write astype({x}, float32)",
    "view": "write astype({x}, dtype)",
    "fill": "write {x}[:] = value",
    "shuffle": "write x = rng.permutation(x)",
    "keys": "a blob is no mapping",
    "format": "text is filled in by log and message: log: '{{x:.3f}}'",
}

_OF_TEXT = frozenset((
    "upper", "lower", "strip", "split", "join", "replace", "startswith", "endswith", "encode",
    "title", "find", "zfill", "removeprefix", "removesuffix",
))  # fmt: skip

WORDS = {
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
    "spawn": "every task, instance and branch has a stream of its own",
    "bytes": "write rng.integers(0, 256, size, dtype=uint8)",
    "bit_generator": "the stream belongs to jobrun",
}


def unknown_function(name: str) -> Refusal:
    """For a call of something that is no function."""
    message = f"there is no function '{name}'"
    mend = _FUNCTIONS.get(name)
    if mend is None:
        match = nearest(name, OPERATORS)
        mend = (
            f"did you mean '{match}'?" if match else f"'jobrun ops' lists them; else {_CALL_STEP}"
        )
    return Refusal(message, mend)


def unknown_method(name: str, value: str) -> Refusal:
    """For a call of a method of ``value``, as it is written."""
    message = "values have no methods"
    shown = value if len(value) <= 20 else "x"
    if name in _METHODS:
        return Refusal(message, _METHODS[name].format(x=shown))
    if name in _OF_TEXT:
        return Refusal(message, f"text is joined with + and filled in by log; else {_CALL_STEP}")
    if name in OPERATORS:
        return Refusal(message, f"write {name}({shown})")
    return Refusal(
        message, f"write a function of it, such as sum({shown}); 'jobrun ops' lists them"
    )


def library_name(name: str) -> Refusal:
    """For ``np.name``."""
    message = "functions are known by their name alone"
    if name in ("random", "linalg", "fft"):
        return Refusal(message, "leave the library out: norm(x), rng.normal(size=3)")
    if name == "newaxis":
        return Refusal(message, "write None")
    return Refusal(message, f"write {name}" if name else "leave the library out")


def unknown_draw(name: str) -> Refusal:
    """For ``rng.name``, where that is no draw."""
    return Refusal(
        f"rng has no method '{name}' here", _BAD_DRAWS.get(name) or did_you_mean(name, DRAWS)
    )
