"""Check the machine before a job runs: disk, memory, file system, data files, callables.

- ``checks``: everything, in order. ``filesystem``: where the run is, and free space.
- ``blob_types``: headers of data files against the job, and memory. ``callable_signatures``: what
  the source of callables says. ``adapted_classes``: the names in ``adapt``.
"""
