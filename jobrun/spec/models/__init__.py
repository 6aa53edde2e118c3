"""Define the spec language as pydantic models: ``job`` at the top, ``steps``, ``scalar_types``.

- ``validation_errors``: pydantic's errors as faults, with places in the YAML. ``model_keys``: the
  keys of a model.
- ``json_schema``: the schema for editors.
"""
