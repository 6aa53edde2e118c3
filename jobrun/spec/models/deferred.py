"""Defer models of the spec language: each is imported and built when a spec first has its like."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from jobrun.spec.models.base_types import Model

# The key of a deferred model's name in the JSON Schema of another one, until json_schema, which
# has the definitions of all, makes references of them.
MARK = "deferred"


class Deferred:
    """The type of a key whose deferred model is in another module of this folder.

    To define and build all models takes as long as all else in the check of a short spec, which
    uses a few of them.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name
        self._check: Callable[[Any], Any] | None = None

    @property
    def model(self) -> type[Model]:
        """Import the deferred pydantic model from its module on first use, and return it."""
        found: type[Model] = getattr(import_module(f"{__package__}.{self._module}"), self._name)
        return found

    def _validate(self, value: Any) -> Any:
        if self._check is None:
            self.model.model_rebuild()
            self._check = self.model.__pydantic_validator__.validate_python
        return self._check(value)

    def __get_pydantic_core_schema__(
        self, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        # A ValidationError in it becomes part of the whole one, behind the place of the value.
        return core_schema.no_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {MARK: self._name}
