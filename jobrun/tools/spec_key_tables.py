"""Read the tables of all spec keys from the JSON schema of specs, and render them as text."""

from __future__ import annotations

import textwrap
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

Schema = Mapping[str, Any]
_FORMS = """\
Steps of a task

A step is a statement such as 'x += 1' (see 'jobrun explain expressions'), or a
mapping with one of these keys; 'jobrun explain KEY' shows what belongs to it."""
_REF = "#/$defs/"
# A value may always be a reference such as ${k}: that is said once, and not of every key.
_REFERENCE = "Reference"
_WORDS = {
    "boolean": "true or false", "integer": "whole number", "number": "number", "string": "text",
    "object": "mapping", "array": "list", "null": "nothing",
    "Name": "name", "BlobName": "blob", "Expression": "expression", "Duration": "duration",
    "Every": "epochs or duration", "Step": "step", "Reference": "reference",
}  # fmt: skip
_GROUPS = ("init", "epoch", "download", "exit")
_STEPS = "steps."
_WIDTH = 80


class Key(Struct, frozen=True):
    """One key of the spec language.

    Attributes:
        name: As it is written.
        kind: What its value is, in a few words.
        required: It must be there.
        default: What counts without it, as YAML would write it; empty where that is nothing.
        about: What it means.
        leads_to: The tables of mappings that may be its value.
    """

    name: str
    kind: str
    required: bool
    default: str
    about: str
    leads_to: tuple[str, ...] = ()


class Table(Struct, frozen=True):
    """The keys of one mapping of the spec language.

    Attributes:
        name: Of the model.
        path: Its path in a spec, such as ``checkpoint.keep``; empty for the file itself.
        about: What it is.
    """

    name: str
    path: str
    about: str
    keys: tuple[Key, ...]


def read_tables(schema: Schema) -> tuple[Table, ...]:
    """Build the tables of all spec keys from the JSON schema, with that of the top level first."""
    definitions = schema["$defs"]
    tables: dict[str, Table] = {}
    waiting = deque([("", "", schema)])
    seen = {""}
    while waiting:
        name, path, body = waiting.popleft()
        table = _table(name, path, body, definitions)
        tables[name] = table
        for key in table.keys:
            for other in key.leads_to:
                if other not in seen:
                    seen.add(other)
                    other_path = _place(path, key.name, other, definitions)
                    waiting.append((other, other_path, definitions[other]))
    return tuple(tables.values())


def find_tables(all_tables: tuple[Table, ...], name: str) -> tuple[Table, ...]:
    """Find the tables of spec keys that match a name, each with only the keys that match.

    Args:
        all_tables: As ``read_tables`` gives them.
        name: A key such as ``state_dir``, a path or the end of one such as ``keep.last``, or a
            table's own path, for all of its keys; also a step such as ``run``.
    """
    named = tuple(key_table for key_table in all_tables if name and key_table.path == name)
    if named:
        return named
    steps = tuple(key_table for key_table in all_tables if key_table.path == f"{_STEPS}{name}")
    parent, _, last = name.rpartition(".")
    return steps + tuple(
        Table(key_table.name, key_table.path, key_table.about, keys)
        for key_table in all_tables
        if key_table not in steps
        if key_table.path == parent or key_table.path.endswith(f".{parent}") or not parent
        if (keys := tuple(key for key in key_table.keys if key.name == last))
    )


def list_key_words(all_tables: tuple[Table, ...]) -> tuple[str, ...]:
    """List the names and paths of keys in the spec key tables, to suggest one for a typo."""
    words = dict.fromkeys(key_table.path for key_table in all_tables if key_table.path)
    for key_table in all_tables:
        words |= dict.fromkeys(key.name for key in key_table.keys)
        if key_table.path:
            words |= dict.fromkeys(f"{key_table.path}.{key.name}" for key in key_table.keys)
    return tuple(words)


@cache
def list_key_tables() -> tuple[Table, ...]:
    """Return the tables of all spec keys, built once from the JSON schema of specs."""
    # Builds all models of the spec: not for those who ask about something else.
    from jobrun.spec.models.json_schema import schema  # noqa: PLC0415

    return read_tables(schema())


def render_key_page(name: str) -> str | None:
    """Render the tables that contain a spec key, such as ``keep``; None if it is unknown."""
    tables = find_tables(list_key_tables(), name)
    return "\n\n".join(map(_page, tables)) if tables else None


def render_steps() -> str:
    """Render the table of all steps as text: the spec key of each step, and what it does."""
    steps = [step for step in list_key_tables() if step.path.startswith(_STEPS)]
    width = max(len(step.path) for step in steps) - len(_STEPS)
    lines = [
        textwrap.fill(
            step.about,
            _WIDTH,
            initial_indent=f"  {step.path.removeprefix(_STEPS):<{width}}  ",
            subsequent_indent=" " * (width + 4),
        )
        for step in steps
    ]
    return "\n".join((_FORMS, "", *lines))


def _table(name: str, path: str, body: Schema, definitions: Schema) -> Table:
    required = set(body.get("required", ()))
    keys = tuple(
        Key(
            name=key,
            kind=_kind(value),
            required=key in required,
            default=_default(value),
            about=_about(value, definitions),
            leads_to=tuple(dict.fromkeys(_models(value, definitions))),
        )
        for key, value in body["properties"].items()
    )
    return Table(name, path, str(body.get("description", "")), keys)


def _place(path: str, key: str, model: str, definitions: Schema) -> str:
    if model.endswith("Step"):
        # A step is known by the key that makes it one.
        first = next(iter(definitions[model]["properties"]))
        return f"{_STEPS}{first}"
    if path == "" and key in _GROUPS:
        return "group" if "tasks" in definitions[model]["properties"] else "task"
    return f"{path}.{key}" if path else key


def _about(value: Schema, definitions: Schema) -> str:
    description = value.get("description", "")
    if description:
        return str(description)
    models = [model for model in _models(value, definitions) if not model.endswith("Step")]
    return str(definitions[models[0]].get("description", "")) if len(models) == 1 else ""


def _default(value: Schema) -> str:
    default = value.get("default")
    if default in (None, [], {}, "") or isinstance(default, dict | list):
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    return str(default)


def _models(value: Any, definitions: Schema) -> Iterator[str]:
    """Yield the names of the tables for the mappings that a spec key accepts as its value."""
    if isinstance(value, list):
        for part in value:
            yield from _models(part, definitions)
        return
    if not isinstance(value, Mapping):
        return
    name = str(value.get("$ref", "")).removeprefix(_REF)
    if name in definitions:
        if "properties" in definitions[name]:
            yield name
        elif name == "Step":
            yield from _models(definitions[name], definitions)
    for key in ("oneOf", "anyOf", "items", "additionalProperties"):
        yield from _models(value.get(key), definitions)
    yield from _models(list(value.get("patternProperties", {}).values()), definitions)


def _kind(value: Schema) -> str:
    """Describe for a table which values a spec key accepts, such as ``text or mapping``."""
    return " or ".join(dict.fromkeys(_kinds(value))) or "anything"


def _kinds(value: Schema) -> Iterator[str]:
    if "$ref" in value:
        name = value["$ref"].removeprefix(_REF)
        if name != _REFERENCE:
            yield _WORDS.get(name, "mapping")
    elif "oneOf" in value or "anyOf" in value:
        for alternative in value.get("oneOf", value.get("anyOf")):
            yield from _kinds(alternative)
    elif "enum" in value:
        yield from map(str, value["enum"])
    elif "const" in value:
        const = value["const"]
        yield str(const).lower() if isinstance(const, bool) else str(const)
    elif value.get("type") == "array":
        items = " or ".join(dict.fromkeys(_kinds(value.get("items", {}))))
        yield f"list of {_plural(items)}" if items else "list"
    else:
        yield _WORDS.get(value.get("type", ""), "anything")


def _plural(words: str) -> str:
    words = words.replace("true or false", "bool")
    return " or ".join(word if word.endswith("s") else f"{word}s" for word in words.split(" or "))


def _page(key_table: Table) -> str:
    about = key_table.about.partition("\n")[0]
    lines = [*textwrap.wrap(f"{key_table.path or 'a spec file'}: {about}", _WIDTH), ""]
    width = max(len(key.name) for key in key_table.keys)
    for key in key_table.keys:
        lines += _key(key, width)
    return "\n".join(lines)


def _key(key: Key, width: int) -> list[str]:
    extra = "required" if key.required else f"else {key.default}" if key.default else ""
    kind = ", ".join(filter(None, (key.kind, extra)))
    description = f"{kind}: {key.about}" if key.about else kind
    indent = " " * (width + 4)
    return textwrap.wrap(
        description, _WIDTH, initial_indent=f"  {key.name:<{width}}  ", subsequent_indent=indent
    )
