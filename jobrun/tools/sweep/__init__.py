"""Run one spec at many points of its params, each as an ordinary run.

- ``axes``: the points of axes. ``sweep_design``: the points as checked jobs; the recorded request,
  and tags. ``process_pool``: their processes. ``point_outcomes``: what came out;
  ``point_changes``: of which code, data and versions.
"""
