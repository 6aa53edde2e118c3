"""Send the metrics of a live run to other programs, each from a process of its own.

- ``listener``: what a listener is, and those that there are by name.
- ``fan_out``: turns events into what listeners get, in the run's process. ``host``: the program
  that a listener runs in.
- ``tensorboard_listener``, ``mlflow``, ``wandb``: those that are shipped.
"""
