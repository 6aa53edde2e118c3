"""Send the metrics of a live run to other programs, each from a process of its own.

- ``listener``: what a listener is, and those that there are by name.
- ``listener_processes``: sends them the metrics, each in a process of its own.
- ``tensorboard_listener``, ``mlflow``, ``wandb``: those that are shipped.
"""
