"""Read and write small files safely: atomic durable writes, locks, JSON, JSON lines.

- ``disk``: every durable write, and reads of regular files only. ``file_lock``: kernel
  locks.
- ``json_files``: bounded JSON of unknown origin, and journals of JSON lines.
- ``output_file``: files in memory that take what C code and programs print.
- ``digest``: SHA-256 as records have it. ``written_files``: the files that a process writes.
"""
