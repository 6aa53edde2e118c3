"""Infer the types of blobs (dtypes and shapes) before anything runs, without numpy.

- ``job_types``: the entry point, stop conditions and metrics. ``steps``, ``expressions``,
  ``subscripts``, ``arithmetic``: the abstract interpreter.
- ``records_and_queues``: values that come from readers and queues.
"""
