"""Check an analysed job, rule by rule; each module collects one kind of fault.

- ``visibility``: reads of missing blobs. ``races``, ``pulls``: unordered access.
- ``on_error``, ``mid_epoch_saves``: options that do not fit the tasks.
- ``exactness``: why a resumed run could differ. ``warnings``: what is probably a mistake.
"""
