"""Choose the epoch that a run continues from.

- ``recovery``: which stored epoch, and what has to be moved for it.
- ``finished``: runs with nothing left to do.
"""
