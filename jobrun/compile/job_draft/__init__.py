"""Hold a job between lowering and analysis: the same for a spec and for a job built in Python.

- ``tasks_and_groups``: drafts of tasks with the records they read, of groups and of the job: frozen
  values that know positions for messages, and neither YAML nor models.
- ``definite_assignment``: which names a task needs, binds and deletes on every path.
- ``task_order``: the order that ``needs`` gives. ``node_names``: which nodes a text names.
"""
