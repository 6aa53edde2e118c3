"""Describe the kinds of values that blobs are made of, one in each module.

- ``scalar``: which classes have no parts and never change. ``counter``: atomic counters.
- ``record``: named tuples and dataclasses. ``tensor``: those of PyTorch, and its modules.
- ``structured_dtype``: rows and arrays with fields.
"""
