"""Compile a spec, or a job built in Python, to a checked graph; no disk, no user code.

The pipeline is on one page, ``pipeline``: lower, analyse, check, assemble, infer types.

- ``lowering/``: models of the spec to a draft. ``python_jobs``: the same for jobs built in Python,
  whose steps get their paths by ``step_paths``.
- ``job_draft/``: the draft, which knows neither YAML nor models; later stages read nothing else.
- ``expressions/``: text of an expression to a tree.
- ``analysis/``, ``analyse_groups``: which names are bound where. ``checks/``: what is refused, and
  why. ``types/``: dtypes and shapes.
- ``plan_text``, ``plan_document``: the compiled job as text, as JSON. ``faults``: their collector.
"""
