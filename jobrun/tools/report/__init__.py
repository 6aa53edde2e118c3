"""Build reports about runs: one HTML page without dependencies, or TensorBoard files.

- ``report_data``, ``run_history``, ``fork_lineage``: what is gathered about a run.
- ``page``: the document; ``sections``: its parts; ``html``: elements.
- ``charts``, ``timeline``: metrics and times. ``pictures``: blobs.
- ``report_json``, ``tensorboard``: the same for other programs.
"""
