"""Execute steps that are not generated code: call, run, load, save, pull, checkpoint.

- ``dispatch``: the table from a step to its function. ``call``, ``user_modules``,
  ``restore_process_state``: Python callables. ``array_audit``: whether C code has written to arrays
  that a callable was lent to read.
- ``run_program``: programs. ``data_files``: the steps ``load`` and ``save``.
  ``pull``: blobs of other nodes. ``checkpoint_files``: the state of a node.
"""
