"""Save epochs: when, in which thread, and the commit protocol.

- ``commit``: stage, write, commit, acknowledge, delete. ``saver``, ``cadence``: when.
  ``background_thread``: the thread. ``object_upload``: uploads beside the run.
- ``mid_epoch_saver``: saves between two records. ``mid_epoch_recovery``: which of them a run
  continues from.
"""
