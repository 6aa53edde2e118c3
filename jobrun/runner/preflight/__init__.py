"""Check the machine before a job runs: disk, memory, file system, permissions, data files.

- ``checks``: everything, in order. ``memory``, ``filesystem`` (and free disk space),
  ``permissions``: the machine.
- ``blob_types``: headers of data files against the job. ``callables``: the text of modules.
"""
