"""Run a job from its start to its end: run directory, epochs, saves, resume.

- ``start_or_resume``: decide, check, restore. ``invocation``: one process life of a run.
  ``fork``, ``fork_first_state``: forks, and the state that they start from. ``options``: what a
  caller asks of an invocation.
- ``loop/``: the epochs. ``saving/``: commits. ``resume/``: recovery, also on
  another number of nodes. ``preflight/``: checks before anything runs.
- ``listeners/``: metrics of a live run for other programs.
- ``identity/``: what a run was made from. ``rundir/``: its files.
- ``time_account``: how the time of a run was spent. ``saved_progress``: the runner's
  own state at an epoch boundary. ``run_metadata_handler``: which epochs there are.
- ``check_resume``: what a resume would find, and refuse.
- ``checkpoint_stores``: which store. ``partial_load``: some blobs, without a run.
  ``checkpoint_types``: dtypes and shapes in a checkpoint against the job's.
- ``locate_faults``: from a blob to its line of the spec. ``stop_requests``: signals, time
  limits, and the deadline of the batch system.
"""
