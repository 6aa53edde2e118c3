"""Read and write the files of a run directory.

- ``run_directories``: create, find, open and list runs. ``run_json``: ``run.json``. ``journal``:
  ``committed.jsonl``, and epochs to keep. ``run_index``: all runs, listed quickly, and the newest
  of each job. ``run_inputs``: which run of a job is meant, by its params and its seed.
- ``lock``: one live process per run. ``logs``: events, metrics, task output. ``metrics_check``:
  what ``metrics.jsonl`` has lost. ``lost_epochs``: saved epochs that are gone, for commands that
  read.
- ``spec_folder``: ``spec/``.
- ``object_store_run``: a run in an object store, and which directory continues it.
"""
