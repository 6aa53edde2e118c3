"""Run epochs until a stop condition holds.

- ``epoch_loop``: the loop, with its pseudocode. ``conditions``: metrics, and when it ends by
  itself. ``node_loss``: lost nodes.
"""
