"""Execute the steps of tasks in workspaces.

- ``execute_task``: one task on its node. ``group_plan``: a group, compiled once. ``report_steps``:
  steps of reports.
- ``task_limits``: timeouts and retries. ``step_errors``: from an exception to a fault with its
  place.
- ``codegen/``: steps to Python functions. ``steps/``: steps that are calls.
  ``callables/``: the step ``call``, and what Python code may do to blobs.
- ``context/``: what a step sees. ``records/``: readers and queues. ``snapshots/``: state for
  a save.
"""
