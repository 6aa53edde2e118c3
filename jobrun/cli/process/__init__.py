"""Run a command line in this process, and explain the unexpected end of a supervised one.

- ``run_command``: from words to an exit code; crash reports.
- ``unexpected_end``: what is printed after SIGKILL, SIGSEGV or ``os._exit``.
"""
