"""Save epochs: when, in which thread, and the commit protocol.

- ``commit``: stage, write, commit, acknowledge, delete. ``saver``, ``time_budget``: when.
  ``memory_budget``: whether in the background. ``background_thread``: the thread.
- ``upload_to_object_store``: in a thread beside the run. ``upload_to_directory``: to a directory.
- ``mid_epoch_saver``: saves between two records.
"""
