"""Check the machine before a job runs: disk, memory, file system, permissions, data files.

- ``checks``: everything, in order. ``disk_space``, ``memory``, ``filesystem``, ``permissions``:
  the machine. ``upload_access``: the object store.
- ``header_types``: headers of data files against the job.
"""
