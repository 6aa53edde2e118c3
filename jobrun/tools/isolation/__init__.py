"""Keep runs from changing the user's files, or find those that several runs change.

- ``folder_copy``: the copy of a folder with the same relative paths.
- ``isolation``: a process in it, which can write nowhere else. ``landlock``: the kernel's part.
- ``shared_files``: what runs write in common that are not isolated from each other.
"""
