"""Check an analysed job, rule by rule; each module collects one kind of fault.

- ``visibility``: reads of missing blobs. ``races``: unordered access, on a node and by ``pull``.
- ``mid_epoch_saves``: an option that does not fit the tasks.
- ``exactness``: why a resumed run could differ. ``warnings``: what is probably a mistake.
"""
