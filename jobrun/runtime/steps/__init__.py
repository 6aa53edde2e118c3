"""Execute steps that are not generated code: run, load, save, pull, checkpoint.

- ``dispatch``: the table from a step to its function; the step ``call`` is in ``callables``.
- ``restore_process_state``: what callables change of the process.
- ``run_program``: programs. ``data_files``: the steps ``load`` and ``save``.
  ``pull``: blobs of other nodes. ``checkpoint_files``: the state of a node.
"""
