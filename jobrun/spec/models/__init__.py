"""Define the spec language as pydantic models: ``job`` at the top, ``tasks``, ``base_types``.

- What many specs do without is ``deferred`` until a spec has it: the ``steps`` that are no
  statements and their ``control_flow`` (``step_forms`` lists both), ``readers``,
  ``retention``, ``optional_parts``.
- ``validation_errors``: pydantic's errors as faults, with places in the YAML. ``model_keys``: the
  keys of a model.
- ``json_schema``: the schema for editors.
"""
