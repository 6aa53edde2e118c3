"""Build reports about runs: one HTML page without dependencies, or TensorBoard files.

- ``report_data``, ``run_history``: what is gathered about a run.
- ``page``: the document; ``sections``: its parts; ``html``: elements.
- ``charts``: curves and the timeline. ``blob_pictures``: blobs.
- ``report_json``, ``tensorboard``: the same for other programs.
"""
