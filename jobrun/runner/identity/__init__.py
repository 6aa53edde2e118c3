"""Identify what decides a run's result, and compare it at each resume.

- ``recorded_job``: the spec or Python job. ``code_digests``, ``callable_sources``,
  ``callable_parameters``: the user's code. ``distributions``: installed packages that it needs.
  ``constant_digests``: constants after init.
- ``environment``: interpreter, numpy, BLAS, CPU. ``data_fingerprints``, ``data_lock``: data
  files.
- ``provenance``: command line and version control. ``drift``: the comparison.
"""
