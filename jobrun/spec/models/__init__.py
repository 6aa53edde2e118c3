"""Define the spec language as pydantic models: ``job`` at the top, ``tasks``, ``base_types``.

- What many specs do without is imported when a spec has it (``base_types`` has the type for that):
  the ``steps`` that are no statements and their ``control_flow`` (``step_forms`` lists both),
  ``readers``, ``retention``, ``optional_parts``.
- ``validation_errors``: pydantic's errors as faults, with positions in the YAML. ``model_keys``:
  the keys of a model.
- ``json_schema``: the schema for editors.
"""
