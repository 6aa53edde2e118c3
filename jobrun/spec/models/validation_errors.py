"""Convert pydantic's validation errors to faults: place in the file, plain words, and fix."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any, NamedTuple, get_args, get_origin

from msgspec import Struct
from pydantic import ValidationError

from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin
from jobrun.core.text.names import nearest
from jobrun.core.text.patterns import lazy_pattern
from jobrun.spec.models.base_types import Model
from jobrun.spec.models.model_keys import (
    field_of,
    is_model,
    keys_of,
    strip_annotation,
    tagged_members,
)
from jobrun.spec.models.step_forms import FORMS
from jobrun.spec.yaml.nodes import Path, Scalar, SourceMap, path_text
from jobrun.spec.yaml.scalars import both_readings

_KEY_MARK = "[key]"
_COUNTED = lazy_pattern(r"for (\w+) .*?(?:range\(([^(),]*)\))?")
_ASSIGNMENT = lazy_pattern(r"[\w, \[\]]+ [-+*/]?= ")
_ANNOTATED = lazy_pattern(r"[\w.\[\], ]+ = (.+)")
# Keys that people use by mistake, because another step or program has them → the right key.
_OTHER_NAMES = {
    "steps": "then", "do": "steps", "body": "steps", "args": "with", "arguments": "with",
    "kwargs": "with", "inputs": "with", "params": "with", "result": "out", "returns": "out",
}  # fmt: skip
# Words that people use for a loop, a program and a function.
_LOOPS = frozenset(("for", "repeat", "times", "range"))
_PROGRAMS = frozenset(("bash", "cmd", "command", "exec", "script", "sh", "shell", "system"))
_FUNCTIONS = frozenset(("function", "func", "py", "python"))


class _Words(NamedTuple):
    code: Code
    message: str
    mend: str


class _Error(NamedTuple):
    """A pydantic error, with what is needed to write its message."""

    kind: str
    value: Any
    context: dict[str, Any]
    located: Located
    node: Scalar | None
    text: str


def model_faults(error: ValidationError, root: type[Model], source: SourceMap) -> list[Fault]:
    """Convert pydantic's validation errors to ``Fault`` objects, with place, message and fix.

    In the order of the models.
    """
    faults = []
    for item in error.errors(include_url=False):
        located = locate(root, item["loc"])
        node = source.node(located.path)
        described = _Error(
            item["type"],
            item["input"],
            item.get("ctx", {}),
            located,
            node if isinstance(node, Scalar) else None,
            item["msg"],
        )
        words = _param_first(_WORDS.get(described.kind, _other)(described), located.path, source)
        where = _where(described, source)
        faults.append(Fault(words.code, words.message, words.mend, where, path_text(located.path)))
    return faults


def _where(error: _Error, source: SourceMap) -> Origin:
    path = error.located.path
    if error.kind == "missing":
        return source.at(path[:-1])
    if error.located.is_key or error.kind == "extra_forbidden":
        return source.key(path)
    return source.at(path)


def _missing(error: _Error) -> _Words:
    key = str(error.located.path[-1])
    model = error.located.model
    field = field_of(model, key) if model is not None else None
    meaning = f" ({field.description})" if field is not None and field.description else ""
    return _Words("E020", "missing key", f"add '{key}: …'{meaning}")


def _unknown_key(error: _Error) -> _Words:
    key, model = str(error.located.path[-1]), error.located.model
    allowed = keys_of(model) if model is not None else ()
    other = _OTHER_NAMES.get(key)
    match = other if other in allowed else nearest(key, allowed)
    hint = f"did you mean '{match}'?  " if match else ""
    return _Words("E021", "unknown key", f"{hint}allowed here: {', '.join(allowed)}")


def _param_first(words: _Words, path: Path, source: SourceMap) -> _Words:
    """Suggest ``params.k`` in the validation error for an unknown key ``k`` that names a param."""
    if words.code != "E021" or len(path) != 1 or source.node(("params", *path)) is None:
        return words
    return words._replace(mend=f"did you mean 'params.{path[0]}'?  {words.mend}")


def _unknown_step(error: _Error) -> _Words:
    forms = ", ".join(FORMS)
    if not isinstance(error.value, dict):
        message = f"expected a step, found {describe_value(error.value)}"
        mend = f"a step is a statement such as 'w -= lr * g', or has one of: {forms}"
        return _Words("E027", message, mend)
    line = _python_line(error.value)
    if line:
        return _Words("E027", "unknown step", f"write {line}")
    candidates = [nearest(key, FORMS) for key in error.value]
    match = next((candidate for candidate in candidates if candidate is not None), None)
    hint = f"did you mean '{match}'?  " if match else ""
    return _Words("E027", "unknown step", f"{hint}a step is a statement, or has one of: {forms}")


def _python_line(step: dict[str, Any]) -> str:
    """Guess which step was meant where a validation error finds Python code as a step."""
    (key, value), *others = (*step.items(), ("", None))
    if key in _LOOPS:
        return "{loop: count, as: i, steps: […]}"
    if key in _PROGRAMS and isinstance(value, str):
        return f'{{run: "{value}"}}'
    if key in _FUNCTIONS and isinstance(value, str):
        return '{call: "module:function", with: {…}, out: …}'
    if len(others) > 1:
        return ""
    word, _, condition = key.partition(" ")
    # A block below the line, or one statement after the colon.
    steps = f'["{value}"]' if isinstance(value, str | int | float | bool) else "[…]"
    if word in ("if", "while") and condition:
        return f'{{{word}: "{condition}", {"then" if word == "if" else "steps"}: {steps}}}'
    if counted := _COUNTED.fullmatch(key):
        name, count = counted[1], (counted[2] or "").strip() or "count"
        return f"{{loop: {count}, as: {name}, steps: {steps}}}"
    if steps == "[…]":
        return ""
    if _ASSIGNMENT.match(key):
        return "the step in quotes: a ':' in it makes it a mapping of YAML"
    if key.isidentifier() and isinstance(value, str) and (annotated := _ANNOTATED.fullmatch(value)):
        return f"'{key} = {annotated[1]}', without a type"
    if key == "print":
        return f'{{log: "{value}"}}'
    if key.isidentifier() and nearest(key, FORMS) is None:
        return f"'{key} = {value}' to assign a blob"
    return ""


def _expected(expectation: str, kind: str = "") -> Callable[[_Error], _Words]:
    """Build the function that writes the validation error for a value of a wrong type."""

    def _words(error: _Error) -> _Words:
        message = f"expected {expectation}, found {describe_value(error.value)}"
        return _two_readings(error, expectation, kind) or _Words(
            "E022", message, _mend_type(error, expectation)
        )

    return _words


def _two_readings(error: _Error, expectation: str, kind: str) -> _Words | None:
    """Explain in a validation error that YAML 1.1 read this text as a number or bool."""
    node = error.node
    if node is None or not node.plain or not isinstance(node.value, str):
        return None
    words = both_readings(node.value, expectation, kind) if kind else None
    return _Words("E023", *words) if words is not None else None


def _mend_type(error: _Error, expectation: str) -> str:
    value = error.value
    if value is None:
        return "write a value, or remove the key"
    if isinstance(value, str) and error.node is not None and not error.node.plain:
        return f"write {expectation}, without quotes"
    if expectation == _TEXT and isinstance(value, bool | int | float):
        return "quote it to make it text"
    if expectation == "an expression":
        return "write text, a number, true, false, or a list of them"
    if expectation == "a mapping" and (example := _example_mapping(error.located.path[-1], value)):
        return f"write {example}"
    if expectation == "a list" and isinstance(value, dict):
        return "start each item with '- '"
    if expectation == "a list":
        return "put it in [ ]"
    return f"write {expectation}"


def _example_mapping(key: str | int, value: Any) -> str:
    """Suggest for a validation error the mapping to write instead of a step's value, or ""."""
    if key == "metric" and isinstance(value, str) and value.isidentifier():
        return f"metric: {{{value}: {value}}}"
    if key in ("save", "load") and isinstance(value, str):
        name = PurePath(value).stem
        return f'{key}: {{{name if name.isidentifier() else "x"}: "{value}"}}'
    if key == "with" and isinstance(value, list | tuple):
        return "each argument under its name in the function: with: {x: x, rate: 0.1}"
    return ""


def describe_value(value: Any) -> str:
    """Describe a wrong value in a few words, to end a validation error with 'found …'."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, str):
        shown = value if len(value) <= 40 else value[:39] + "…"
        return f"the text {shown!r}"
    return "a list" if isinstance(value, list | tuple) else "a mapping"


_KINDS = {"'text'": "a single value", "'list'": "a list", "'mapping'": "a mapping"}


def _wrong_kind(error: _Error) -> _Words:
    tags = str(error.context.get("expected_tags", "")).split(", ")
    wanted = " or ".join(_KINDS.get(tag, tag) for tag in tags)
    message = f"expected {wanted}, found {describe_value(error.value)}"
    return _Words("E022", message, f"write {wanted}")


def _bound(pattern: str) -> Callable[[_Error], _Words]:
    def _words(error: _Error) -> _Words:
        wanted = pattern.format(**error.context)
        return _Words("E024", f"expected {wanted}, found {error.value}", f"write {wanted}")

    return _words


def _always(code: Code, message: str, mend: str) -> Callable[[_Error], _Words]:
    """Build the function that gives one kind of validation error a fixed message and fix."""
    return lambda _error: _Words(code, message, mend)


def _choice(error: _Error) -> _Words:
    wanted = str(error.context.get("expected", ""))
    if error.located.path == ("checkpoint",):
        wanted += " or a mapping"
    choices = [word.strip("' ") for word in wanted.replace(" or ", ", ").split(", ")]
    match = nearest(error.value, choices) if isinstance(error.value, str) else None
    hint = f"did you mean '{match}'?  " if match else ""
    message = f"expected {wanted}, found {describe_value(error.value)}"
    return _Words("E025", message, f"{hint}use one of: {', '.join(choices)}")


def _name(error: _Error) -> _Words:
    mend = (
        "use letters, digits, '_', '.' and '-', at most 64, not starting with '.' or '-': "
        "names become part of file names"
    )
    return _Words("E026", f"expected a name, found {describe_value(error.value)}", mend)


def _blob_name(error: _Error) -> _Words:
    mend = "use letters, digits and '_', at most 64, not starting with a digit"
    return _Words("E026", f"expected a blob's name, found {describe_value(error.value)}", mend)


def _one_key(error: _Error) -> _Words:
    present = error.context["given"]
    message = f"exactly one of its keys is required, found {present or 'none'}"
    mend = f"use one of: {error.context['keys']}"
    if present and error.located.path[:1] == ("stop",):
        mend = "write each as an item of its own: any of them stops the job"
    return _Words("E028", message, mend)


def _version(error: _Error) -> _Words:
    message = f"expected version 1 of the spec language, found {describe_value(error.value)}"
    return _Words("E029", message, "write jobrun: 1")


def _interval(expectation: str, mend: str, mend_number: str) -> Callable[[_Error], _Words]:
    """Build the function that writes the validation error for what is no duration."""

    def _words(error: _Error) -> _Words:
        value = error.value
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        message = f"expected {expectation}, found {describe_value(value)}"
        words = _Words("E030", message, mend_number.format(value) if is_number else mend)
        return _two_readings(error, "a duration", "duration") or words

    return _words


def _call_pattern(error: _Error) -> _Words:
    message = f"expected a callable as pkg.mod:function, found {describe_value(error.value)}"
    mend = "put a ':' between the module and the function"
    if isinstance(error.value, str):
        function, bracket, _ = error.value.partition("(")
        module, dot, name = function.rpartition("." if ":" not in function else ":")
        if dot and bracket:
            mend = f"write '{module}:{name}', and its arguments in 'with'"
        elif dot:
            mend += f": '{module}:{name}'"
    return _Words("E022", message, mend)


def _other(error: _Error) -> _Words:
    return _Words("E022", f"{error.text[:1].lower()}{error.text[1:]}", "see 'jobrun schema'")


_TEXT = "text"

_EMPTY = _always("E024", "it is empty", "add at least one item, or remove the key")

_WORDS: dict[str, Callable[[_Error], _Words]] = {
    "missing": _missing,
    "extra_forbidden": _unknown_key,
    "union_tag_not_found": _unknown_step,
    "union_tag_invalid": _wrong_kind,
    "bool_type": _expected("true or false", "bool"),
    "int_type": _expected("an integer", "number"),
    "int_from_float": _expected("an integer", "number"),
    "float_type": _expected("a number", "number"),
    "finite_number": _expected("a finite number"),
    "string_type": _expected(_TEXT),
    "tuple_type": _expected("a list"),
    "dict_type": _expected("a mapping"),
    "model_type": _expected("a mapping"),
    "model_attributes_type": _expected("a mapping"),
    "expression": _expected("an expression"),
    "scalar": _expected("a value: text, a number, true or false"),
    "greater_than_equal": _bound("{ge} or more"),
    "less_than_equal": _bound("{le} or less"),
    "string_too_short": _EMPTY,
    "too_short": _EMPTY,
    "string_pattern_mismatch": _call_pattern,
    "literal_error": _choice,
    "name": _name,
    "blob_name": _blob_name,
    "one_key": _one_key,
    "version": _version,
    "duration": _interval(
        "a duration such as 90s or 4h",
        "write a number and one of ms s m h d",
        "write {0}s, {0}m or {0}h",
    ),
    "every": _interval(
        "epochs such as 5ep, or a duration such as 10m",
        "write a number greater than 0 and one of ep s m h d",
        "write {0}ep or {0}s",
    ),
    "no_value": _always("E031", "the key has no value", "write a value, or remove the key"),
}


class Located(Struct, frozen=True):
    """Where an error is.

    Attributes:
        path: The way there, in the keys of the YAML.
        is_key: The error is about the last key, not its value.
        model: The model whose key ends the path, or None.
    """

    path: Path
    is_key: bool
    model: type[Model] | None


def locate(root: type[Model], location: tuple[str | int, ...]) -> Located:
    """Translate the location of a pydantic validation error to a path of YAML keys.

    Args:
        root: The model that was validated.
        location: The error's ``loc``.
    """
    path: list[str | int] = []
    holder: type[Model] | None = None
    annotation: Any = root
    for segment in location:
        if segment == _KEY_MARK:
            return Located(tuple(path), True, None)
        annotation = strip_annotation(annotation)
        members = dict(tagged_members(annotation))
        if any(members):
            annotation = members.get(str(segment), Any)
        else:
            holder = annotation if is_model(annotation) else None
            path.append(segment)
            annotation = _below(annotation, segment)
    return Located(tuple(path), False, holder)


def _below(annotation: Any, segment: str | int) -> Any:
    origin = get_origin(annotation)
    if origin in {tuple, dict}:
        return get_args(annotation)[0 if origin is tuple else 1]
    if is_model(annotation):
        field = field_of(annotation, str(segment))
        return field.annotation if field is not None else Any
    return Any


def restore_env_texts(
    error: ValidationError, root: type[Model], data: dict[str, Any], env_texts: Mapping[Path, str]
) -> bool:
    """Replace each number that got a validation error by the text of its environment variable.

    ``FOO=010`` is a number to a key that takes any value, and text to a key that takes text.

    Args:
        error: What pydantic found in the data.
        root: The model that they were checked by.
        data: The data of the whole spec, in which the numbers are replaced.
        env_texts: The texts of environment variables, by the paths of the keys that have them.

    Returns:
        Whether any was replaced, so that it is worth checking again.
    """
    is_replaced = False
    for item in error.errors(include_url=False, include_context=False):
        path = locate(root, item["loc"]).path
        text = env_texts.get(path)
        if text is None or isinstance(item["input"], str):
            continue
        holder: Any = data
        for segment in path[:-1]:
            holder = holder[segment]
        holder[path[-1]] = text
        is_replaced = True
    return is_replaced
