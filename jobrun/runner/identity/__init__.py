"""Identify what decides a run's result, and compare it at each resume.

- ``recorded_job``: the spec or Python job. ``code_digests``, ``callable_sources``: the user's code.
  ``constant_digests``: constants after init.
- ``environment``: interpreter, installed packages, numpy, BLAS, CPU. ``data_fingerprints``,
  ``data_lock``: data files.
- ``provenance``: command line and version control. ``drift``: the comparison.
"""
