"""Feed records to tasks: readers, their positions, and queues.

- ``task_reader``, ``cursor``, ``row_iterators``: from files to records.
- ``reader_position``: positions as state. ``record_loop``: what runs a task for its records.
- ``queue_endpoints``: a task's ends of queues. ``stop_at_safe_points``: where a save between two
  records may happen.
"""
