"""Write a checkpoint file: lay it out once, then write it each epoch.

- ``encoder``: values of one layout to bytes.
- ``memory_digests``: what is digested of values where they are in memory.
- ``chunk_compression``: which blobs to compress, and their chunks.
- ``block_writer``, ``direct_io``: digest blocks and write those that differ, with ``O_DIRECT``.
- ``reusable_file``: start from the disk blocks of an older file. ``snapshot_arena``: memory for
  copies. ``array_types``: whether a state's arrays have the dtypes and shapes of the save before.
- ``writer``: the whole, kept by a node from epoch to epoch.
"""
