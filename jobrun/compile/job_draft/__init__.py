"""Hold a job between lowering and analysis: the same for a spec and for a job built in Python.

- ``draft``: the frozen values. A draft knows places for messages, and neither YAML nor models.
- ``definite_assignment``: which names a task needs, binds and deletes on every path.
- ``task_records``: what a task reads and writes.
- ``task_order``: the order that ``needs`` gives. ``node_names``: which nodes a text names.
"""
