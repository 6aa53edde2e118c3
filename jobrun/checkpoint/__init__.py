"""Save the state of nodes in checkpoint files and load it back; keep the files in stores.

- ``task_groups``: saving and loading, as task groups (pure).
- ``store_protocol``: the protocol of a place for checkpoints; ``stores/`` implements it.
- ``blob_parts``: the parts of containers and objects that HDF5 can hold.
- ``checkpoint_file``: read or inspect one node's file as a whole; ``read/`` does the work,
  ``write/`` writes files, ``hdf5/`` knows the bytes of the format, ``format_description`` puts
  it in words.
- ``checkpoint_times``: how long saves and loads took. ``metadata_handler``: the protocol of
  handlers that are informed of each saved epoch.
"""
