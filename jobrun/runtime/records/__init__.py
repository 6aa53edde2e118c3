"""Feed records to tasks: readers, their positions, and queues.

- ``reader``, ``open_sources``, ``row_iterators``, ``cursor``: from files to records.
  ``prefetch``, ``shuffle``: speed and order.
- ``reader_position``: positions as state. ``record_loop``: what runs a task for its records.
- ``queue_endpoints``: a task's ends of queues. ``safe_point_source``: where a save between two
  records may happen.
"""
