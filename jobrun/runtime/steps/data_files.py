"""Execute the ``load`` and ``save`` steps, which read and write data files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats.load_save import read_member, write_members
from jobrun.graph.expressions import Expr
from jobrun.graph.steps import DataFile, Load, Save
from jobrun.runtime.codegen.coercion import as_own_value
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.frame import LEVELS, Frame
from jobrun.values.blob_kinds import Value

Getter = Callable[[Frame], Any]


def load_action(
    step: Load, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """Build the function of a ``load`` step: reads all data files, then binds all blobs."""
    files = [(file, getter(file.path), LEVELS[names.scope(file.blob)]) for file in step.files]

    def run(frame: Frame) -> None:
        values = []
        for file, path, level in files:
            values.append(
                (
                    level,
                    file.blob,
                    as_own_value(read_member(_place(frame, file, path), file.member)),
                )
            )
        for level, blob, value in values:
            getattr(frame, level)[blob] = value

    return run


def save_action(
    step: Save, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """Build the function of a ``save`` step; several members of one file are written at once."""
    files = [(file, getter(file.path), LEVELS[names.scope(file.blob)]) for file in step.files]

    def run(frame: Frame) -> None:
        whole: dict[str, dict[str, Value]] = {}
        for file, path, level in files:
            members = whole.setdefault(_place(frame, file, path), {})
            members[file.member] = getattr(frame, level)[file.blob]
        for target, members in whole.items():
            require_run_directory(frame, target)
            write_members(target, members)

    return run


def require_run_directory(frame: Frame, path: str) -> None:
    """Refuse to ``save`` data files in a run's directory that was moved away.

    On a machine that does not share the file system with the runner, the directory of the job is
    not there either; there the place is made.

    Raises:
        EnvironmentFaultError: E355, the run's directory was removed or renamed.
    """
    run = frame.run.run_dir
    if path.startswith(f"{run}{os.sep}") and not Path(run).is_dir() and Path(run).parent.is_dir():
        raise EnvironmentFaultError.of(
            "E355",
            f"the directory {run} was removed or replaced during the run, and {path} is in it",
            "put it back, or resume the run where it is now",
        )


def _place(frame: Frame, file: DataFile, path: Getter) -> str:
    return str(Path(frame.resolve_folder(file.folder), path(frame)))
