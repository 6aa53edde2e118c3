"""Run copies of a job where they cannot change the user's files.

- ``folder_copy``: the copy of a folder with the same relative paths.
- ``isolation``: a process in it, which can write nowhere else.
"""
