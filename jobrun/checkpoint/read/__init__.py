"""Read a checkpoint file, and verify each byte that is used.

- ``safe_file``: open a file only if it is a regular one; ``verified_file``: verify its header,
  index and blocks, or all its bytes against the manifest.
- ``load``: all or some blobs, containers and objects put together again; ``partial_read``: in
  pieces of a file; ``load_into_objects``: states of objects into the objects' own memory.
"""
