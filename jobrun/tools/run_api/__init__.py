"""Read runs from Python and notebooks: what ``jobrun.runs`` returns.

- ``stored_run``: one run, and all runs of a directory. Its metrics as arrays, its
  blobs read lazily.
- ``notebook``: runs as HTML.
"""
