"""Represent a checked job as frozen values; standard library only.

- ``types``: Job, TaskGroup, Task, Node. ``steps``, ``effects/``, ``expressions``, ``conditions``,
  ``checkpoint_policy``, ``readers``: their parts.
- ``divided_state``: state that is divided among nodes. ``expression_text``: expressions as text.
- ``query``, ``blob_access``: queries. ``traversal``, ``group_transforms``:
  changed copies.
- ``text/``: a job as lines. ``drawing/``: a job as a picture.
"""
