"""Identify what decides a run's result, and compare it at each resume.

- ``recorded_job``: the spec or Python job. ``code_digests``: the user's code, whose modules are
  found without importing them (``runtime/context/imported_code`` compares them when they are
  imported). ``constant_digests``: constants after init.
- ``environment``: interpreter, installed packages, numpy, CPU. ``blas_libraries``: BLAS and its
  threads. ``data_fingerprints``, ``data_lock``: data files.
- ``provenance``: command line and version control. ``drift``: the comparison, part by part;
  ``present_changes``: of a run with all that is there now.
"""
