"""The ``load`` and ``save`` steps. What is in a file, and how it is written, is ``formats``'."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jobrun.blobs.values import Value
from jobrun.formats.data import read_member, write_members
from jobrun.graph.expr import Expr
from jobrun.graph.steps import DataFile, Load, Save
from jobrun.runtime.frame import Frame
from jobrun.runtime.landing import own
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import LEVELS

Getter = Callable[[Frame], Any]


def folder_of(frame: Frame, folder: str) -> str:
    """The absolute path of a step's folder; an empty one is the spec's."""
    return str(Path(frame.run.folder, folder)) if folder else frame.run.folder


def load_action(
    step: Load, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """The function of a ``load`` step: reads all files, then binds all blobs."""
    files = [(one, getter(one.path), LEVELS[names.scope(one.blob)]) for one in step.files]

    def run(frame: Frame) -> None:
        values = []
        for file, path, level in files:
            values.append(
                (level, file.blob, own(read_member(_place(frame, file, path), file.member)))
            )
        for level, blob, value in values:
            getattr(frame, level)[blob] = value

    return run


def save_action(
    step: Save, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """The function of a ``save`` step; several members of one file are written at once."""
    files = [(one, getter(one.path), LEVELS[names.scope(one.blob)]) for one in step.files]

    def run(frame: Frame) -> None:
        whole: dict[str, dict[str, Value]] = {}
        for file, path, level in files:
            members = whole.setdefault(_place(frame, file, path), {})
            members[file.member] = getattr(frame, level)[file.blob]
        for place, members in whole.items():
            write_members(place, members)

    return run


def _place(frame: Frame, file: DataFile, path: Getter) -> str:
    return str(Path(folder_of(frame, file.folder), path(frame)))
