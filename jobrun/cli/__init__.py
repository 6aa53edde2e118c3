"""Parse command lines, call the layers below, and print: the only layer that knows click.

What a command computes is in ``tools/`` or ``runner/``; here are its options and its output.

- ``app``: the table of commands, and commands with subcommands; ``options``: shared options.
  ``completion_script``, ``completion_candidates``: completion in shells.
- ``jobs/``: commands that execute something. ``specs/``: commands about a spec and its
  language. ``runs/``: commands about runs and checkpoints.
- ``progress/``: what a running job shows. ``run_command``: from words to an exit code.
- ``supervisor``: the parent process, which relays signals, enforces limits and sends notifications.
  ``supervised_child``: the process that computes, how it is started, and the memory that the two
  share. ``unexpected_end``: the explanation after SIGKILL, SIGSEGV or ``os._exit``.
- ``terminal``, ``formatting``, ``error_output``: how anything is printed;
  the last also writes the report after a crash.
"""
