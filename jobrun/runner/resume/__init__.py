"""Choose the epoch that a run continues from, and put its state on the nodes that there are now.

- ``recovery``: which stored epoch, and what has to be moved for it. ``mid_epoch_recovery``: which
  save within the next epoch. ``finished``: runs with nothing left to do.
- ``metrics_recovery``: lines that ``metrics.jsonl`` has lost. ``resize``: another number of nodes.
"""
