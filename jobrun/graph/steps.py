"""The step union: everything a task can do, one small frozen class per kind.

Every step carries its ``path`` (``epoch/lloyd/steps[2]``: the place named in errors, log
lines and timings, and the key of nothing that is stored) and its ``origin`` (file, line,
column; never compared). Blocks that ``stop`` can leave are named by their path.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from jobrun.core.compression import Rules
from jobrun.core.origin import Origin
from jobrun.graph.divided import FilePart
from jobrun.graph.expr import Expr, Text
from jobrun.graph.pulled import PulledBlob

NOWHERE = Origin("<python>")


@dataclass(frozen=True, slots=True)
class NameTarget:
    """``name = …``."""

    name: str


@dataclass(frozen=True, slots=True)
class ItemTarget:
    """``name[index] = …``: changes the array where it lives."""

    name: str
    index: Expr


Target = NameTarget | ItemTarget


@dataclass(frozen=True, slots=True)
class Assign:
    """``targets = value``; several targets unpack a sequence of that length."""

    targets: tuple[Target, ...]
    value: Expr
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Augment:
    """``target op= value``; ``operator`` is written without the equals sign."""

    target: Target
    operator: str
    value: Expr
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Perform:
    """A call for its effect alone, such as ``count_up(c)`` or ``add_at(U, i, v)``."""

    value: Expr
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Delete:
    """``del names``."""

    names: tuple[str, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


Op = Assign | Augment | Perform | Delete


@dataclass(frozen=True, slots=True)
class Net:
    """Operators that run one after the other; the unit that is compiled to one function."""

    ops: tuple[Op, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class UseNet:
    """A named net at this place: its steps, inlined, under their own paths."""

    net: str
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CallPython:
    """A Python callable ``module:function``.

    Attributes:
        arguments: Keyword arguments; arrays are handed over read-only unless the
            argument's name is in ``writable``.
        writable: Names of arguments that the callable may change in place; each is a
            bare blob in ``arguments``.
        outputs: Blobs that receive the result: none, one, or as many as are returned.
        folder: Where the module is looked for first: the spec's own folder.
    """

    target: str
    arguments: tuple[tuple[str, Expr], ...] = ()
    writable: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    folder: str = ""
    deterministic: bool = True
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class RunProgram:
    """A shell command: an argument list, or one line for bash.

    Attributes:
        command: One text per argument; with ``shell`` exactly one, the line.
        env: Environment variables passed on besides PATH, HOME, LANG, TZ, TMPDIR.
        values: ``with``: handed over as ``JOBRUN_<NAME>``.
        results: ``out``: blob, path, member.
        folder: The working directory: the spec's own folder.
        state_dir: The name of a folder that is the program's own, and state of the node; empty
            for none.
    """

    command: tuple[Text, ...]
    shell: bool = False
    env: tuple[str, ...] = ()
    values: tuple[tuple[str, Expr], ...] = ()
    results: tuple[tuple[str, Text, str], ...] = ()
    folder: str = ""
    deterministic: bool = True
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)
    state_dir: str = ""

    @property
    def folders(self) -> tuple[str, ...]:
        """The blob that keeps the folder, if there is one: read before, bound after."""
        return (f"state_dirs/{self.state_dir}",) if self.state_dir else ()


@dataclass(frozen=True, slots=True)
class Loop:
    """Repeat; ``count`` is read again at each pass, None means until stopped."""

    count: Expr | None
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class While:
    """Repeat while ``condition`` (a bool) holds; looked at before each pass."""

    condition: Expr
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class If:
    """The first branch whose condition holds; conditions are evaluated lazily."""

    branches: tuple[tuple[Expr, tuple[Step, ...]], ...]
    otherwise: tuple[Step, ...] = ()
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Stop:
    """Leave the block whose path is ``target``, if ``condition`` (None: always) holds."""

    condition: Expr | None
    target: str
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Guard:
    """A block; afterwards the bool blob ``flag`` tells whether a stop left it."""

    flag: str
    steps: tuple[Step, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Parallel:
    """Branches that run at the same time; the path of branch ``i`` is ``path[i]``."""

    branches: tuple[tuple[Step, ...], ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One blob and the file (and member of it, if it has members) it comes from or goes to.

    ``path`` is relative to ``folder`` unless absolute.
    """

    blob: str
    path: Text
    member: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class Pull:
    """Read blobs of nodes' global workspaces, a copy of each, and bind what they make together."""

    blobs: tuple[PulledBlob, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Load:
    """Read data files into blobs."""

    files: tuple[DataFile, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Save:
    """Write blobs to data files, each of which appears whole or not at all."""

    files: tuple[DataFile, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Log:
    """A line for the reader of the run."""

    text: Text
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Record:
    """Named numbers for the run's metrics."""

    values: tuple[tuple[str, Expr], ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Assert:
    """Fail the task unless ``condition`` (a bool) holds."""

    condition: Expr
    message: Text
    text: str = ""
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class SaveState:
    """Begin to save the node's state blobs ``names``; they will be the file ``file``.

    The runner's checkpoint plan makes it. The task's output ``ticket`` is what is held (see
    ``checkpoint.plan.Ticket``); where it is written is said later, while other groups may run.

    Attributes:
        compression: Patterns of blob names and codecs; see ``core.compression``.
        origins: Of some blobs the place of the step that makes them first.
        objects: Blobs whose state is saved too, where they hold an object.
    """

    file: str
    names: tuple[str, ...]
    run_id: str
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)
    compression: Rules = ()
    origins: tuple[tuple[str, str], ...] = ()
    objects: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadState:
    """Read the node's state blobs ``names`` from the checkpoint file ``file``, all or none.

    The task's output ``file`` is the facts about the file, ``names`` what was read.

    Attributes:
        digest: What the manifest says of the file; nothing is read before it agrees.
        partial: Leave out names that are not there, and put the others into the group run's
            workspace, from which ``AdoptState`` takes them.
        objects: Blobs that take a stored state in, where they hold an object.
        parts: What else is read, from any files; ``file`` is empty where that is all.
    """

    file: str
    names: tuple[str, ...]
    epoch: int
    run_id: str
    digest: str
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)
    partial: bool = False
    objects: tuple[str, ...] = ()
    parts: tuple[FilePart, ...] = ()


@dataclass(frozen=True, slots=True)
class AdoptState:
    """Put blobs of the group run's workspace into the node's; names that it lacks stay out."""

    names: tuple[str, ...]
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class CopyState:
    """Copy a node's checkpoint file into the directory ``staged``, durably; kept if it is there.

    The plan of an upload makes this, and the next. The task's output ``file`` is the facts.

    Attributes:
        file: The file of a committed epoch.
        node: Whose state it holds; like the next two, as the manifest says.
        size_bytes: Its length.
        digest: Of its whole content.
    """

    file: str
    staged: str
    node: str
    size_bytes: int
    digest: str
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class PublishCopy:
    """Make the copy of an epoch exist at ``target``, whole; it never replaces a different one.

    Attributes:
        directory: That of the committed epoch.
        staged: Where all its files have been copied to.
    """

    directory: str
    staged: str
    target: str
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


Step = (
    Net
    | UseNet
    | CallPython
    | RunProgram
    | Loop
    | While
    | If
    | Stop
    | Guard
    | Parallel
    | Pull
    | Load
    | Save
    | Log
    | Record
    | Assert
    | SaveState
    | LoadState
    | AdoptState
    | CopyState
    | PublishCopy
)
