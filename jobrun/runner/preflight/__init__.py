"""Check the machine before a job runs: disk, memory, file system, permissions, data files.

- ``checks``: everything, in order. ``filesystem``: where the run is, free space and permissions.
  ``callables``: the text of modules.
"""
