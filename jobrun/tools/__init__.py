"""Build on finished runs: inspection, reports, sweeps, proofs, batch scripts. Nothing is printed.

Each function returns a value or a text; the command of ``cli/`` with the same name parses the
options and prints.

- ``inspection``, ``lazy_blobs``, ``export``: what checkpoints hold, and taking it out.
  ``checkpoint_maintenance``: verify, pin, prune.
- ``runs/``: how runs are. ``stored_run``: the same for programs in Python and notebooks.
  ``diff``: how they differ. ``report/``: pages about them. ``sweep/``: many at once.
  ``resume_dry_run``: what a resume would do.
- ``isolation/``: copies of folders, for runs that change no file of the user.
- ``prove/``: kill and compare. ``profile``: where time went. ``smoke_tests``: specs as tests.
  ``slurm``: batch jobs. ``manual``, ``html_manual``: pages about the language;
  ``spec_key_tables``: its keys. ``templates/``: new specs.
- ``doctor``: fitness of the machine. ``notify``: news of a run to a URL or a command.
"""
