"""Represent a checked job as frozen values; standard library only.

- ``types``: Job, TaskGroup, Task, Node. ``steps``, ``effects``, ``expressions``, ``conditions``,
  ``checkpoint_policy``, ``readers``: their parts.
- ``query``, ``blob_access``, ``control_flow``, ``concurrent_calls``: queries. ``traversal``,
  ``group_transforms``: changed copies.
- ``job_text``, ``expression_text``: a job as lines, an expression as text. ``drawing``: a job as a
  picture.
"""
