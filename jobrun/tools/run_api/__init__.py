"""Read runs from Python and notebooks: what ``jobrun.runs`` returns.

- ``stored_run``: one run, and all runs of a directory. ``metric_table``: metrics as arrays.
- ``epoch_blobs``: the blobs of a checkpoint, read lazily. ``notebook``: runs as HTML.
"""
