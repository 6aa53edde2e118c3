"""Build the JSON Schema of the spec language, with which editors check and complete specs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import TypeAdapter

from jobrun.spec.models import control_flow, job, optional_parts, readers, retention, steps, tasks
from jobrun.spec.models.base_types import (
    DEFERRED_MARK,
    BlobName,
    EveryValue,
    Expression,
    Model,
    Name,
    Seconds,
)

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REF = "#/$defs/{model}"
# Types that many keys use get a definition each: (type, name, description).
_SHARED: tuple[tuple[Any, str, str], ...] = (
    (Expression, "Expression", "over blobs and params; text inside one is quoted again"),
    (Name, "Name", "letters, digits, '_', '.', '-'; not starting with '.' or '-'"),
    (BlobName, "BlobName", "letters, digits and '_', not starting with a digit"),
    (Seconds, "Duration", "such as 250ms, 90s, 30m, 4h or 2d"),
    (EveryValue, "Every", "epochs such as 5ep, or a duration such as 10m"),
)
_STEP = "a statement such as 'w -= lr * g', or a mapping that says what it does"
_INCLUDE = {
    "type": "array",
    "items": {"type": "string"},
    "description": "files merged under this one; paths are relative to this file",
}
_REFERENCE = {
    "type": "string",
    "pattern": r"^\$\{[^{}]+\}$",
    "description": "${param}, ${env:NAME,default}, ${run.seed}",
}
_TO_REFERENCE = {"$ref": "#/$defs/Reference"}
# Keys for readers only: they do not distinguish types.
_NOTES = ("title", "description", "default")
# A reference may stand for these: it is replaced before the value is checked.
_REPLACEABLE = frozenset({"integer", "number", "boolean"})


def schema_text() -> str:
    """Render the JSON Schema of specs as text, always the same for one version of jobrun."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """Build the JSON Schema of a whole spec file from the pydantic models."""
    models = [*_models()]
    for model in models:
        # The defaults of one are written by the serializers of others.
        model.model_rebuild()
    built = _referring(job.JobSpec.model_json_schema(by_alias=True, ref_template=_REF))
    for model in models:
        model_schema = _referring(model.model_json_schema(by_alias=True, ref_template=_REF))
        built["$defs"] |= model_schema.pop("$defs", {}) | {model.__name__: model_schema}
    del built["$defs"][job.JobSpec.__name__]
    shared = {name: _schema_of(kind) for kind, name, _ in _SHARED}
    definitions = {
        name: _shared(body, {key: value for key, value in shared.items() if key != name})
        for name, body in (built.pop("$defs") | shared).items()
    }
    described = {name: description for _, name, description in _SHARED}
    for name, description in (described | {"Step": _STEP}).items():
        definitions[name] |= {"title": name, "description": description}
    body = _shared(built, shared)
    body["properties"] |= {"include": _INCLUDE}
    whole = {
        "$schema": _DIALECT,
        "$id": "urn:jobrun:job.schema.json:1",
        **body,
        "title": "jobrun job",
        "patternProperties": {"^x-": {"description": "for anchors and notes; ignored"}},
        "$defs": dict(sorted((definitions | {"Reference": _REFERENCE}).items())),
    }
    return {key: _tidied(value, key) for key, value in whole.items()}


def _models() -> Iterator[type[Model]]:
    """Yield each pydantic model that has a definition of its own in the JSON Schema."""
    for module in (control_flow, job, optional_parts, readers, retention, steps, tasks):
        for member in vars(module).values():
            if isinstance(member, type) and issubclass(member, Model) and member.model_fields:
                yield member


def _referring(value: Any) -> Any:
    """Replace each placeholder of a model in the JSON Schema by a ``$ref`` to its definition."""
    if isinstance(value, list):
        return [_referring(item) for item in value]
    if not isinstance(value, dict):
        return value
    replaced = {key: _referring(item) for key, item in value.items()}
    if DEFERRED_MARK not in replaced:
        return replaced
    return {"$ref": _REF.format(model=replaced.pop(DEFERRED_MARK)), **replaced}


def _schema_of(kind: Any) -> dict[str, Any]:
    built = TypeAdapter(kind).json_schema(by_alias=True, ref_template=_REF)
    return {key: value for key, value in built.items() if key not in {"$defs", *_NOTES}}


def _shared(value: Any, shared: dict[str, dict[str, Any]]) -> Any:
    """Replace each copy of a shared type in the JSON Schema by a ``$ref`` to its definition."""
    if isinstance(value, list):
        return [_shared(item, shared) for item in value]
    if not isinstance(value, dict):
        return value
    notes = {key: value[key] for key in _NOTES if key in value}
    core = {key: item for key, item in value.items() if key not in notes}
    for name, body in shared.items():
        if core == body:
            return {"$ref": f"#/$defs/{name}", **notes}
    return {key: _shared(item, shared) for key, item in value.items()}


def _tidied(value: Any, key: str) -> Any:
    """Remove generated titles from the JSON Schema; allow a ``${}`` reference for each value."""
    if isinstance(value, list):
        return [_tidied(item, "") for item in value]
    if not isinstance(value, dict) or key in {"default", "const"}:
        return value
    named = key in {"properties", "patternProperties", "$defs"}
    if named:
        return {name: _tidied(item, "") for name, item in value.items()}
    value = _closed(_without_null(value))
    if {"type": "string"} in value.get("anyOf", ()):
        return value  # any text may stand here, a reference too
    tidied = {
        name: _tidied(item, name)
        for name, item in value.items()
        if not (name == "title" and "properties" not in value)
        and not (name == "default" and item is None)
    }
    return tidied if key == "propertyNames" else _or_reference(tidied)


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    """Remove ``null`` from the JSON Schema of a key that may be absent but not null."""
    members = value.get("anyOf")
    if not members or {"type": "null"} not in members:
        return value
    others = [member for member in members if member != {"type": "null"}]
    outer = {name: item for name, item in value.items() if name != "anyOf"}
    if outer.get("default", 0) is None:
        del outer["default"]
    return {**outer, "anyOf": others} if len(others) > 1 else {**others[0], **outer}


def _closed(value: dict[str, Any]) -> dict[str, Any]:
    """Change the JSON Schema of a mapping so that keys which are not valid names are refused."""
    names = value.get("patternProperties")
    closed = names and value.get("type") == "object" and "additionalProperties" not in value
    return {**value, "additionalProperties": False} if closed else value


def _or_reference(value: dict[str, Any]) -> dict[str, Any]:
    replaceable = value.get("type") in _REPLACEABLE or "enum" in value or "pattern" in value
    if not replaceable or value == _REFERENCE:
        return value
    outside = {name: value[name] for name in _NOTES if name in value}
    inside = {name: item for name, item in value.items() if name not in outside}
    return {**outside, "anyOf": [inside, _TO_REFERENCE]}
