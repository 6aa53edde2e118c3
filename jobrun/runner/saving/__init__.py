"""Save epochs: when, in which thread, and the commit protocol.

- ``commit``: stage, write, commit, acknowledge, delete. ``saver``, ``time_budget``: when.
  ``memory_budget``: whether in the background. ``background_thread``: the thread.
- ``object_upload``: uploads beside the run. ``group_uploader``: uploads by task groups.
- ``mid_epoch_saver``: saves between two records. ``mid_epoch_recovery``: which of them a run
  continues from.
"""
